// Collection queries: whole collections, all documents, by id, by id prefix, and paging.

import assert from "node:assert/strict";
import { test } from "node:test";

import { databaseForThisFile, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("queries");

const cityIds = Array.from({ length: 40 }, (_, i) => `cities/${String(i).padStart(2, "0")}`);
await storeAll(
  store,
  "Cities",
  Object.fromEntries(cityIds.map((id, n) => [id, { n, river: `rivers/${n % 3}` }])),
);
await storeAll(
  store,
  "Rivers",
  Object.fromEntries([0, 1, 2].map((n) => [`rivers/${n}`, { name: `river ${n}` }])),
);

const raw = (text, parameters = {}) => {
  const query = store.openSession().advanced.rawQuery(text);
  for (const [name, value] of Object.entries(parameters)) query.addParameter(name, value);
  return query;
};
const idsIn = (rows) => rows.map((row) => row["@metadata"]?.["@id"] ?? row.id);

test("a collection query returns every document of the collection in insertion order", async () => {
  const rows = await store.openSession().query({ collection: "Cities" }).all();
  assert.deepEqual(
    rows.map((row) => row.n),
    cityIds.map((_, n) => n),
  );
});

test("the collection name in a query ignores case", async () => {
  assert.equal((await raw("from cities").all()).length, 40);
});

test("the pages of a collection query cover it exactly once", async () => {
  const seen = [];
  for (let start = 0; start < 45; start += 7) {
    const rows = await store.openSession().query({ collection: "Cities" }).skip(start).take(7).all();
    seen.push(...rows.map((row) => row.n));
  }
  assert.deepEqual(
    seen,
    cityIds.map((_, n) => n),
  );
});

test("limit in the text of a raw query pages as well, in both spellings", async () => {
  const rows = async (text) => (await raw(text).all()).map((row) => row.n);
  assert.deepEqual(await rows("from Cities limit 5"), [0, 1, 2, 3, 4]);
  assert.deepEqual(await rows("from Cities limit 3 offset 10"), [10, 11, 12]);
  assert.deepEqual(await rows("from Cities limit 10, 3"), [10, 11, 12]);
  assert.deepEqual(await rows("from Cities limit 0"), []);
  assert.deepEqual(await rows("from Cities limit 5 offset 100"), []);
});

test("statistics of a collection query count the whole collection", async () => {
  let statistics;
  await store
    .openSession()
    .query({ collection: "Cities" })
    .statistics((value) => (statistics = value))
    .take(5)
    .all();
  assert.equal(statistics.totalResults, 40);
  assert.equal(statistics.indexName, "collection/Cities");
  assert.equal(statistics.isStale, false);
});

test("a query over an unknown collection is empty", async () => {
  assert.deepEqual(await raw("from Volcanoes").all(), []);
  assert.equal(await store.openSession().query({ collection: "Volcanoes" }).firstOrNull(), null);
});

test("from @all_docs returns documents of every collection", async () => {
  const rows = await raw("from @all_docs").all();
  const ids = new Set(idsIn(rows));
  assert.ok(cityIds.every((id) => ids.has(id)));
  assert.ok(ids.has("rivers/2"));
});

test("a query by id finds one document, ignoring case, or none", async () => {
  const byId = (id) => raw("from Cities where id() = $id", { id }).all();
  assert.deepEqual(
    (await byId("cities/07")).map((row) => row.n),
    [7],
  );
  assert.deepEqual(
    (await byId("CITIES/07")).map((row) => row.n),
    [7],
  );
  assert.deepEqual(await byId("cities/99"), []);
  assert.deepEqual(await byId("rivers/1"), [], "a document of another collection is not found");
  const typed = await store
    .openSession()
    .query({ collection: "Cities" })
    .whereEquals("id()", "cities/08")
    .all();
  assert.deepEqual(
    typed.map((row) => row.n),
    [8],
  );
});

test("a query by several ids returns them in id order", async () => {
  const rows = await raw("from Cities where id() in ($ids)", {
    ids: ["cities/30", "cities/02", "cities/99", "cities/11"],
  }).all();
  assert.deepEqual(
    rows.map((row) => row.n),
    [2, 11, 30],
  );
});

test("a query by id prefix returns the matching documents in id order", async () => {
  const rows = await raw("from Cities where startsWith(id(), $prefix)", { prefix: "cities/1" }).all();
  assert.deepEqual(
    rows.map((row) => row.n),
    [10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
  );
  const typed = await store
    .openSession()
    .query({ collection: "Cities" })
    .whereStartsWith("id()", "cities/3")
    .skip(2)
    .take(3)
    .all();
  assert.deepEqual(
    typed.map((row) => row.n),
    [32, 33, 34],
  );
});

test("a query from @all_docs by prefix crosses collections", async () => {
  const rows = await raw("from @all_docs where startsWith(id(), 'rivers/')").all();
  assert.deepEqual(
    rows.map((row) => row.name),
    ["river 0", "river 1", "river 2"],
  );
});

test("an include in a query returns the referenced documents", async () => {
  const session = store.openSession();
  const rows = await session.advanced.rawQuery("from Cities include river").all();
  assert.equal((await session.load(rows[4].river)).name, "river 1");
  assert.equal(session.advanced.numberOfRequests, 1);
});

test("first, single and any work on a collection query", async () => {
  const rivers = () => store.openSession().query({ collection: "Rivers" });
  assert.equal((await rivers().first()).name, "river 0");
  assert.equal(await rivers().any(), true);
  assert.equal(await rivers().count(), 3);
  await assert.rejects(rivers().single(), { name: "InvalidOperationException" });
});

test("a queried document is tracked by the session and can be changed", async () => {
  await storeAll(store, "Lakes", { "lakes/1": { depth: 10 } });
  const session = store.openSession();
  (await session.query({ collection: "Lakes" }).first()).depth = 250;
  await session.saveChanges();
  assert.equal((await store.openSession().load("lakes/1")).depth, 250);
});

test("a query sees what was just saved and not what was deleted", async () => {
  for (let round = 0; round < 5; round++) {
    await storeAll(store, "Drops", { [`drops/${round}`]: { round } });
    assert.equal((await raw("from Drops").all()).length, 1);
    const session = store.openSession();
    await session.delete(`drops/${round}`);
    await session.saveChanges();
    assert.equal((await raw("from Drops").all()).length, 0);
  }
});

test("an invalid query is rejected with a parse error", async () => {
  for (const text of [
    "selec Cities",
    "from",
    "from Cities where",
    "from Cities limit -1",
    "from Cities limit a",
  ]) {
    await assert.rejects(raw(text).all(), `accepted: ${text}`);
  }
});
