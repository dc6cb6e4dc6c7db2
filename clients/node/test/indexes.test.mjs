// Queries that need an index: automatic ones, definitions in C# and in JavaScript, waiting for them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("indexes");

await storeAll(store, "Ports", {
  "ports/1": { name: "Lisbon", country: "PT", berths: 12, depth: 14.5, tags: ["river", "old"] },
  "ports/2": { name: "Porto", country: "PT", berths: 4, depth: 9, tags: ["river"] },
  "ports/3": { name: "Hamburg", country: "DE", berths: 30, depth: 15.1, tags: [] },
  "ports/4": { name: "Old Harbour of Bremen", country: "DE", berths: null, depth: 7.25 },
});
await storeAll(store, "Ships", {
  "ships/1": { name: "Ann", port: "ports/1", built: "1999-05-01T00:00:00.0000000Z" },
  "ships/2": { name: "Bob", port: "ports/3", built: "2010-01-01T12:30:00.0000000Z" },
  "ships/3": { name: "Cid", port: "ports/9", built: null },
});

const idsOf = (rows) => rows.map((row) => row.id ?? row["@metadata"]["@id"]);
const ports = () => store.openSession().query({ collection: "Ports" }).waitForNonStaleResults();
const raw = (text, parameters = {}) => {
  const query = store.openSession().advanced.rawQuery(text).waitForNonStaleResults();
  for (const [name, value] of Object.entries(parameters)) query.addParameter(name, value);
  return query;
};

test("conditions on fields find documents through an automatic index", async () => {
  let statistics;
  const rows = await ports()
    .statistics((value) => (statistics = value))
    .whereEquals("country", "PT")
    .andAlso()
    .whereGreaterThan("berths", 5)
    .all();
  assert.deepEqual(idsOf(rows), ["ports/1"]);
  assert.equal(statistics.indexName, "Auto/Ports/ByberthsAndcountry");
  assert.equal(statistics.totalResults, 1);
  assert.equal(statistics.isStale ?? statistics.stale, false);
});

test("strings are compared without case unless exactly", async () => {
  assert.deepEqual(idsOf(await ports().whereEquals("name", "LISBON").all()), ["ports/1"]);
  assert.deepEqual(idsOf(await ports().whereEquals("name", "LISBON", true).all()), []);
  assert.deepEqual(idsOf(await ports().whereEquals("name", "Lisbon", true).all()), ["ports/1"]);
});

test("lists, ranges, prefixes, suffixes and negations return the matching documents", async () => {
  const chosen = async (query) => idsOf(await query.all()).sort();
  assert.deepEqual(await chosen(ports().whereIn("country", ["pt"])), ["ports/1", "ports/2"]);
  assert.deepEqual(await chosen(ports().whereBetween("depth", 8.5, 14.5)), ["ports/1", "ports/2"]);
  assert.deepEqual(await chosen(ports().whereStartsWith("name", "old")), ["ports/4"]);
  assert.deepEqual(await chosen(ports().whereEndsWith("name", "o")), ["ports/2"]);
  assert.deepEqual(await chosen(ports().whereNotEquals("country", "DE")), ["ports/1", "ports/2"]);
  assert.deepEqual(await chosen(ports().whereEquals("berths", null)), ["ports/4"]);
  assert.deepEqual(await chosen(ports().whereExists("tags")), ["ports/1", "ports/2"]);
  assert.deepEqual(await chosen(ports().containsAll("tags", ["river", "old"])), ["ports/1"]);
  assert.deepEqual(await chosen(ports().containsAny("tags", ["old", "new"])), ["ports/1"]);
});

test("full-text search finds any or all of the words", async () => {
  const found = async (...search) => idsOf(await ports().search("name", ...search).all()).sort();
  assert.deepEqual(await found("harbour lisbon"), ["ports/1", "ports/4"]);
  assert.deepEqual(await found("old bremen", "AND"), ["ports/4"]);
  assert.deepEqual(await found("hamb*"), ["ports/3"]);
});

