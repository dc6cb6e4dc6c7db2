// Functions in a reduce, data available to its maps, and replacing its definition.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, loadFresh, readAll, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("reduce-functions");

await storeAll(store, "Carriers", {
  "carriers/1": { name: "Swift", home: { city: "Oz", zip: 10 } },
  "carriers/2": { name: "Steady", home: { city: "Ur", zip: 20 } },
});
await storeAll(store, "Shipments", {
  "shipments/1": {
    carrier: "carriers/1", to: "Ur", at: "2026-01-05T10:00:00.0000000Z", weight: 4,
    parts: [{ kind: "box", pieces: 2 }, { kind: "bag", pieces: 1 }], labels: ["fragile"],
  },
  "shipments/2": {
    carrier: "carriers/1", to: "Oz", at: "2026-01-30T23:59:59.0000000Z", weight: 10,
    parts: [{ kind: "box", pieces: 5 }], labels: ["urgent", "fragile"],
  },
  "shipments/3": {
    carrier: "carriers/2", to: "Ur", at: "2026-02-01T00:00:00.0000000Z", weight: 2.5, parts: [], labels: [],
  },
  "shipments/4": { carrier: null, to: "Ur", at: "2026-02-02T00:00:00.0000000Z", weight: 1, parts: null },
});
await storeAll(store, "Topics", {
  "topics/1": {
    title: "Ferries",
    author: "Ann",
    replies: [
      { author: "Bob", replies: [{ author: "Ann", replies: [] }, { author: "Cid", replies: [] }] },
      { author: "Ann", replies: [{ author: "Bob", replies: [] }] },
    ],
  },
  "topics/2": { title: "Trains", author: "Bob", replies: [] },
});

async function define(name, maps, reduce, fields = {}) {
  const definition = new client.IndexDefinition();
  Object.assign(definition, { name, maps: new Set(maps), reduce, fields });
  await store.maintenance.send(new client.PutIndexesOperation(definition));
}

const raw = (text) => store.openSession().advanced.rawQuery(text).waitForNonStaleResults();

/** The named values of each row, in the order of the rows. */
async function rowsOf(query, ...names) {
  return (await query.all()).map((row) => names.map((name) => plain(row[name])));
}

/** The rows in a deterministic order. */
async function setOf(query, ...names) {
  const rows = await rowsOf(query, ...names);
  return rows.sort((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1));
}

/** A value as the client deserialises it, as plain objects. */
const plain = (value) => JSON.parse(JSON.stringify(value ?? null));

test("minimum, maximum, and an average computed from sums", async () => {
  await define(
    "Shipments/Weights",
    ["from s in docs.Shipments select new { s.carrier, s.weight, least = s.weight, most = s.weight, count = 1, mean = 0 }"],
    `from r in results group r by r.carrier into g
     let weight = g.Sum(x => (double)x.weight)
     let count = g.Sum(x => (int)x.count)
     select new { carrier = g.Key, weight = weight, count = count, mean = weight / count,
                  least = g.Min(x => x.least), most = g.Max(x => x.most) }`,
  );
  const names = ["carrier", "weight", "count", "mean", "least", "most"];
  assert.deepEqual(await setOf(raw("from index 'Shipments/Weights'"), ...names), [
    ["carriers/1", 14, 2, 7, 4, 10],
    ["carriers/2", 2.5, 1, 2.5, 2.5, 2.5],
    [null, 1, 1, 1, 1, 1],
  ]);
  const heavy = raw("from index 'Shipments/Weights' where most > 2.5 order by mean as double desc");
  assert.deepEqual(await rowsOf(heavy, "carrier"), [["carriers/1"]]);
});

test("lists are joined, deduplicated and sorted", async () => {
  await define(
    "Shipments/Labels",
    ["from s in docs.Shipments where s.labels != null select new { s.to, s.labels, first = s.at }"],
    `results.GroupBy(r => r.to).Select(g => new {
       to = g.Key, labels = g.SelectMany(x => x.labels).Distinct().OrderByDescending(x => x),
       first = g.OrderBy(x => x.first).Select(x => x.first).First() })`,
  );
  assert.deepEqual(await setOf(raw("from index 'Shipments/Labels'"), "to", "labels", "first"), [
    ["Oz", ["urgent", "fragile"], "2026-01-30T23:59:59.0000000Z"],
    ["Ur", ["fragile"], "2026-01-05T10:00:00.0000000Z"],
  ]);
  const urgent = raw("from index 'Shipments/Labels' where labels = 'urgent'");
  assert.deepEqual(await rowsOf(urgent, "to"), [["Oz"]]);
});

