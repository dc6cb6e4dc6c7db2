// Map-reduce: definitions in C# and in JavaScript, several maps, and `group by`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("map-reduce");

await storeAll(store, "Orders", {
  "orders/1": { company: "companies/1", total: 10, tags: ["new", "gift"] },
  "orders/2": { company: "companies/2", total: 2.5, tags: ["gift"] },
  "orders/3": { company: "companies/1", total: 7, tags: [] },
  "orders/4": { company: null, total: 1 },
});
await storeAll(store, "Companies", {
  "companies/1": { name: "Ann & Co", city: "Oz" },
  "companies/2": { name: "Bob Ltd", city: "Ur" },
});

const raw = (text, parameters = {}) => {
  const query = store.openSession().advanced.rawQuery(text).waitForNonStaleResults();
  for (const [name, value] of Object.entries(parameters)) query.addParameter(name, value);
  return query;
};
/** The rows of a query without the properties that clients add. */
const rowsOf = async (query, ...names) =>
  (await query.all()).map((row) => names.map((name) => row[name]));

async function define(name, maps, reduce) {
  const definition = new client.IndexDefinition();
  Object.assign(definition, { name, maps: new Set(maps), reduce });
  await store.maintenance.send(new client.PutIndexesOperation(definition));
}

test("a reduce in C# computes a total per key", async () => {
  await define(
    "Orders/ByCompany",
    ["from o in docs.Orders select new { o.company, o.total, count = 1 }"],
    `from r in results group r by r.company into g
     select new { company = g.Key, total = g.Sum(x => x.total), count = g.Sum(x => x.count) }`,
  );
  const totals = () =>
    rowsOf(raw("from index 'Orders/ByCompany' order by total as double desc"), "company", "total", "count");
  assert.deepEqual(await totals(), [
    ["companies/1", 17, 2],
    ["companies/2", 2.5, 1],
    [null, 1, 1],
  ]);
  const session = store.openSession();
  const order = await session.load("orders/3");
  order.company = "companies/2";
  await session.saveChanges();
  assert.deepEqual(await totals(), [
    ["companies/1", 10, 1],
    ["companies/2", 9.5, 2],
    [null, 1, 1],
  ]);
  order.company = "companies/1";
  await session.saveChanges();
  const of_one = raw("from index 'Orders/ByCompany' where company = $company", { company: "companies/1" });
  assert.deepEqual(await rowsOf(of_one, "total"), [[17]]);
  const statistics = await store.maintenance.send(new client.GetIndexStatisticsOperation("Orders/ByCompany"));
  assert.equal(statistics.type, "MapReduce");
  assert.equal(statistics.entriesCount, 3);
});

test("a reduce in JavaScript computes a total per key", async () => {
  await define(
    "Orders/ByTag",
    ["map('Orders', o => (o.tags || []).map(tag => ({ tag, count: 1, total: o.total })))"],
    `groupBy(r => ({ tag: r.tag })).aggregate(g => ({
       tag: g.key.tag,
       count: g.values.reduce((sum, row) => sum + row.count, 0),
       total: g.values.reduce((sum, row) => sum + row.total, 0),
     }))`,
  );
  const rows = await rowsOf(raw("from index 'Orders/ByTag'"), "tag", "count", "total");
  assert.deepEqual(rows.sort(), [
    ["gift", 2, 12.5],
    ["new", 1, 10],
  ]);
});

test("several maps share one reduce, and changes of loaded documents update it", async () => {
  await define(
    "Cities/Totals",
    [
      `from o in docs.Orders let c = LoadDocument(o.company, "Companies")
       select new { city = c.city, companies = 0, total = o.total }`,
      "from c in docs.Companies select new { city = c.city, companies = 1, total = 0 }",
    ],
    `results.GroupBy(r => r.city).Select(g => new {
       city = g.Key, companies = g.Sum(x => x.companies), total = g.Sum(x => x.total) })`,
  );
  const rows = () =>
    rowsOf(raw("from index 'Cities/Totals' where city != null order by city"), "city", "companies", "total");
  assert.deepEqual(await rows(), [
    ["Oz", 1, 17],
    ["Ur", 1, 2.5],
  ]);
  const session = store.openSession();
  const company = await session.load("companies/2");
  company.city = "Oz";
  await session.saveChanges();
  assert.deepEqual(await rows(), [["Oz", 2, 19.5]]);
  company.city = "Ur";
  await session.saveChanges();
});

test("a query groups by a field, through an automatic index", async () => {
  let statistics;
  const query = store
    .openSession()
    .query({ collection: "Orders" })
    .waitForNonStaleResults()
    .statistics((value) => (statistics = value))
    .groupBy("company")
    .selectKey("company")
    .selectSum(new client.GroupByField("total", "total"))
    .orderByDescending("total", "Double");
  assert.deepEqual(await rowsOf(query, "company", "total"), [
    ["companies/1", 17],
    ["companies/2", 2.5],
    [null, 1],
  ]);
  assert.equal(statistics.indexName, "Auto/Orders/BytotalReducedBycompany");
  assert.equal(statistics.totalResults, 3);
});

test("groups are filtered, ordered and paged", async () => {
  const rows = rowsOf(
    raw(
      `from Orders group by company where count() >= $least order by sum(total) as double
       select key() as company, sum(total) as total, count() limit 1, 2`,
      { least: 1 },
    ),
    "company",
    "total",
    "Count",
  );
  assert.deepEqual(await rows, [
    ["companies/2", 2.5, 1],
    ["companies/1", 17, 2],
  ]);
});

test("groups by elements of arrays and by whole arrays", async () => {
  const each = raw("from Orders group by tags[] where count() > 0 order by count() as long desc select key() as tag, count() as orders");
  assert.deepEqual((await rowsOf(each, "tag", "orders"))[0], ["gift", 2]);
  const whole = raw("from Orders group by array(tags) select key() as tags, count() as orders");
  const rows = (await rowsOf(whole, "tags", "orders")).map((row) => JSON.stringify(row)).sort();
  assert.deepEqual(rows, ['[["gift"],1]', '[["new","gift"],1]', "[[],1]", "[null,1]"]);
});

test("groups by several keys", async () => {
  const rows = await raw(
    "from Orders group by company, total where company = 'companies/2' select key() as key, count() as orders",
  ).all();
  assert.deepEqual(
    rows.map(({ key, orders }) => [{ ...key }, orders]),
    [[{ company: "companies/2", total: 2.5 }, 1]],
  );
});
