// Loading: many ids at once, includes, prefixes with paging, and lazy operations.

import assert from "node:assert/strict";
import { test } from "node:test";

import { databaseForThisFile, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("loading");

await storeAll(store, "Countries", {
  "countries/ch": { name: "Switzerland", capital: "cities/bern" },
  "countries/de": { name: "Germany", capital: "cities/berlin" },
});
await storeAll(store, "Cities", {
  "cities/bern": { name: "Bern", country: "countries/ch", twins: [] },
  "cities/berlin": {
    name: "Berlin",
    country: "countries/de",
    twins: ["cities/bern", "cities/none"],
    mayor: { home: { city: "cities/bern" } },
  },
});
const numbered = Object.fromEntries(
  Array.from({ length: 50 }, (_, i) => [`page/${String(i).padStart(3, "0")}`, { i }]),
);
await storeAll(store, "Pages", numbered);

const idsOf = (session, entities) => entities.map((e) => session.advanced.getDocumentId(e));

test("loading many ids returns each under its id and null for the missing", async () => {
  const ids = [...Object.keys(numbered), "page/none", "PAGE/004"];
  const loaded = await store.openSession().load(ids);
  assert.equal(loaded["page/000"].i, 0);
  assert.equal(loaded["page/049"].i, 49);
  assert.equal(loaded["page/none"], null);
  assert.equal(loaded["PAGE/004"].i, 4);
});

test("enough ids that the client uses POST are loaded as well", async () => {
  const ids = Array.from({ length: 2000 }, (_, i) => `page/${String(i).padStart(3, "0")}`);
  const loaded = await store.openSession().load(ids);
  assert.equal(Object.values(loaded).filter(Boolean).length, 50);
  assert.equal(loaded["page/1999"], null);
});

test("loading nothing and loading a missing id return null", async () => {
  const session = store.openSession();
  assert.equal(await session.load("nowhere/1"), null);
  assert.deepEqual(Object.keys(await session.load([])), []);
});

test("a loaded document is not requested again in the same session", async () => {
  const session = store.openSession();
  const first = await session.load("cities/bern");
  assert.equal(await session.load("cities/bern"), first);
  assert.equal(await session.load("nowhere/2"), null);
  assert.equal(await session.load("nowhere/2"), null);
  assert.equal(session.advanced.numberOfRequests, 2);
});

test("an include returns the referenced document in the same request", async () => {
  const session = store.openSession();
  const country = await session.include("capital").load("countries/ch");
  const capital = await session.load(country.capital);
  assert.equal(capital.name, "Bern");
  assert.equal(session.advanced.numberOfRequests, 1);
});

test("includes reach into arrays and nested objects", async () => {
  const session = store.openSession();
  const berlin = await session.load("cities/berlin", {
    includes: (builder) =>
      builder.includeDocuments("twins").includeDocuments("mayor.home.city").includeDocuments("country"),
  });
  assert.equal((await session.load("countries/de")).name, "Germany");
  assert.equal((await session.load(berlin.mayor.home.city)).name, "Bern");
  assert.equal(session.advanced.numberOfRequests, 1);
  assert.equal(await session.load("cities/none"), null);
});

test("one include over several loaded documents returns all targets", async () => {
  const session = store.openSession();
  await session.include("capital").load(["countries/ch", "countries/de"]);
  assert.equal((await session.load("cities/bern")).name, "Bern");
  assert.equal((await session.load("cities/berlin")).name, "Berlin");
  assert.equal(session.advanced.numberOfRequests, 1);
});

test("load starting with returns ids in order, 25 by default", async () => {
  const session = store.openSession();
  const first = await session.advanced.loadStartingWith("page/");
  assert.deepEqual(idsOf(session, first), Object.keys(numbered).slice(0, 25));
  const all = await session.advanced.loadStartingWith("page/", { pageSize: 1024 });
  assert.deepEqual(idsOf(session, all), Object.keys(numbered));
});

test("load starting with pages by start and by startAfter", async () => {
  const session = store.openSession();
  const byStart = await session.advanced.loadStartingWith("page/", { start: 10, pageSize: 3 });
  assert.deepEqual(idsOf(session, byStart), ["page/010", "page/011", "page/012"]);
  const after = await session.advanced.loadStartingWith("page/", {
    startAfter: "page/047",
    pageSize: 10,
  });
  assert.deepEqual(idsOf(session, after), ["page/048", "page/049"]);
});

test("load starting with filters by matches and exclude", async () => {
  const session = store.openSession();
  const matching = await session.advanced.loadStartingWith("page/", { matches: "0?5|*49" });
  assert.deepEqual(idsOf(session, matching), [
    "page/005",
    "page/015",
    "page/025",
    "page/035",
    "page/045",
    "page/049",
  ]);
  const without = await session.advanced.loadStartingWith("page/04", { exclude: "*[0-9]|1|3" });
  assert.ok(!idsOf(session, without).includes("page/041"));
});

test("load starting with an unknown prefix is empty, and the prefix ignores case", async () => {
  const session = store.openSession();
  assert.deepEqual(await session.advanced.loadStartingWith("nowhere/"), []);
  assert.equal((await session.advanced.loadStartingWith("PAGE/00")).length, 10);
});

test("lazy loads of all kinds are sent in one request", async () => {
  const session = store.openSession();
  const bern = session.advanced.lazily.load("cities/bern");
  const pair = session.advanced.lazily.load(["countries/ch", "countries/none"]);
  const pages = session.advanced.lazily.loadStartingWith("page/00", { pageSize: 4 });
  await session.advanced.eagerly.executeAllPendingLazyOperations();

  assert.equal((await bern.getValue()).name, "Bern");
  const countries = await pair.getValue();
  assert.equal(countries["countries/ch"].name, "Switzerland");
  assert.equal(countries["countries/none"], null);
  assert.equal(Object.keys(await pages.getValue()).length, 4);
  assert.equal(session.advanced.numberOfRequests, 1);
});

test("a lazy load with an include fills the session", async () => {
  const session = store.openSession();
  const lazy = session.advanced.lazily.include("capital").load("countries/de");
  assert.equal((await lazy.getValue()).name, "Germany");
  assert.equal((await session.load("cities/berlin")).name, "Berlin");
  assert.equal(session.advanced.numberOfRequests, 1);
});

test("a lazy conditional load and a lazy query share a request", async () => {
  const known = store.openSession();
  const vector = known.advanced.getChangeVectorFor(await known.load("cities/bern"));
  const session = store.openSession();
  const unchanged = session.advanced.lazily.conditionalLoad("cities/bern", vector, Object);
  const cities = session.query({ collection: "Cities" }).lazily();
  await session.advanced.eagerly.executeAllPendingLazyOperations();
  assert.equal((await unchanged.getValue()).entity, null);
  assert.deepEqual((await cities.getValue()).map((c) => c.name).toSorted(), ["Berlin", "Bern"]);
  assert.equal(session.advanced.numberOfRequests, 1);
});
