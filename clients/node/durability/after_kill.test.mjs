// After a SIGKILL during writes: acknowledged batches are present, no batch is present in part.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";

import { BATCH_DOCUMENTS, WRITERS } from "../support/batches.mjs";
import { client, deleteDatabase, openStore, storeAll } from "../support/client.mjs";

const store = openStore(process.env.CORVUS_TEST_DURABILITY_DATABASE);
after(async () => {
  await deleteDatabase(store, store.database);
  store.dispose();
});
const acknowledged = (await readFile(process.env.CORVUS_TEST_ACKNOWLEDGED, "utf8")).trim().split("\n");

const found = new Map();
for await (const { id, document } of await store.openSession().advanced.stream("batch/")) {
  assert.equal(id, `${document.prefix}${document.i}`);
  found.set(document.prefix, (found.get(document.prefix) ?? 0) + 1);
}

test("every acknowledged batch survived", () => {
  assert.ok(acknowledged.length >= 100, `only ${acknowledged.length} batches were written before the kill`);
  assert.deepEqual(
    acknowledged.filter((prefix) => !found.has(prefix)),
    [],
  );
});

test("no batch survived in part", () => {
  assert.deepEqual(
    [...found].filter(([, count]) => count !== BATCH_DOCUMENTS),
    [],
  );
});

test("of the batches in flight at most one per writer was stored without being acknowledged", () => {
  const unasked = found.size - acknowledged.length;
  assert.ok(unasked >= 0 && unasked <= WRITERS, `${unasked} more batches than acknowledged`);
});

test("the counts match the documents, and writes continue", async () => {
  const count = async () =>
    (await store.maintenance.send(new client.GetCollectionStatisticsOperation())).collections.Batches;
  assert.equal(await count(), found.size * BATCH_DOCUMENTS);
  await storeAll(store, "Batches", { "batch/after": { i: 0 } });
  assert.equal(await count(), found.size * BATCH_DOCUMENTS + 1);
});