test("Aggregate folds a group", async () => {
  await define(
    "Shipments/Folded",
    ["from s in docs.Shipments select new { s.to, weight = (int)s.weight }"],
    `from r in results group r by r.to into g
     select new { to = g.Key, weight = g.Aggregate(0, (sum, x) => sum + (int)x.weight) }`,
  );
  const rows = await setOf(raw("from index 'Shipments/Folded'"), "to", "weight");
  assert.deepEqual(rows, [["Oz", 10], ["Ur", 7]]);
});

test("every level of a tree is a separate row", async () => {
  await define(
    "Topics/ByAuthor",
    ["from t in docs.Topics from post in Recurse(t, x => x.replies) select new { post.author, count = 1 }"],
    "from r in results group r by r.author into g select new { author = g.Key, count = g.Sum(x => x.count) }",
  );
  const posts = () => rowsOf(raw("from index 'Topics/ByAuthor' order by author"), "author", "count");
  const before = await posts();
  assert.deepEqual(before.filter(([author]) => author !== null), [["Ann", 3], ["Bob", 3], ["Cid", 1]]);
  const session = store.openSession();
  const topic = await session.load("topics/2");
  topic.replies = [{ author: "Cid", replies: [{ author: "Dan", replies: [] }] }];
  await session.saveChanges();
  const after = await posts();
  assert.deepEqual(after.filter(([author]) => author !== null), [["Ann", 3], ["Bob", 3], ["Cid", 2], ["Dan", 1]]);
});

test("values may be objects and lists of objects", async () => {
  await define(
    "Shipments/Nested",
    [
      `from s in docs.Shipments from p in s.parts
       select new { s.to, total = new { p.pieces, shipments = 1 }, kinds = new [] { new { p.kind, p.pieces } } }`,
    ],
    `from r in results group r by r.to into g
     select new { to = g.Key,
       total = new { pieces = g.Sum(x => x.total.pieces), shipments = g.Sum(x => x.total.shipments) },
       kinds = g.SelectMany(x => x.kinds).GroupBy(x => x.kind)
                .Select(k => new { kind = k.Key, pieces = k.Sum(x => x.pieces) }).OrderBy(x => x.kind) }`,
  );
  assert.deepEqual(await setOf(raw("from index 'Shipments/Nested'"), "to", "total", "kinds"), [
    ["Oz", { pieces: 5, shipments: 1 }, [{ kind: "box", pieces: 5 }]],
    ["Ur", { pieces: 3, shipments: 2 }, [{ kind: "bag", pieces: 1 }, { kind: "box", pieces: 2 }]],
  ]);
  const projected = raw("from index 'Shipments/Nested' as n where n.to = 'Ur' select { pieces: n.total.pieces * 2 }");
  assert.deepEqual(await rowsOf(projected, "pieces"), [[6]]);
});

test("keys are computed in the map", async () => {
  await define(
    "Shipments/ByMonth",
    [`from s in docs.Shipments select new { month = ((DateTime)s.at).ToString("yyyy-MM"), year = s.at.Year, count = 1 }`],
    `from r in results group r by new { r.month, r.year } into g
     select new { g.Key.month, g.Key.year, count = g.Sum(x => x.count) }`,
  );
  const rows = await rowsOf(raw("from index 'Shipments/ByMonth' order by month"), "month", "year", "count");
  assert.deepEqual(rows, [["2026-01", 2026, 2], ["2026-02", 2026, 2]]);
});

test("a map in JavaScript is updated when loaded documents change", async () => {
  await define(
    "Shipments/ByHome",
    [
      `map("Shipments", s => {
         const carrier = load(s.carrier, "Carriers");
         return { city: carrier ? carrier.home.city : "nowhere", count: 1, kinds: (s.parts || []).map(p => p.kind) };
       })`,
    ],
    `groupBy(r => r.city).aggregate(g => ({
       city: g.key,
       count: g.values.reduce((sum, row) => sum + row.count, 0),
       kinds: [...new Set(g.values.flatMap(row => row.kinds))].sort(),
     }))`,
  );
  const rows = () => rowsOf(raw("from index 'Shipments/ByHome' order by city"), "city", "count", "kinds");
  assert.deepEqual(await rows(), [["nowhere", 1, []], ["Oz", 2, ["bag", "box"]], ["Ur", 1, []]]);
  const session = store.openSession();
  const carrier = await session.load("carriers/1");
  carrier.home.city = "Ur";
  await session.saveChanges();
  assert.deepEqual(await rows(), [["nowhere", 1, []], ["Ur", 3, ["bag", "box"]]]);
  carrier.home.city = "Oz";
  await session.saveChanges();
});

