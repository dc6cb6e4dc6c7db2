// Statistics and server information that clients read.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("statistics");
const { server } = store.maintenance;

await storeAll(store, "Cities", { "cities/1": { n: 1 }, "cities/2": { n: 2 } });
await storeAll(store, "Rivers", { "rivers/1": { n: 1 } });

test("database statistics count documents and change with writes", async () => {
  const before = await store.maintenance.send(new client.GetStatisticsOperation());
  assert.equal(before.countOfDocuments, 3);
  assert.equal(before.countOfIndexes, 0);
  assert.ok(before.lastDocEtag >= 3);
  assert.ok(before.databaseId);
  await storeAll(store, "Lakes", { "lakes/1": { n: 1 } });
  const after = await store.maintenance.send(new client.GetStatisticsOperation());
  assert.equal(after.countOfDocuments, 4);
  assert.ok(after.lastDocEtag > before.lastDocEtag);
  assert.notEqual(after.databaseChangeVector, before.databaseChangeVector);
});

test("deleted documents are no longer counted and become tombstones", async () => {
  await storeAll(store, "Ponds", { "ponds/1": { n: 1 } });
  const before = await store.maintenance.send(new client.GetStatisticsOperation());
  const session = store.openSession();
  await session.delete("ponds/1");
  await session.saveChanges();
  const after = await store.maintenance.send(new client.GetStatisticsOperation());
  assert.equal(after.countOfDocuments, before.countOfDocuments - 1);
  assert.equal(after.countOfTombstones, before.countOfTombstones + 1);
});

test("collection statistics count per collection", async () => {
  const statistics = await store.maintenance.send(new client.GetCollectionStatisticsOperation());
  assert.equal(statistics.collections.Cities, 2);
  assert.equal(statistics.collections.Rivers, 1);
  const total = Object.values(statistics.collections).reduce((sum, count) => sum + count, 0);
  assert.equal(statistics.countOfDocuments, total);
  assert.equal(statistics.countOfConflicts, 0);
});

test("detailed collection statistics contain counts and sizes", async () => {
  const detailed = await store.maintenance.send(new client.GetDetailedCollectionStatisticsOperation());
  const cities = Object.values(detailed.collections).find(({ name }) => name === "Cities");
  assert.equal(cities.countOfDocuments, 2);
  assert.ok(cities.size.sizeInBytes > 0);
});

test("detailed statistics add counts of identities and compare exchange", async () => {
  const detailed = await store.maintenance.send(new client.GetDetailedStatisticsOperation());
  assert.ok(detailed.countOfDocuments >= 3);
  assert.equal(detailed.countOfIdentities, 0);
  assert.equal(detailed.countOfCompareExchange, 0);
});

test("the build number names the product version", async () => {
  const build = await server.send(new client.GetBuildNumberOperation());
  assert.match(build.productVersion, /^\d+\.\d+/);
  assert.ok(Number(build.buildVersion) > 0);
  assert.ok(build.fullVersion.startsWith(build.productVersion));
});

test("the database record names its database and its topology", async () => {
  const record = await server.send(new client.GetDatabaseRecordOperation(store.database));
  assert.equal(record.databaseName, store.database);
  assert.deepEqual([...record.topology.members], ["A"]);
});

test("database names include this database", async () => {
  const names = await server.send(new client.GetDatabaseNamesOperation(0, 1024));
  assert.ok(names.includes(store.database));
});

test("the health check of the database answers", async () => {
  await store.maintenance.send(new client.DatabaseHealthCheckOperation());
});

test("the topology lists one member that leads back to this server", async () => {
  const executor = store.getRequestExecutor();
  const command = new client.GetDatabaseTopologyCommand();
  await executor.execute(command);
  assert.equal(command.result.nodes.length, 1);
  assert.equal(command.result.nodes[0].clusterTag, "A");
  assert.equal(command.result.nodes[0].url, store.urls[0]);
});

test("a repeated load is answered from the cache of the client after a 304", async () => {
  const executor = store.getRequestExecutor();
  await store.openSession().load("cities/1");
  const before = executor.numberOfServerRequests;
  const loaded = await store.openSession().load("cities/1");
  assert.equal(loaded.n, 1);
  assert.equal(executor.numberOfServerRequests, before + 1, "the client asks once, with its etag");
  await storeAll(store, "Cities", { "cities/1": { n: 7 } });
  assert.equal((await store.openSession().load("cities/1")).n, 7, "a change ends the cached answer");
});
