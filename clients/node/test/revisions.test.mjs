// Revisions of documents: which are kept, how they are read and included.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, loadFresh } from "../support/client.mjs";

const { ConfigureRevisionsOperation, RevisionsConfiguration, RevisionsCollectionConfiguration } = client;
const store = await databaseForThisFile("revisions");

const rule = new RevisionsCollectionConfiguration();
rule.minimumRevisionsToKeep = 4;
const configuration = new RevisionsConfiguration();
configuration.collections = new Map([["Huts", rule]]);
const configured = await store.maintenance.send(new ConfigureRevisionsOperation(configuration));

async function save(id, values, collection = "Huts") {
  const session = store.openSession();
  const known = await session.load(id);
  if (known) Object.assign(known, values);
  else await session.store({ ...values, "@metadata": { "@collection": collection } }, id);
  await session.saveChanges();
}

async function saveBeds(id, ...beds) {
  for (const number of beds) await save(id, { beds: number });
}

const revisionsOf = (id, options) => store.openSession().advanced.revisions.getFor(id, options);
const metadataOf = (id, options) => store.openSession().advanced.revisions.getMetadataFor(id, options);
const bedsOf = (revisions) => revisions.map((revision) => revision.beds);

test("a configuration is accepted", () => {
  assert.ok(configured.raftCommandIndex > 0);
});

test("revisions are listed newest first, up to the limit", async () => {
  await saveBeds("huts/1", 1, 2, 3, 4, 5);
  assert.deepEqual(bedsOf(await revisionsOf("huts/1")), [5, 4, 3, 2]);
  assert.deepEqual(bedsOf(await revisionsOf("huts/1", { start: 1, pageSize: 2 })), [4, 3]);
  assert.equal(await store.openSession().advanced.revisions.getCountFor("huts/1"), 4);
  assert.deepEqual(await revisionsOf("huts/none"), []);
});

test("the metadata of revisions states their kind", async () => {
  await saveBeds("huts/2", 1, 2);
  const session = store.openSession();
  await session.delete("huts/2");
  await session.saveChanges();
  const flags = (await metadataOf("huts/2")).map((metadata) => metadata["@flags"]);
  assert.deepEqual(flags, ["HasRevisions, DeleteRevision", "HasRevisions, Revision", "HasRevisions, Revision"]);
  assert.equal(await loadFresh(store, "huts/2"), null);
});

test("a document states that it has revisions", async () => {
  await saveBeds("huts/3", 1);
  const session = store.openSession();
  const metadata = session.advanced.getMetadataFor(await session.load("huts/3"));
  assert.equal(metadata["@flags"], "HasRevisions");
});

test("revisions are found by change vector and by time", async () => {
  await saveBeds("huts/4", 1, 2);
  const vectors = (await metadataOf("huts/4")).map((metadata) => metadata["@change-vector"]);
  const revisions = store.openSession().advanced.revisions;
  assert.equal((await revisions.get(vectors[1])).beds, 1);
  const several = await revisions.get([...vectors, "A:1-nobody"]);
  assert.deepEqual(Object.values(several).map((one) => one?.beds), [2, 1, undefined]);
  assert.equal((await revisions.get("huts/4", new Date("2999-01-01T00:00:00Z"))).beds, 2);
  assert.equal(await revisions.get("huts/4", new Date("2001-01-01T00:00:00Z")), null);
});

test("revisions are read lazily", async () => {
  await saveBeds("huts/5", 1, 2);
  const session = store.openSession();
  const lazy = session.advanced.revisions.lazily.getFor("huts/5");
  const document = session.advanced.lazily.load("huts/5");
  await session.advanced.eagerly.executeAllPendingLazyOperations();
  assert.deepEqual(bedsOf(await lazy.getValue()), [2, 1]);
  assert.equal((await document.getValue()).beds, 2);
});

test("a session forces a revision where none is configured", async () => {
  await save("tents/1", { beds: 1 }, "Tents");
  assert.deepEqual(await revisionsOf("tents/1"), []);
  const session = store.openSession();
  const tent = await session.load("tents/1");
  session.advanced.revisions.forceRevisionCreationFor(tent);
  tent.beds = 2;
  await session.saveChanges();
  assert.deepEqual(bedsOf(await revisionsOf("tents/1")), [1]);
  const again = store.openSession();
  again.advanced.revisions.forceRevisionCreationFor("tents/1");
  await again.saveChanges();
  assert.deepEqual(bedsOf(await revisionsOf("tents/1")), [2, 1]);
  assert.match((await metadataOf("tents/1"))[0]["@flags"], /ForceCreated/);
});

test("loading includes the revisions that a field names", async () => {
  await saveBeds("huts/6", 1, 2);
  const vectors = (await metadataOf("huts/6")).map((metadata) => metadata["@change-vector"]);
  await save("contracts/1", { first: vectors[1], all: vectors }, "Contracts");
  const session = store.openSession();
  await session.load("contracts/1", {
    includes: (builder) => builder.includeRevisions("first").includeRevisions("all"),
  });
  const requests = session.advanced.numberOfRequests;
  const revision = await session.advanced.revisions.get(vectors[1]);
  assert.equal(revision.beds, 1);
  assert.equal((await session.advanced.revisions.get(vectors[0])).beds, 2);
  assert.equal(session.advanced.numberOfRequests, requests, "nothing more was asked for");
});

test("loading includes the revision of a point in time", async () => {
  await saveBeds("huts/7", 1, 2);
  const session = store.openSession();
  const moment = new Date("2999-01-01T00:00:00Z");
  await session.load("huts/7", { includes: (builder) => builder.includeRevisions(moment) });
  const requests = session.advanced.numberOfRequests;
  assert.equal((await session.advanced.revisions.get("huts/7", moment)).beds, 2);
  assert.equal(session.advanced.numberOfRequests, requests);
});

test("a query includes the revisions that its rows name", async () => {
  await saveBeds("huts/8", 1, 2);
  const vectors = (await metadataOf("huts/8")).map((metadata) => metadata["@change-vector"]);
  await save("leases/1", { kept: vectors }, "Leases");
  const session = store.openSession();
  const rows = await session.query({ collection: "Leases" }).include((builder) => builder.includeRevisions("kept")).all();
  assert.equal(rows.length, 1);
  const requests = session.advanced.numberOfRequests;
  assert.equal((await session.advanced.revisions.get(vectors[1])).beds, 1);
  assert.equal(session.advanced.numberOfRequests, requests);
});

test("a configuration is replaced as a whole", async () => {
  const other = new RevisionsConfiguration();
  other.defaultConfig = new RevisionsCollectionConfiguration();
  other.defaultConfig.purgeOnDelete = true;
  await store.maintenance.send(new ConfigureRevisionsOperation(other));
  await save("boats/1", { beds: 1 }, "Boats");
  await save("boats/1", { beds: 2 }, "Boats");
  assert.equal((await revisionsOf("boats/1")).length, 2);
  const session = store.openSession();
  await session.delete("boats/1");
  await session.saveChanges();
  assert.deepEqual(await revisionsOf("boats/1"), []);
});
