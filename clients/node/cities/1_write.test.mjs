// All cities of the world are stored by a bulk insert and returned unchanged.
//
// The database is kept for the files 2 and 3, which clients/run starts after it has killed and
// stopped the server. This part writes what they compare to the file CORVUS_TEST_STATE.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { after, test } from "node:test";

import { assertAllCities, cityById, collection, idPrefix, idsInOrder } from "../support/cities.mjs";
import { assertCityTotals, defineCityTotals } from "../support/city_totals.mjs";
import { client, createDatabase, openStore } from "../support/client.mjs";

const store = openStore(process.env.CORVUS_TEST_CITIES_DATABASE);
after(() => store.dispose());
await createDatabase(store, store.database);

test("all cities are inserted", { timeout: 180_000 }, async () => {
  assert.ok(cityById.size > 130_000, `only ${cityById.size} cities`);
  const insert = store.bulkInsert({ useCompression: true });
  for (const [id, city] of cityById) {
    await insert.store({ ...city }, id, { "@collection": collection });
  }
  await insert.finish();
});

test("the collection statistics count them", async () => {
  const statistics = await store.maintenance.send(new client.GetCollectionStatisticsOperation());
  assert.equal(statistics.collections[collection], cityById.size);
  assert.equal(statistics.countOfDocuments, cityById.size);
});

test("a stream by id prefix returns every city in id order", { timeout: 180_000 }, async () => {
  await assertAllCities(await store.openSession().advanced.stream(idPrefix), "byId");
});

test("a stream of the collection returns every city as inserted", { timeout: 180_000 }, async () => {
  const session = store.openSession();
  await assertAllCities(await session.advanced.stream(session.query({ collection })), "inserted");
});

test("a narrow prefix returns the cities whose number starts with it", async () => {
  const narrow = `${idPrefix}29`;
  const expected = idsInOrder.filter((id) => id.startsWith(narrow));
  const session = store.openSession();
  const found = await session.advanced.loadStartingWith(narrow, { pageSize: cityById.size });
  assert.deepEqual(
    found.map((city) => session.advanced.getDocumentId(city)),
    expected,
  );
});

test("a page from the middle of the collection contains the cities inserted there", async () => {
  const rows = await store.openSession().query({ collection }).skip(70_000).take(5).all();
  const expected = [...cityById.values()].slice(70_000, 70_005);
  assert.deepEqual(
    rows.map((row) => row.cityId),
    expected.map((city) => city.cityId),
  );
});

test("totals by country and by first letter equal those of a loop", { timeout: 180_000 }, async () => {
  await defineCityTotals(store);
  await assertCityTotals(store);
});

test("a session changes, deletes and adds a few documents", async () => {
  const session = store.openSession();
  const note = { text: "written before the server goes away" };
  note["@metadata"] = { "@collection": "Notes" };
  await session.store(note, "notes/kept");
  const removed = { text: "to be removed", "@metadata": { "@collection": "Notes" } };
  await session.store(removed, "notes/removed");
  await session.saveChanges();
  note.text = "changed before the server goes away";
  await session.delete(removed);
  await session.saveChanges();

  const statistics = await store.maintenance.send(new client.GetStatisticsOperation());
  const state = {
    noteChangeVector: session.advanced.getChangeVectorFor(note),
    lastDocEtag: statistics.lastDocEtag,
    databaseChangeVector: statistics.databaseChangeVector,
  };
  await writeFile(process.env.CORVUS_TEST_STATE, JSON.stringify(state));
});
