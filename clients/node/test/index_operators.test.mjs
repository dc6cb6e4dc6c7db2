// What an operator does about indexes with the client's own operations: errors, stopping and starting,
// locks and priorities, terms, resets, deletions, definitions, and code that a server may not run.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("index_operators");
const send = (operation) => store.maintenance.send(operation);

await storeAll(store, "Boats", {
  "boats/1": { name: "Ann", crew: 2 },
  "boats/2": { name: "Bob", crew: 0 },
  "boats/3": { name: "Cid", crew: 4 },
});

const define = async (name, maps, reduce = null) => {
  const definition = Object.assign(new client.IndexDefinition(), { name, reduce });
  definition.maps = new Set(maps);
  await send(new client.PutIndexesOperation(definition));
};
const catchUp = (name) =>
  store.openSession().query({ indexName: name }).waitForNonStaleResults(20_000).all();

await define("Boats/ByName", ["from b in docs.Boats select new { b.name, b.crew }"]);
await catchUp("Boats/ByName");

test("an error names its document and its index, and can be deleted", async () => {
  await define("Boats/Shares", ["from b in docs.Boats select new { share = 12 / b.crew }"]);
  let errors;
  for (let attempt = 0; attempt < 100; attempt++) {
    [errors] = await send(new client.GetIndexErrorsOperation(["Boats/Shares"]));
    if (errors.errors.length > 0) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal(errors.name, "Boats/Shares");
  assert.deepEqual(errors.errors.map((error) => error.document), ["boats/2"]);
  assert.equal(errors.errors[0].action, "Map");
  await send(new client.DeleteIndexErrorsOperation(["Boats/Shares"]));
  const [forgotten] = await send(new client.GetIndexErrorsOperation(["Boats/Shares"]));
  assert.deepEqual(forgotten.errors, []);
});

test("one index or all of them can be stopped and started", async () => {
  const statusOf = async (name) => {
    const { indexes } = await send(new client.GetIndexingStatusOperation());
    return indexes.find((index) => index.name === name).status;
  };
  await send(new client.StopIndexOperation("Boats/ByName"));
  assert.equal(await statusOf("Boats/ByName"), "Paused");
  await send(new client.StartIndexOperation("Boats/ByName"));
  assert.equal(await statusOf("Boats/ByName"), "Running");
  await send(new client.StopIndexingOperation());
  const { status } = await send(new client.GetIndexingStatusOperation());
  assert.equal(status, "Paused");
  await send(new client.StartIndexingOperation());
  await send(new client.DisableIndexOperation("Boats/ByName"));
  assert.equal(await statusOf("Boats/ByName"), "Disabled");
  await send(new client.EnableIndexOperation("Boats/ByName"));
  assert.equal(await statusOf("Boats/ByName"), "Running");
});

test("lock mode and priority can be set and read", async () => {
  await send(new client.SetIndexesLockOperation("Boats/ByName", "LockedIgnore"));
  await send(new client.SetIndexesPriorityOperation("Boats/ByName", "High"));
  const locked = await send(new client.GetIndexOperation("Boats/ByName"));
  assert.deepEqual([locked.lockMode, locked.priority], ["LockedIgnore", "High"]);
  await define("Boats/ByName", ["from b in docs.Boats select new { b.name }"]);
  const kept = await send(new client.GetIndexOperation("Boats/ByName"));
  assert.deepEqual([...kept.maps], ["from b in docs.Boats select new { b.name, b.crew }"]);
  await send(new client.SetIndexesLockOperation("Boats/ByName", "Unlock"));
});

test("statistics count entries, a reset starts again, a deleted index no longer exists", async () => {
  await define(
    "Boats/Crews",
    ["from b in docs.Boats select new { b.name, count = 1 }"],
    "from r in results group r by r.name into g select new { name = g.Key, count = g.Sum(x => x.count) }",
  );
  await catchUp("Boats/Crews");
  const statistics = await send(new client.GetIndexStatisticsOperation("Boats/Crews"));
  assert.equal(statistics.entriesCount, 3);
  assert.deepEqual([statistics.type, statistics.isStale], ["MapReduce", false]);
  await send(new client.ResetIndexOperation("Boats/Crews"));
  assert.equal((await catchUp("Boats/Crews")).length, 3);
  await send(new client.DeleteIndexOperation("Boats/Crews"));
  const names = await send(new client.GetIndexNamesOperation(0, 100));
  assert.ok(!names.includes("Boats/Crews"));
});

test("terms are listed in order, starting after a given term", async () => {
  const terms = await send(new client.GetTermsOperation("Boats/ByName", "name", "ann", 10));
  assert.deepEqual([...terms], ["bob", "cid"]);
});

test("an equivalent definition has not changed", async () => {
  const known = await send(new client.GetIndexOperation("Boats/ByName"));
  assert.equal(await send(new client.IndexHasChangedOperation(known)), false);
  known.maps = new Set(["from b in docs.Boats select new { b.crew }"]);
  assert.equal(await send(new client.IndexHasChangedOperation(known)), true);
});

test("invalid analyzers and sorters are rejected, and deleting a missing one succeeds", async () => {
  const analyzer = { name: "Mine", code: "public class NotOne {}" };
  await assert.rejects(send(new client.PutAnalyzersOperation(analyzer)));
  await send(new client.DeleteAnalyzerOperation("Mine"));
  const sorter = { name: "Mine", code: "public class NotOne {}" };
  await assert.rejects(send(new client.PutSortersOperation(sorter)));
  await send(new client.DeleteSorterOperation("Mine"));
});