test("a changed reduce replaces the old one, which answers until then", async () => {
  const map = (count) => [`from s in docs.Shipments select new { s.to, count = ${count} }`];
  const reduce = "from r in results group r by r.to into g select new { to = g.Key, count = g.Sum(x => x.count) }";
  await define("Shipments/Replaced", map(1), reduce);
  const rows = () => setOf(raw("from index 'Shipments/Replaced'"), "to", "count");
  const [old, replaced] = [[["Oz", 1], ["Ur", 3]], [["Oz", 10], ["Ur", 30]]];
  assert.deepEqual(await rows(), old);
  await define("Shipments/Replaced", map(10), reduce);
  for (let found = await rows(); ; found = await rows()) {
    if (JSON.stringify(found) === JSON.stringify(replaced)) break;
    assert.deepEqual(found, old);
  }
  const names = await store.maintenance.send(new client.GetIndexNamesOperation(0, 100));
  assert.deepEqual(names.filter((name) => name.includes("Replaced")), ["Shipments/Replaced"]);
});

test("rows filtered out by every map are in no result, and a key without rows is removed", async () => {
  await define(
    "Shipments/Urgent",
    [`from s in docs.Shipments where s.labels != null && s.labels.Contains("urgent") select new { s.to, count = 1 }`],
    "from r in results group r by r.to into g select new { to = g.Key, count = g.Sum(x => x.count) }",
  );
  const rows = () => setOf(raw("from index 'Shipments/Urgent'"), "to", "count");
  assert.deepEqual(await rows(), [["Oz", 1]]);
  const session = store.openSession();
  const shipment = await session.load("shipments/2");
  shipment.labels = [];
  await session.saveChanges();
  assert.deepEqual(await rows(), []);
  shipment.labels = ["urgent", "fragile"];
  await session.saveChanges();
  assert.deepEqual(await rows(), [["Oz", 1]]);
});

test("results are faceted and streamed like documents", async () => {
  await define(
    "Shipments/Totals",
    ["from s in docs.Shipments select new { s.carrier, s.to, s.weight }"],
    `from r in results group r by new { r.carrier, r.to } into g
     select new { g.Key.carrier, g.Key.to, weight = g.Sum(x => x.weight) }`,
  );
  const facets = await raw("from index 'Shipments/Totals' select facet(to, sum(weight))").executeAggregation();
  const rows = facets.to.values.map(({ range, count, sum }) => [range, count, sum]);
  assert.deepEqual(rows, [["oz", 1, 10], ["ur", 3, 7.5]]);
  const session = store.openSession();
  const query = session.advanced.rawQuery("from index 'Shipments/Totals' where weight > 1 order by weight as double");
  const streamed = await readAll(await session.advanced.stream(query));
  assert.deepEqual(streamed.map(({ document }) => document.weight), [2.5, 4, 10]);
});

test("a group can be projected by a script", async () => {
  const rows = raw(
    `declare function line(city, count) { return city + ": " + count; }
     from Shipments as s group by s.to order by to select { line: line(key(), count()) }`,
  );
  assert.deepEqual(await rowsOf(rows, "line"), [["Oz: 1"], ["Ur: 3"]]);
  const both = raw("from Shipments as s group by s.to, s.carrier select { key: key(), mean: sum(s => s.weight) / count() }");
  assert.deepEqual(
    (await setOf(both, "key", "mean")).find(([key]) => key.to === "Oz"),
    [{ carrier: "carriers/1", to: "Oz" }, 10],
  );
});

test("groups by element sum other properties of the element", async () => {
  const query = store
    .openSession()
    .query({ collection: "Shipments" })
    .waitForNonStaleResults()
    .groupBy("parts[].kind")
    .selectKey("parts[].kind", "kind")
    .selectSum(new client.GroupByField("parts[].pieces", "pieces"));
  assert.deepEqual(await setOf(query, "kind", "pieces"), [["bag", 1], ["box", 7], [null, 0]]);
});

test("groups are filtered by their sums", async () => {
  const text = `from Shipments group by to where weight > 8 select key() as city, sum(weight) as weight`;
  assert.deepEqual(await rowsOf(raw(text), "city", "weight"), [["Oz", 10]]);
});

test("a reduce with other fields than its map is rejected", async () => {
  const reduce = "from r in results group r by r.to into g select new { to = g.Key, sum = g.Sum(x => x.count) }";
  await assert.rejects(
    define("Shipments/Wrong", ["from s in docs.Shipments select new { s.to, count = 1 }"], reduce),
    (error) => error.name === "IndexCompilationException",
  );
  assert.ok(await loadFresh(store, "shipments/1"));
});
