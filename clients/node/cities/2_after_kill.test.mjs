// After SIGKILL and a restart all acknowledged data is present, byte for byte.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";

import { assertAllCities, cityById, collection, idPrefix } from "../support/cities.mjs";
import { assertCityTotals } from "../support/city_totals.mjs";
import { client, openStore } from "../support/client.mjs";

const store = openStore(process.env.CORVUS_TEST_CITIES_DATABASE);
after(() => store.dispose());
const state = JSON.parse(await readFile(process.env.CORVUS_TEST_STATE, "utf8"));

test("the statistics are unchanged", async () => {
  const statistics = await store.maintenance.send(new client.GetStatisticsOperation());
  assert.equal(statistics.lastDocEtag, state.lastDocEtag);
  assert.equal(statistics.databaseChangeVector, state.databaseChangeVector);
  const collections = await store.maintenance.send(new client.GetCollectionStatisticsOperation());
  assert.deepEqual({ ...collections.collections }, { [collection]: cityById.size, Notes: 1 });
});

test("every city is streamed back by prefix and by collection", { timeout: 180_000 }, async () => {
  const session = store.openSession();
  await assertAllCities(await session.advanced.stream(idPrefix), "byId");
  await assertAllCities(await session.advanced.stream(session.query({ collection })), "inserted");
});

test("the totals still equal those of a loop", { timeout: 180_000 }, () => assertCityTotals(store));

test("the changed note kept its change vector, the deleted one stays deleted", async () => {
  const session = store.openSession();
  const note = await session.load("notes/kept");
  assert.equal(note.text, "changed before the server goes away");
  assert.equal(session.advanced.getChangeVectorFor(note), state.noteChangeVector);
  assert.equal(await session.load("notes/removed"), null);
});

test("new writes continue after the old ones", async () => {
  const session = store.openSession();
  await session.store({ text: "after", "@metadata": { "@collection": "Notes" } }, "notes/after");
  await session.saveChanges();
  const statistics = await store.maintenance.send(new client.GetStatisticsOperation());
  assert.ok(statistics.lastDocEtag > state.lastDocEtag);
});
