// Results of a reduce as documents: outputs, documents that refer to them, and an index over outputs.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("reduce-outputs");

await storeAll(store, "Sales", {
  "sales/1": { shop: "north", day: "2024-01-05T00:00:00.0000000", amount: 10 },
  "sales/2": { shop: "north", day: "2024-01-05T00:00:00.0000000", amount: 5 },
  "sales/3": { shop: "south", day: "2024-01-20T00:00:00.0000000", amount: 7 },
  "sales/4": { shop: "south", day: "2024-02-01T00:00:00.0000000", amount: 1 },
});

const daily = {
  name: "Sales/Daily",
  maps: new Set(["from s in docs.Sales select new { s.shop, s.day, s.amount }"]),
  reduce: `from r in results group r by new { r.shop, r.day } into g
           select new { g.Key.shop, g.Key.day, amount = g.Sum(x => x.amount) }`,
  outputReduceToCollection: "DailySales",
  patternForOutputReduceToCollectionReferences: "reports/{day:yyyy-MM}",
};
const byShop = {
  name: "Sales/ByShop",
  maps: new Set(["from d in docs.DailySales select new { d.shop, d.amount, days = 1 }"]),
  reduce: `from r in results group r by r.shop into g
           select new { shop = g.Key, amount = g.Sum(x => x.amount), days = g.Sum(x => x.days) }`,
};

const define = (definition) =>
  store.maintenance.send(
    new client.PutIndexesOperation(Object.assign(new client.IndexDefinition(), definition)),
  );

/** Waits until every index is non-stale twice: outputs may be written between two responses. */
async function settle() {
  for (let calm = 0, tries = 0; calm < 2; tries++) {
    assert.ok(tries < 1000, "the indexes do not catch up");
    const { indexes } = await store.maintenance.send(new client.GetStatisticsOperation());
    const open = indexes.some(({ isStale, name }) => isStale || name.startsWith("ReplacementOf/"));
    calm = open ? 0 : calm + 1;
    if (open) await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const raw = (text) => store.openSession().advanced.rawQuery(text).waitForNonStaleResults().all();
const outputs = async (collection) => {
  const rows = await raw(`from '${collection}'`);
  return rows.map(({ shop, amount }) => `${shop} ${amount}`).sort();
};
const report = async (month) => {
  const session = store.openSession();
  const found = await session.load(`reports/${month}`);
  if (!found) return null;
  const listed = Object.values(await session.load(found.ReduceOutputs));
  return listed.map(({ shop, amount }) => `${shop} ${amount}`).sort();
};
const shops = async () =>
  (await raw("from index 'Sales/ByShop' order by shop")).map((row) => [row.shop, row.amount, row.days]);

test("results become documents with output metadata and references", async () => {
  await define(daily);
  await define(byShop);
  await settle();
  assert.deepEqual(await outputs("DailySales"), ["north 15", "south 1", "south 7"]);
  const session = store.openSession();
  const [row] = await session.advanced.rawQuery("from DailySales where shop = 'north'").all();
  const metadata = session.advanced.getMetadataFor(row);
  assert.equal(metadata["@flags"], "Artificial, FromIndex");
  assert.match(session.advanced.getDocumentId(row), /^DailySales\/\d+\/\d+$/);
  assert.deepEqual(await report("2024-01"), ["north 15", "south 7"]);
  assert.deepEqual(await report("2024-02"), ["south 1"]);
  assert.deepEqual(await shops(), [["north", 15, 1], ["south", 8, 2]]);
});

test("outputs, references and the index over outputs are updated", async () => {
  const session = store.openSession();
  const sale = await session.load("sales/1");
  sale.day = "2024-02-01T00:00:00.0000000";
  await session.delete("sales/4");
  await session.saveChanges();
  await settle();
  assert.deepEqual(await outputs("DailySales"), ["north 10", "north 5", "south 7"]);
  assert.deepEqual(await report("2024-01"), ["north 5", "south 7"]);
  assert.deepEqual(await report("2024-02"), ["north 10"]);
  assert.deepEqual(await shops(), [["north", 15, 2], ["south", 7, 1]]);
});

test("a changed definition replaces its outputs", async () => {
  await define({ ...daily, reduce: daily.reduce.replace("x.amount)", "x.amount) * 2") });
  await settle();
  assert.deepEqual(await outputs("DailySales"), ["north 10", "north 20", "south 14"]);
  assert.deepEqual(await shops(), [["north", 30, 2], ["south", 14, 1]]);
});

test("definitions that read their own outputs are rejected", async () => {
  const over = (name, collection, output) => ({
    ...byShop,
    name,
    maps: new Set([`from d in docs.${collection} select new { d.shop, d.amount, days = 1 }`]),
    outputReduceToCollection: output,
  });
  for (const [definition, message] of [
    [over("Itself", "Loop", "Loop"), /this index is mapping or referencing the 'Loop' collection/],
    [over("Twice", "Other", "DailySales"), /another index named 'Sales\/Daily' which also output/],
    [over("Circle", "DailySales", "Sales"), /Sales\/Daily: Sales => DailySales\n--> Circle: DailySales => \*Sales\*/],
    [over("Used", "Other", "Sales"), /This collection currently has 3 documents/],
  ]) {
    await assert.rejects(define(definition), (error) => {
      assert.equal(error.name, "IndexInvalidException");
      assert.match(error.message, message);
      return true;
    });
  }
});
