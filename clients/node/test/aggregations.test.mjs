// Facets, suggestions and similar documents.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const { PutIndexesOperation, IndexDefinition, FacetBuilder, RangeBuilder, RangeFacet, Facet, FacetSetup } = client;
const store = await databaseForThisFile("aggregations");

await storeAll(store, "Boats", {
  "boats/1": { maker: "Ada", price: 100.5, sails: 1, built: "2020-01-01T00:00:00.0000000", note: "a river boat with a river crew" },
  "boats/2": { maker: "ada", price: 140, sails: 3, built: "2020-03-01T00:00:00.0000000", note: "river crews and river boats" },
  "boats/3": { maker: "Nora", price: 200, sails: 2, built: "2021-01-01T00:00:00.0000000", note: "the boat went down the river" },
  "boats/4": { maker: "Zed", price: 99, sails: 2, built: "2021-06-01T00:00:00.0000000", note: "a mountain hut" },
});

const index = new IndexDefinition();
index.name = "Boats";
index.maps = new Set(["from b in docs.Boats select new { b.maker, b.price, b.sails, b.built, b.note }"]);
index.fields = {
  maker: { suggestions: true },
  note: { indexing: "Search", storage: "Yes", suggestions: true },
};
await store.maintenance.send(new PutIndexesOperation(index));

const boats = () => store.openSession().query({ indexName: "Boats" }).waitForNonStaleResults();
const counts = (facet) => facet.values.map((value) => [value.range, value.count]);
const idsOf = (rows) => rows.map((row) => row.id ?? row["@metadata"]["@id"]);

test("a facet counts the entries of each term and adds up their numbers", async () => {
  const facets = await boats()
    .aggregateBy((builder) => builder.byField("maker").sumOn("price").averageOn("sails"))
    .execute();
  assert.deepEqual(Object.keys(facets), ["maker"]);
  const sums = facets.maker.values.filter((value) => value.name === "price");
  assert.deepEqual(sums.map((value) => [value.range, value.count, value.sum]), [
    ["ada", 2, 240.5],
    ["nora", 1, 200],
    ["zed", 1, 99],
  ]);
  const averages = facets.maker.values.filter((value) => value.name === "sails");
  assert.deepEqual(averages.map((value) => value.average), [2, 2, 2]);
});

test("the aggregations of a facet have their given names", async () => {
  const facets = await boats()
    .aggregateBy((builder) => builder.byField("maker").withDisplayName("By").sumOn("price", "Total").maxOn("price", "Most"))
    .execute();
  const ada = facets.By.values.filter((value) => value.range === "ada");
  assert.deepEqual(ada.map((value) => [value.name, value.sum ?? value.max]), [["Total", 240.5], ["Most", 140]]);
});

test("ranges are counted, also those without entries", async () => {
  const range = RangeBuilder.forPath("price");
  const facets = await boats()
    .aggregateBy((builder) =>
      builder
        .byRanges(range.isLessThan(100), range.isGreaterThanOrEqualTo(100).isLessThan(150), range.isGreaterThan(5000))
        .minOn("sails"),
    )
    .execute();
  assert.deepEqual(counts(facets.price).map(([, count]) => count), [1, 2, 0]);
  assert.equal(facets.price.values[1].min, 1);
  assert.match(facets.price.values[1].range, /^price >= 100(\.0)? and price < 150(\.0)?$/);
});

test("several facets of the matching documents are returned in one response", async () => {
  const facets = await boats()
    .whereGreaterThanOrEqual("price", 100)
    .aggregateBy((builder) => builder.byField("maker"))
    .andAggregateBy((builder) => builder.byField("sails"))
    .execute();
  assert.deepEqual(counts(facets.maker), [["ada", 2], ["nora", 1]]);
  assert.deepEqual(counts(facets.sails), [["1", 1], ["2", 1], ["3", 1]]);
});

