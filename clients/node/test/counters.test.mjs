// Counters: counted by sessions, operations, patches and bulk inserts, included, selected, indexed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const {
  CounterBatch,
  CounterBatchOperation,
  CounterOperation,
  DocumentCountersOperation,
  GetCountersOperation,
  PatchOperation,
  PatchRequest,
  PutIndexesOperation,
  IndexDefinition,
} = client;
const store = await databaseForThisFile("counters");
await storeAll(store, "Huts", {
  "huts/1": { name: "Monte Rosa", sister: "huts/2" },
  "huts/2": { name: "Bordier" },
});

async function countersOf(id) {
  return (await store.openSession().countersFor(id).getAll()) ?? {};
}

test("a session increments counters, and another one reads them", async () => {
  const session = store.openSession();
  const counters = session.countersFor("huts/1");
  counters.increment("guests", 40);
  counters.increment("nights");
  await session.saveChanges();
  assert.deepEqual({ ...(await countersOf("huts/1")) }, { guests: 40, nights: 1 });
  const other = store.openSession();
  const hut = await other.load("huts/1");
  other.countersFor(hut).increment("guests", -5);
  await other.saveChanges();
  assert.equal(await store.openSession().countersFor("huts/1").get("guests"), 35);
  assert.equal(await store.openSession().countersFor("huts/1").get("nothing"), null);
  const metadata = store.openSession();
  assert.deepEqual(metadata.advanced.getCountersFor(await metadata.load("huts/1")) ?? [], ["guests", "nights"]);
});

test("a deleted counter starts again at zero", async () => {
  const session = store.openSession();
  session.countersFor("huts/1").delete("nights");
  await session.saveChanges();
  assert.deepEqual({ ...(await countersOf("huts/1")) }, { guests: 35 });
  const again = store.openSession();
  again.countersFor("huts/1").increment("nights", 2);
  await again.saveChanges();
  assert.equal(await store.openSession().countersFor("huts/1").get("nights"), 2);
});

test("counters are included with loaded documents", async () => {
  const session = store.openSession();
  const hut = await session.load("huts/1", { includes: (include) => include.includeCounter("guests") });
  const requests = session.advanced.numberOfRequests;
  assert.equal(await session.countersFor(hut).get("guests"), 35);
  assert.equal(session.advanced.numberOfRequests, requests);
  const all = store.openSession();
  await all.load("huts/1", { includes: (include) => include.includeAllCounters() });
  const asked = all.advanced.numberOfRequests;
  assert.deepEqual({ ...(await all.countersFor("huts/1").getAll()) }, { guests: 35, nights: 2 });
  assert.equal(all.advanced.numberOfRequests, asked);
});

test("counters are included with queries, and selected", async () => {
  const session = store.openSession();
  const huts = await session.query({ collection: "Huts" }).include((include) => include.includeCounter("guests")).all();
  assert.equal(huts.length, 2);
  const requests = session.advanced.numberOfRequests;
  assert.equal(await session.countersFor("huts/1").get("guests"), 35);
  assert.equal(await session.countersFor("huts/2").get("guests"), null);
  assert.equal(session.advanced.numberOfRequests, requests);
  const rows = await store
    .openSession()
    .advanced.rawQuery("from Huts as h select h.name, counter(h, 'guests') as guests")
    .all();
  assert.deepEqual(rows.map((row) => row.guests).sort(), [35, null]);
});

test("operations change and read counters of several documents at once", async () => {
  const batchOf = (documentId, ...operations) =>
    Object.assign(new DocumentCountersOperation(), { documentId, operations });
  const first = batchOf(
    "huts/1",
    CounterOperation.create("guests", "Increment", 5),
    CounterOperation.create("nights", "Delete"),
  );
  const second = batchOf("huts/2", CounterOperation.create("guests", "Increment", 7));
  const batch = new CounterBatch();
  batch.documents = [first, second];
  await store.operations.send(new CounterBatchOperation(batch));
  const details = await store.operations.send(new GetCountersOperation("huts/1", ["guests", "nights"]));
  assert.equal(details.counters[0].totalValue, 40);
  assert.equal(details.counters[1], null);
  const full = await store.operations.send(new GetCountersOperation("huts/2", "guests", true));
  assert.deepEqual(Object.values(full.counters[0].counterValues), [7]);
});

test("a counter of a missing document is refused", async () => {
  const session = store.openSession();
  session.countersFor("huts/none").increment("guests");
  await assert.rejects(session.saveChanges(), { name: "DocumentDoesNotExistException" });
});

test("patches increment counters", async () => {
  const request = PatchRequest.forScript("incrementCounter(this, 'guests', args.by); this.seen = counter(this, 'guests');");
  request.values = { by: 2 };
  await store.operations.send(new PatchOperation("huts/2", null, request));
  const hut = await store.openSession().load("huts/2");
  assert.equal(hut.seen, 9);
  assert.equal(await store.openSession().countersFor("huts/2").get("guests"), 9);
});

test("bulk inserts increment counters", async () => {
  const insert = store.bulkInsert();
  await insert.store({ name: "Mischabel", "@metadata": { "@collection": "Huts" } }, "huts/3");
  const counters = insert.countersFor("huts/3");
  for (let number = 0; number < 200; number++) await counters.increment(`c${number % 50}`, number);
  await insert.finish();
  const all = await countersOf("huts/3");
  assert.equal(Object.keys(all).length, 50);
  assert.equal(all.c7, 7 + 57 + 107 + 157);
});

test("an index of counters is queried like any other", async () => {
  const index = new IndexDefinition();
  index.name = "Huts/Guests";
  index.maps = new Set(["from c in counters.Huts.guests select new { c.Value, c.DocumentId }"]);
  await store.maintenance.send(new PutIndexesOperation(index));
  const rows = await store
    .openSession()
    .query({ indexName: "Huts/Guests" })
    .waitForNonStaleResults()
    .whereGreaterThan("Value", 10)
    .all();
  assert.deepEqual(rows.map((row) => [row.DocumentId, row.Value]), [["huts/1", 40]]);
});
