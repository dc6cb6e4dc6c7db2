// Documents that expire or are refreshed at a set time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { client, databaseForThisFile, loadFresh } from "../support/client.mjs";

const { ConfigureExpirationOperation, ConfigureRefreshOperation } = client;
const store = await databaseForThisFile("retention");

const PAST = "2020-01-01T00:00:00.0000000Z";
const FUTURE = "2999-01-01T00:00:00.0000000Z";
const PATIENCE_MILLISECONDS = 30_000;

async function save(id, metadata) {
  const session = store.openSession();
  await session.store({ name: id, "@metadata": { "@collection": "Tickets", ...metadata } }, id);
  await session.saveChanges();
}

async function until(condition) {
  const end = Date.now() + PATIENCE_MILLISECONDS;
  while (Date.now() < end) {
    if (await condition()) return;
    await pause(50);
  }
  assert.fail("it does not happen");
}

test("documents expire at their time, others are kept", async () => {
  await save("tickets/past", { "@expires": PAST });
  await save("tickets/future", { "@expires": FUTURE });
  assert.ok(await loadFresh(store, "tickets/past"), "expiration is not enabled yet");
  const configured = await store.maintenance.send(
    new ConfigureExpirationOperation({ disabled: false, deleteFrequencyInSec: 1 }),
  );
  assert.ok(configured.raftCommandIndex > 0);
  await until(async () => !(await loadFresh(store, "tickets/past")));
  assert.ok(await loadFresh(store, "tickets/future"));
});

test("documents are refreshed at their time, once", async () => {
  await store.maintenance.send(new ConfigureRefreshOperation({ disabled: false, refreshFrequencyInSec: 1 }));
  await save("tickets/refreshed", { "@refresh": PAST, kept: "yes" });
  const metadata = async () => {
    const session = store.openSession();
    return session.advanced.getMetadataFor(await session.load("tickets/refreshed"));
  };
  await until(async () => !(await metadata())["@refresh"]);
  assert.equal((await metadata()).kept, "yes");
});

test("an invalid time is rejected", async () => {
  await assert.rejects(save("tickets/bad", { "@expires": "soon" }), /The expiration date format for document/);
});

test("a frequency of zero is rejected", async () => {
  await assert.rejects(
    store.maintenance.send(new ConfigureExpirationOperation({ disabled: false, deleteFrequencyInSec: 0 })),
    /must be greater than 0/,
  );
});
