// Compare exchange and cluster-wide sessions: a change requires the newest version.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, loadFresh } from "../support/client.mjs";

const {
  DeleteCompareExchangeValueOperation,
  GetCompareExchangeValueOperation,
  GetCompareExchangeValuesOperation,
  GetDetailedStatisticsOperation,
  IndexDefinition,
  NextIdentityForOperation,
  PutCompareExchangeValueOperation,
  PutIndexesOperation,
  SeedIdentityForOperation,
} = client;

const store = await databaseForThisFile("compare-exchange");

const put = (key, value, index) =>
  store.operations.send(new PutCompareExchangeValueOperation(key, value, index));
const get = (key) => store.operations.send(new GetCompareExchangeValueOperation(key));
const remove = (key, index) =>
  store.operations.send(new DeleteCompareExchangeValueOperation(key, index));

function clusterWide(options = {}) {
  return store.openSession({ transactionMode: "ClusterWide", ...options });
}

class Berth {
  constructor(ship) {
    this.ship = ship;
  }
}

test("a value changes only if its newest version is given", async () => {
  const first = await put("locks/1", "anna", 0);
  assert.equal(first.successful, true);
  const refused = await put("LOCKS/1", "bert", 0);
  assert.deepEqual([refused.successful, refused.value, refused.index], [false, "anna", first.index]);
  const second = await put("locks/1", "bert", first.index);
  assert.equal(second.successful, true);
  assert.equal((await get("Locks/1")).value, "bert");
  assert.equal((await remove("locks/1", first.index)).successful, false);
  const removed = await remove("locks/1", second.index);
  assert.deepEqual([removed.successful, removed.value], [true, "bert"]);
  assert.ok(!(await get("locks/1")));
});

test("values of every kind come back", async () => {
  for (const [name, value] of [
    ["number", 5],
    ["text", "Grüße 👩‍👩‍👧‍👦"],
    ["flag", true],
    ["object", { ship: "Aurora", berths: [1, 2] }],
  ]) {
    await put(`kinds/${name}`, value, 0);
    assert.deepEqual((await get(`kinds/${name}`)).value, value, name);
  }
});

test("values are listed by keys, by prefix and in pages", async () => {
  for (const name of ["c", "a", "b", "d"]) await put(`listed/${name}`, name, 0);
  const send = (parameters) =>
    store.operations.send(new GetCompareExchangeValuesOperation(parameters));
  const keys = (found) => Object.keys(found);
  assert.deepEqual(keys(await send({ startWith: "listed/" })), [
    "listed/a",
    "listed/b",
    "listed/c",
    "listed/d",
  ]);
  const page = await send({ startWith: "listed/", start: 1, pageSize: 2 });
  assert.deepEqual(keys(page), ["listed/b", "listed/c"]);
  const some = await send({ keys: ["listed/d", "listed/a"] });
  assert.deepEqual(keys(some).sort(), ["listed/a", "listed/d"]);
});

test("of many clients that acquire the same lock exactly one succeeds", async () => {
  const tries = Array.from({ length: 32 }, (_, number) => put("race/1", number + 1, 0));
  const results = await Promise.all(tries);
  const winners = results.filter((result) => result.successful);
  assert.equal(winners.length, 1);
  assert.equal((await get("race/1")).value, winners[0].value);
});

test("a cluster-wide session stores documents and values together", async () => {
  const session = clusterWide();
  const berth = new Berth("Aurora");
  await session.store(berth, "berths/1");
  session.advanced.clusterTransaction.createCompareExchangeValue("names/aurora", "berths/1");
  await session.saveChanges();
  assert.equal((await loadFresh(store, "berths/1", Berth)).ship, "Aurora");
  assert.equal((await get("names/aurora")).value, "berths/1");

  const second = clusterWide();
  const name = await second.advanced.clusterTransaction.getCompareExchangeValue("names/aurora");
  name.value = "berths/2";
  await second.saveChanges();
  assert.equal((await get("names/aurora")).value, "berths/2");

  const third = clusterWide();
  const again = await third.advanced.clusterTransaction.getCompareExchangeValue("names/aurora");
  third.advanced.clusterTransaction.deleteCompareExchangeValue(again);
  await third.saveChanges();
  assert.ok(!(await get("names/aurora")));
});

test("a taken name rejects the whole session", async () => {
  await put("names/borealis", "berths/7", 0);
  const session = clusterWide();
  await session.store(new Berth("Borealis"), "berths/8");
  session.advanced.clusterTransaction.createCompareExchangeValue("names/borealis", "berths/8");
  await assert.rejects(session.saveChanges(), { name: "ClusterTransactionConcurrencyException" });
  assert.equal(await loadFresh(store, "berths/8", Berth), null);
});

test("of two cluster-wide sessions that change one document the second is refused", async () => {
  const begin = clusterWide();
  await begin.store(new Berth("Corona"), "berths/9");
  await begin.saveChanges();
  const [a, b] = [clusterWide(), clusterWide()];
  const [first, second] = [await a.load("berths/9", Berth), await b.load("berths/9", Berth)];
  first.ship = "first";
  second.ship = "second";
  await a.saveChanges();
  await assert.rejects(b.saveChanges(), { name: "ClusterTransactionConcurrencyException" });
  assert.equal((await loadFresh(store, "berths/9", Berth)).ship, "first");
  // Its guard was updated with it, so the next session that loads it may write.
  const next = clusterWide();
  (await next.load("berths/9", Berth)).ship = "third";
  await next.saveChanges();
  const last = clusterWide();
  await last.delete("berths/9");
  await last.saveChanges();
  assert.equal(await loadFresh(store, "berths/9", Berth), null);
});

