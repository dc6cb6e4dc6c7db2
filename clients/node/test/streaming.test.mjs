// Streams: by id prefix and by collection query, complete and in order.

import assert from "node:assert/strict";
import { test } from "node:test";

import { databaseForThisFile, readAll, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("streaming");
const readings = Array.from({ length: 3000 }, (_, i) => ({ i, text: `reading ${i} – ⚡` }));
const idOf = (i) => `readings/${String(i).padStart(5, "0")}`;

const insert = store.bulkInsert();
for (const reading of readings) {
  await insert.store(reading, idOf(reading.i), { "@collection": "Readings" });
}
await insert.finish();
await storeAll(store, "Others", { "others/1": { i: -1 } });

test("a stream by prefix returns all documents in id order with their metadata", async () => {
  const session = store.openSession();
  const rows = await readAll(await session.advanced.stream("readings/"));
  assert.deepEqual(
    rows.map((row) => row.id),
    readings.map((reading) => idOf(reading.i)),
  );
  assert.deepEqual(
    rows.map((row) => row.document.text),
    readings.map((reading) => reading.text),
  );
  assert.ok(rows.every((row) => row.changeVector && row.metadata["@collection"] === "Readings"));
});

test("a stream by prefix honours start, pageSize, startAfter and matches", async () => {
  const ids = async (options) => {
    const stream = await store.openSession().advanced.stream("readings/", options);
    return (await readAll(stream)).map((row) => row.document.i);
  };
  assert.deepEqual(await ids({ start: 5, pageSize: 3 }), [5, 6, 7]);
  assert.deepEqual(await ids({ startAfter: idOf(2997) }), [2998, 2999]);
  assert.deepEqual(await ids({ matches: "0000?", pageSize: 100 }), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test("a stream by an unknown prefix ends at once", async () => {
  assert.deepEqual(await readAll(await store.openSession().advanced.stream("nowhere/")), []);
});

test("a stream of a collection query returns the whole collection with statistics", async () => {
  const session = store.openSession();
  let statistics;
  const query = session.query({ collection: "Readings" });
  const rows = await readAll(await session.advanced.stream(query, (value) => (statistics = value)));
  assert.deepEqual(
    rows.map((row) => row.document.i),
    readings.map((reading) => reading.i),
  );
  assert.equal(statistics.totalResults, readings.length);
});

test("a stream of a raw query honours limit and prefix", async () => {
  const stream = async (text) => {
    const session = store.openSession();
    const rows = await readAll(await session.advanced.stream(session.advanced.rawQuery(text)));
    return rows.map((row) => row.document.i);
  };
  assert.deepEqual(await stream("from Readings limit 2 offset 100"), [100, 101]);
  assert.deepEqual(
    await stream("from Readings where startsWith(id(), 'readings/0299') limit 3"),
    [2990, 2991, 2992],
  );
  assert.deepEqual(await stream("from Others"), [-1]);
});

test("eight streams at once see the same documents", async () => {
  const counts = await Promise.all(
    Array.from(
      { length: 8 },
      async () => (await readAll(await store.openSession().advanced.stream("readings/"))).length,
    ),
  );
  assert.deepEqual(counts, Array(8).fill(readings.length));
});

test("documents can be written while a stream is being read", async () => {
  const session = store.openSession();
  const stream = await session.advanced.stream("readings/");
  let count = 0;
  for await (const row of stream) {
    if (count % 500 === 0) await storeAll(store, "Marks", { [`marks/${row.id}`]: { count } });
    count += 1;
  }
  assert.equal(count, readings.length);
  assert.equal((await store.openSession().query({ collection: "Marks" }).all()).length, 6);
});
