// Bulk insert: thousands of documents, plain and compressed, ids of all kinds, overwriting, errors.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, loadFresh, openStore, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("bulk");

async function countOf(collection) {
  const statistics = await store.maintenance.send(new client.GetCollectionStatisticsOperation());
  return statistics.collections[collection] ?? 0;
}

for (const useCompression of [false, true]) {
  test(`5,000 documents arrive ${useCompression ? "compressed" : "plain"}`, async () => {
    const collection = useCompression ? "Squeezed" : "Plain";
    const insert = store.bulkInsert({ useCompression });
    for (let i = 0; i < 5000; i++) {
      const entity = { i, text: "æøå ".repeat(i % 40) };
      await insert.store(entity, `${collection}/${i}`, { "@collection": collection });
    }
    await insert.finish();
    assert.equal(await countOf(collection), 5000);
    for (const i of [0, 39, 2500, 4999]) {
      const loaded = await loadFresh(store, `${collection}/${i}`);
      assert.deepEqual([loaded.i, loaded.text], [i, "æøå ".repeat(i % 40)]);
    }
  });
}

test("HiLo ids, own ids and metadata can be mixed", async () => {
  class Gauge {
    constructor(n) {
      this.n = n;
    }
  }
  const insert = store.bulkInsert();
  for (let n = 0; n < 100; n++) await insert.store(new Gauge(n));
  await insert.store(new Gauge(100), "gauges/own");
  await insert.store(new Gauge(101), "gauges/meta", { "@collection": "Gauges", Site: "north" });
  await insert.finish();

  assert.equal(await countOf("Gauges"), 102);
  assert.equal((await loadFresh(store, "gauges/own")).n, 100);
  const session = store.openSession();
  assert.equal(session.advanced.getMetadataFor(await session.load("gauges/meta")).Site, "north");
});

test("bulk insert overwrites existing documents", async () => {
  await storeAll(store, "Tags", { "tags/1": { n: 1, old: true } });
  const insert = store.bulkInsert();
  await insert.store({ n: 2 }, "tags/1", { "@collection": "Tags" });
  await insert.finish();
  const loaded = await loadFresh(store, "tags/1");
  assert.deepEqual([loaded.n, loaded.old], [2, undefined]);
});

test("the last of two documents under one id wins", async () => {
  const insert = store.bulkInsert();
  for (const n of [1, 2, 3]) await insert.store({ n }, "tags/same", { "@collection": "Tags" });
  await insert.finish();
  assert.equal((await loadFresh(store, "tags/same")).n, 3);
});

test("large documents pass through a bulk insert", async () => {
  const text = "0123456789abcdef".repeat(32 * 1024);
  const insert = store.bulkInsert();
  for (let n = 0; n < 4; n++) await insert.store({ n, text }, `large/${n}`, { "@collection": "Large" });
  await insert.finish();
  for (let n = 0; n < 4; n++) assert.equal((await loadFresh(store, `large/${n}`)).text, text);
});

test("an empty bulk insert succeeds", async () => {
  await store.bulkInsert().finish();
});

test("three bulk inserts run concurrently", async () => {
  await Promise.all(
    ["x", "y", "z"].map(async (lane) => {
      const insert = store.bulkInsert();
      for (let i = 0; i < 1000; i++) {
        await insert.store({ i }, `lanes/${lane}${i}`, { "@collection": "Lanes" });
      }
      await insert.finish();
    }),
  );
  assert.equal(await countOf("Lanes"), 3000);
});

test("a bulk insert into a missing database fails", async () => {
  const missing = openStore(`${store.database}-missing`);
  const insert = missing.bulkInsert();
  try {
    await assert.rejects(insert.store({ n: 1 }, "tags/2"), { name: "DatabaseDoesNotExistException" });
  } finally {
    await insert.finish();
    missing.dispose();
  }
});

test("one document that the server refuses fails the bulk insert", async () => {
  await storeAll(store, "Tags", { "tags/fixed": { n: 1 } });
  const insert = store.bulkInsert();
  await assert.rejects(
    async () => {
      await insert.store({ n: 2 }, "tags/fixed", { "@collection": "Labels" });
      await insert.finish();
    },
    { name: "BulkInsertAbortedException" },
  );
  assert.equal((await loadFresh(store, "tags/fixed")).n, 1);
});