test("rows are returned in the requested order, page by page", async () => {
  const ordered = (type) => ports().orderByDescending("depth", type);
  assert.deepEqual(idsOf(await ordered("Double").all()), ["ports/3", "ports/1", "ports/2", "ports/4"]);
  assert.deepEqual(idsOf(await ordered("Double").skip(1).take(2).all()), ["ports/1", "ports/2"]);
  assert.deepEqual(idsOf(await ports().orderBy("name").all()), ["ports/3", "ports/1", "ports/4", "ports/2"]);
});

test("a change is found by a query that waits for it", async () => {
  const session = store.openSession();
  await session.store({ name: "Vigo", country: "ES", "@metadata": { "@collection": "Ports" } }, "ports/5");
  await session.saveChanges();
  assert.deepEqual(idsOf(await ports().whereEquals("country", "ES").all()), ["ports/5"]);
  await session.delete("ports/5");
  await session.saveChanges();
  assert.deepEqual(idsOf(await ports().whereEquals("country", "ES").all()), []);
});

test("scripts project the rows of a query, with loaded documents", async () => {
  const rows = await raw(
    "from Ships as s where s.name != $name load s.port as p select { ship: s.name, at: p.name }",
    { name: "Bob" },
  ).all();
  assert.deepEqual(
    rows.map(({ ship, at }) => ({ ship, at })),
    [
      { ship: "Ann", at: "Lisbon" },
      { ship: "Cid", at: null },
    ],
  );
});

test("a definition in C# is stored, kept up to date and queried by name", async () => {
  const definition = new client.IndexDefinition();
  definition.name = "Ships/ByPort";
  definition.maps = new Set([
    `from s in docs.Ships
     let p = LoadDocument(s.port, "Ports")
     select new { s.name, Country = p.country, Year = s.built.Year }`,
  ]);
  await store.maintenance.send(new client.PutIndexesOperation(definition));
  const chosen = async (condition) =>
    idsOf(await raw(`from index 'Ships/ByPort' where ${condition}`).all());
  assert.deepEqual(await chosen("Country = 'de'"), ["ships/2"]);
  assert.deepEqual(await chosen("Year < 2000"), ["ships/1"]);
  const stored = await store.maintenance.send(new client.GetIndexOperation("Ships/ByPort"));
  assert.equal(stored.name, "Ships/ByPort");
  const statistics = await store.maintenance.send(new client.GetIndexStatisticsOperation("Ships/ByPort"));
  assert.equal(statistics.entriesCount, 3);
  assert.equal(statistics.isStale ?? statistics.stale, false);
});

test("a definition in JavaScript is stored, kept up to date and queried by name", async () => {
  const definition = new client.IndexDefinition();
  definition.name = "Ports/Tags";
  definition.maps = new Set(["map('Ports', p => ({ tag: p.tags }))"]);
  await store.maintenance.send(new client.PutIndexesOperation(definition));
  const rows = await raw("from index 'Ports/Tags' where tag = 'river'").all();
  assert.deepEqual(idsOf(rows).sort(), ["ports/1", "ports/2"]);
  const terms = await store.maintenance.send(new client.GetTermsOperation("Ports/Tags", "tag", null));
  assert.deepEqual(terms, ["old", "river"]);
});

test("a definition that is not C# is rejected with the reason", async () => {
  const definition = new client.IndexDefinition();
  definition.name = "Bad";
  definition.maps = new Set(["from s in docs.Ships select new { s.name"]);
  await assert.rejects(
    store.maintenance.send(new client.PutIndexesOperation(definition)),
    (error) => error.name === "IndexCompilationException",
  );
});

test("a deleted index no longer exists", async () => {
  const definition = new client.IndexDefinition();
  definition.name = "Gone";
  definition.maps = new Set(["from s in docs.Ships select new { s.name }"]);
  await store.maintenance.send(new client.PutIndexesOperation(definition));
  await store.maintenance.send(new client.DeleteIndexOperation("Gone"));
  const names = await store.maintenance.send(new client.GetIndexNamesOperation(0, 100));
  assert.ok(!names.includes("Gone"));
});