test("without guards the last writer wins", async () => {
  const begin = clusterWide({ disableAtomicDocumentWritesInClusterWideTransaction: true });
  await begin.store(new Berth("Draco"), "berths/10");
  await begin.saveChanges();
  const options = { disableAtomicDocumentWritesInClusterWideTransaction: true };
  const [a, b] = [clusterWide(options), clusterWide(options)];
  (await a.load("berths/10", Berth)).ship = "first";
  (await b.load("berths/10", Berth)).ship = "second";
  await a.saveChanges();
  await b.saveChanges();
  assert.equal((await loadFresh(store, "berths/10", Berth)).ship, "second");
});

test("values are included with documents, without another request", async () => {
  await put("owners/1", "Ida", 0);
  const begin = store.openSession();
  await begin.store(Object.assign(new Berth("Eos"), { owner: "owners/1" }), "berths/11");
  await begin.saveChanges();
  const session = clusterWide();
  await session.load("berths/11", {
    documentType: Berth,
    includes: (includes) => includes.includeCompareExchangeValue("owner"),
  });
  const requests = session.advanced.numberOfRequests;
  const owner = await session.advanced.clusterTransaction.getCompareExchangeValue("owners/1");
  assert.equal(owner.value, "Ida");
  assert.equal(session.advanced.numberOfRequests, requests);
});

test("values are read lazily", async () => {
  await put("lazy/1", 7, 0);
  const session = clusterWide();
  const lazily = session.advanced.clusterTransaction.lazily;
  const value = lazily.getCompareExchangeValue("lazy/1");
  const missing = lazily.getCompareExchangeValue("lazy/none");
  assert.equal((await value.getValue()).value, 7);
  assert.equal(await missing.getValue(), null);
});

test("identities increase by one and can be seeded", async () => {
  const next = (name) => store.maintenance.send(new NextIdentityForOperation(name));
  assert.equal(await next("piers|"), 1);
  assert.equal(await next("PIERS|"), 2);
  await store.maintenance.send(new SeedIdentityForOperation("piers|", 100));
  assert.equal(await next("piers|"), 101);
  const session = store.openSession();
  const pier = new Berth("Fenja");
  await session.store(pier, "piers|");
  await session.saveChanges();
  assert.equal(session.advanced.getDocumentId(pier), "piers/102");
});

test("the statistics count values", async () => {
  const before = await store.maintenance.send(new GetDetailedStatisticsOperation());
  await put("counted/1", 1, 0);
  const after = await store.maintenance.send(new GetDetailedStatisticsOperation());
  assert.equal(after.countOfCompareExchange, before.countOfCompareExchange + 1);
});

test("queries read values, and their cached results are invalidated when values change", async () => {
  const session = store.openSession();
  await session.store({ ship: "Aurora", length: 90, "@metadata": { "@collection": "Ships" } }, "ships/1");
  await session.store({ ship: "Borea", length: 120, owner: "skippers/1", "@metadata": { "@collection": "Ships" } }, "ships/2");
  await session.saveChanges();
  const first = await put("ships/longest", 120, 0);
  await put("skippers/1", { name: "Carla" }, 0);
  const text =
    "from Ships as s where s.length = cmpxchg('ships/longest') " +
    "select { ship: s.ship, longest: cmpxchg('ships/longest') }";
  const ask = async () => {
    const query = store.openSession().advanced.rawQuery(text).waitForNonStaleResults();
    return (await query.all()).map(({ ship, longest }) => [ship, longest]);
  };
  assert.deepEqual(await ask(), [["Borea", 120]]);
  await put("ships/longest", 90, first.index);
  assert.deepEqual(await ask(), [["Aurora", 90]]);
  const shown = clusterWide();
  const query = shown.advanced.rawQuery("from Ships where ship = 'Borea' include cmpxchg(owner)");
  assert.equal((await query.waitForNonStaleResults().all()).length, 1);
  const requests = shown.advanced.numberOfRequests;
  const owner = await shown.advanced.clusterTransaction.getCompareExchangeValue("skippers/1");
  assert.equal(owner.value.name, "Carla");
  assert.equal(shown.advanced.numberOfRequests, requests);
});

test("an index is updated when the values that it reads change", async () => {
  const index = new IndexDefinition();
  index.name = "Ships/Captains";
  index.maps = new Set(["map('Ships', s => ({ captain: cmpxchg('captains/' + s.ship), ship: s.ship }))"]);
  await store.maintenance.send(new PutIndexesOperation(index));
  const led = async (captain) => {
    const query = store.openSession().query({ indexName: "Ships/Captains" }).waitForNonStaleResults();
    return (await query.whereEquals("captain", captain).all()).map(({ ship }) => ship);
  };
  assert.deepEqual(await led("dora"), []);
  const first = await put("captains/Aurora", "dora", 0);
  assert.deepEqual(await led("dora"), ["Aurora"]);
  await put("captains/Aurora", "emil", first.index);
  assert.deepEqual([await led("dora"), await led("emil")], [[], ["Aurora"]]);
  await remove("captains/Aurora", (await get("captains/Aurora")).index);
  assert.deepEqual(await led("emil"), []);
});