test("options order and page the terms", async () => {
  const options = { termSortMode: "CountDesc", pageSize: 1, includeRemainingTerms: true, start: 0 };
  const facets = await boats()
    .aggregateBy((builder) => builder.byField("maker").withOptions(options))
    .execute();
  assert.deepEqual(counts(facets.maker), [["ada", 2]]);
  assert.equal(facets.maker.remainingHits, 2);
  assert.deepEqual(facets.maker.remainingTerms, ["nora", "zed"]);
});

test("a document lists the facets, and a lazy query asks for them", async () => {
  const setup = new FacetSetup();
  const maker = new Facet();
  maker.fieldName = "maker";
  const price = new RangeFacet();
  price.ranges = ["price < 100", "price >= 100"];
  setup.facets = [maker];
  setup.rangeFacets = [price];
  const session = store.openSession();
  await session.store(setup, "facets/boats");
  await session.saveChanges();
  const facets = await boats().aggregateUsing("facets/boats").execute();
  assert.deepEqual(counts(facets.price), [["price < 100", 1], ["price >= 100", 3]]);
  const asking = store.openSession();
  const lazy = asking
    .query({ indexName: "Boats" })
    .waitForNonStaleResults()
    .aggregateBy((builder) => builder.byField("maker"))
    .executeLazy();
  await asking.advanced.eagerly.executeAllPendingLazyOperations();
  assert.deepEqual(counts((await lazy.getValue()).maker)[0], ["ada", 2]);
});

test("similar terms are suggested, from a static index and from an automatic one", async () => {
  const written = await boats().suggestUsing((builder) => builder.byField("maker", "norra")).execute();
  assert.deepEqual(written.maker.suggestions, ["nora"]);
  const options = { accuracy: 0.6, pageSize: 5, distance: "NGram", sortMode: "Popularity" };
  const words = await boats()
    .suggestUsing((builder) => builder.byField("note", ["bott", "montain"]).withOptions(options))
    .execute();
  assert.ok(words.note.suggestions.includes("boat"));
  assert.ok(words.note.suggestions.includes("mountain"));
  const made = await store
    .openSession()
    .query({ collection: "Boats" })
    .waitForNonStaleResults()
    .suggestUsing((builder) => builder.byField("maker", "noora").withDisplayName("Meant"))
    .execute();
  assert.deepEqual(made.Meant.suggestions, ["nora"]);
});

test("similar documents are returned best first, without the document itself", async () => {
  const options = { fields: ["note"], minimumTermFrequency: 1, minimumDocumentFrequency: 1 };
  const alike = await boats()
    .moreLikeThis((builder) => builder.usingDocument((query) => query.whereEquals("id()", "boats/1")).withOptions(options))
    .all();
  assert.deepEqual(idsOf(alike).sort(), ["boats/2", "boats/3"]);
  const text = JSON.stringify({ note: "huts of a mountain" });
  const typed = await boats()
    .moreLikeThis((builder) => builder.usingDocument(text).withOptions(options))
    .all();
  assert.deepEqual(idsOf(typed), ["boats/4"]);
  const narrowed = await boats()
    .moreLikeThis((builder) => builder.usingDocument((query) => query.whereEquals("id()", "boats/1")).withOptions(options))
    .andAlso()
    .whereEquals("maker", "nora")
    .all();
  assert.deepEqual(idsOf(narrowed), ["boats/3"]);
});

test("facets of a collection and a missing base document are rejected", async () => {
  const collection = store.openSession().query({ collection: "Boats" });
  await assert.rejects(
    collection.aggregateBy((builder) => builder.byField("maker")).execute(),
    { name: "InvalidQueryException" },
  );
  const nobody = boats().moreLikeThis((builder) =>
    builder.usingDocument((query) => query.whereEquals("id()", "boats/99")),
  );
  await assert.rejects(nobody.all(), /InvalidOperationException.*base of comparison/);
});
