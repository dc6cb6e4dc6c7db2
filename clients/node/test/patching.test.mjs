// Patching documents by scripts: operations, sessions, and by query.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, loadFresh, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("patching");

function patchRequest(script, values = {}) {
  const request = new client.PatchRequest();
  return Object.assign(request, { script, values });
}

function send(id, script, values, { changeVector = null, ifMissing = null, skip = false } = {}) {
  const patch = patchRequest(script, values);
  const missing = ifMissing && patchRequest(ifMissing);
  const operation = new client.PatchOperation(id, changeVector, patch, missing, skip);
  return store.operations.send(operation);
}

async function changeVectorOf(id) {
  const session = store.openSession();
  return session.advanced.getChangeVectorFor(await session.load(id));
}

async function byQuery(query, parameters, options) {
  const indexQuery = new client.IndexQuery(query);
  indexQuery.queryParameters = parameters;
  const operation = await store.operations.send(
    new client.PatchByQueryOperation(indexQuery, options),
  );
  await operation.waitForCompletion();
}

test("a patch changes a document with given values and returns its status", async () => {
  await storeAll(store, "Boats", { "boats/1": { name: "Ida", crew: ["Ann"], speed: 4 } });
  const patched = await send("boats/1", "this.speed += args.knots; this.crew.push(args.name)", {
    knots: 3,
    name: "Bo",
  });
  assert.equal(patched.status, "Patched");
  const boat = await loadFresh(store, "boats/1");
  assert.deepEqual([boat.speed, boat.crew], [7, ["Ann", "Bo"]]);
  const same = await send("boats/1", "this.speed = 7");
  assert.equal(same.status, "NotModified");
  assert.equal((await send("boats/none", "this.a = 1")).status, "DocumentDoesNotExist");
});

test("a patch can create a missing document", async () => {
  const script = "this.made = true; this['@metadata'] = { '@collection': 'Boats' }";
  const made = await send("boats/2", "this.made = 'again'", {}, { ifMissing: script });
  assert.equal(made.status, "Created");
  assert.equal((await loadFresh(store, "boats/2")).made, true);
  const again = await send("boats/2", "this.made = 'again'", {}, { ifMissing: script });
  assert.equal(again.status, "Patched");
});

test("a patch at another version is rejected or skipped", async () => {
  await storeAll(store, "Boats", { "boats/3": { n: 0 } });
  const stale = await changeVectorOf("boats/3");
  assert.equal((await send("boats/3", "this.n = 1", {}, { changeVector: stale })).status, "Patched");
  await assert.rejects(send("boats/3", "this.n = 2", {}, { changeVector: stale }), {
    name: "ConcurrencyException",
  });
  const skipped = await send("boats/3", "this.n = 2", {}, { changeVector: stale, skip: true });
  assert.ok(["Skipped", "NotModified"].includes(skipped.status), skipped.status);
  assert.equal((await loadFresh(store, "boats/3")).n, 1);
});

test("a failing script is rejected and changes nothing", async () => {
  await storeAll(store, "Boats", { "boats/4": { n: 0 } });
  for (const script of ["this.n = 1; throw new Error('leak')", "this.n = 1; while (true) {}"]) {
    await assert.rejects(send("boats/4", script), { name: "JavaScriptException" });
  }
  await assert.rejects(send("boats/4", "this.n = "), { name: "JavaScriptParseException" });
  assert.equal((await loadFresh(store, "boats/4")).n, 0);
});

test("a script loads, puts and deletes other documents", async () => {
  await storeAll(store, "Boats", { "boats/5": { harbour: "harbours/1" }, "boats/6": {} });
  await storeAll(store, "Harbours", { "harbours/1": { name: "Kiel" } });
  const script = `this.in = load(this.harbour).name;
    this.log = put('logs/', { of: id(this), '@metadata': { '@collection': 'Logs' } });
    this.gone = del('boats/6');`;
  await send("boats/5", script);
  const boat = await loadFresh(store, "boats/5");
  assert.deepEqual([boat.in, boat.gone], ["Kiel", true]);
  assert.equal((await loadFresh(store, boat.log)).of, "boats/5");
  assert.equal(await loadFresh(store, "boats/6"), null);
});

test("a session patches without loading: values, numbers, arrays", async () => {
  await storeAll(store, "Boats", { "boats/7": { name: "Eva", trips: 2, crew: [{ name: "Cy" }] } });
  const session = store.openSession();
  session.advanced.patch("boats/7", "name", "Evi");
  session.advanced.increment("boats/7", "trips", 5);
  session.advanced.increment("boats/7", "miles", 1.5);
  session.advanced.patchArray("boats/7", "crew", (crew) => crew.push({ name: "Di" }));
  await session.saveChanges();
  session.advanced.patchArray("boats/7", "crew", (crew) => crew.removeAt(0));
  await session.saveChanges();
  const { name, trips, miles, crew } = await loadFresh(store, "boats/7");
  assert.deepEqual([name, trips, miles, crew], ["Evi", 7, 1.5, [{ name: "Di" }]]);
});

test("a session patches loaded documents together with other changes", async () => {
  await storeAll(store, "Boats", { "boats/8": { name: "Uta", trips: 2 } });
  const session = store.openSession();
  const boat = await session.load("boats/8");
  session.advanced.increment(boat, "trips", 1);
  await session.store({ "@metadata": { "@collection": "Boats" }, name: "new" }, "boats/9");
  await session.saveChanges();
  assert.equal((await loadFresh(store, "boats/8")).trips, 3);
  assert.equal((await loadFresh(store, "boats/9")).name, "new");
});

test("a session adds a document or patches it", async () => {
  for (const expected of [1, 6]) {
    const session = store.openSession();
    const boat = { name: "Pia", trips: 1, "@metadata": { "@collection": "Boats" } };
    session.advanced.addOrIncrement("boats/10", boat, "trips", 5);
    await session.saveChanges();
    assert.equal((await loadFresh(store, "boats/10")).trips, expected);
  }
  const session = store.openSession();
  session.advanced.addOrPatch("boats/10", {}, "name", "Pip");
  await session.saveChanges();
  assert.equal((await loadFresh(store, "boats/10")).name, "Pip");
});

test("deferred patches are applied with the batch, or not at all", async () => {
  await storeAll(store, "Boats", { "boats/11": { n: 0 }, "boats/12": { n: 0 } });
  const script = patchRequest("this.n = args.n", { n: 4 });
  const session = store.openSession();
  session.advanced.defer(new client.BatchPatchCommandData(script, null, "boats/11", "boats/12"));
  await session.saveChanges();
  assert.equal((await loadFresh(store, "boats/12")).n, 4);
  const failing = store.openSession();
  failing.advanced.defer(new client.PatchCommandData("boats/11", null, patchRequest("this.n = 9")));
  failing.advanced.defer(
    new client.PatchCommandData("boats/12", null, patchRequest("throw 'no'")),
  );
  await assert.rejects(failing.saveChanges(), { name: "JavaScriptException" });
  assert.equal((await loadFresh(store, "boats/11")).n, 4);
});

test("documents that match a query are patched", async () => {
  const rafts = Object.fromEntries(
    [1, 2, 3, 4].map((n) => [`rafts/${n}`, { n, wood: `woods/${n % 2}` }]),
  );
  await storeAll(store, "Rafts", rafts);
  await storeAll(store, "Woods", { "woods/0": { name: "oak" }, "woods/1": { name: "pine" } });
  await byQuery("from Rafts update { this.n += args.by; }", { by: 10 });
  await byQuery(
    `declare function wet(name) { return 'wet ' + name; }
     from Rafts as r where r.n > 12 load r.wood as w update { r.of = wet(w.name); }`,
    {},
    { retrieveDetails: true, allowStale: false, staleTimeout: 60_000 },
  );
  const session = store.openSession();
  const all = await session.query({ collection: "Rafts" }).orderBy("n").waitForNonStaleResults().all();
  assert.deepEqual(all.map((raft) => [raft.n, raft.of]), [
    [11, undefined],
    [12, undefined],
    [13, "wet pine"],
    [14, "wet oak"],
  ]);
});

test("a failing script is reported by the operation", async () => {
  await storeAll(store, "Wrecks", { "wrecks/1": { n: 1 } });
  await assert.rejects(byQuery("from Wrecks update { throw new Error('sunk') }", {}), /sunk/);
  await assert.rejects(byQuery("from Wrecks update { this.n = }", {}), {
    name: "InvalidQueryException",
  });
  assert.equal((await loadFresh(store, "wrecks/1")).n, 1);
});

test("documents that match a query are deleted", async () => {
  await storeAll(store, "Kayaks", { "kayaks/1": { n: 1 }, "kayaks/2": { n: 2 } });
  const query = new client.IndexQuery("from Kayaks where n = $n");
  query.queryParameters = { n: 1 };
  const operation = await store.operations.send(
    new client.DeleteByQueryOperation(query, { staleTimeout: 60_000 }),
  );
  await operation.waitForCompletion();
  assert.equal(await loadFresh(store, "kayaks/1"), null);
  assert.equal((await loadFresh(store, "kayaks/2")).n, 2);
});
