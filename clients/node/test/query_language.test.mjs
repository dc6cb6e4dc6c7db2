// Parts of the query language that need an index: lucene(), filter, highlighting, explanations.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("query-language");

await storeAll(store, "Books", {
  "books/1": { title: "The quick brown fox", pages: 120, kind: "tale" },
  "books/2": { title: "A quick red fox jumps", pages: 80, kind: null },
  "books/3": { title: "Brown bears", pages: 300 },
});

const definition = new client.IndexDefinition();
Object.assign(definition, {
  name: "Books/ByTitle",
  maps: new Set(["from b in docs.Books select new { b.title, b.kind }"]),
  fields: {
    title: Object.assign(new client.IndexFieldOptions(), {
      indexing: "Search",
      storage: "Yes",
      termVector: "WithPositionsAndOffsets",
    }),
    kind: Object.assign(new client.IndexFieldOptions(), { storage: "Yes" }),
  },
});
await store.maintenance.send(new client.PutIndexesOperation(definition));

const index = () =>
  store.openSession().query({ indexName: "Books/ByTitle" }).waitForNonStaleResults();
const raw = (text) => store.openSession().advanced.rawQuery(text).waitForNonStaleResults();
const ids = (rows) => rows.map((row) => row.id).sort();

test("lucene() understands the classic syntax, on an index and without one", async () => {
  for (const [text, expected] of [
    ["quick -red", ["books/1"]],
    ["quick AND (red OR brown)", ["books/1", "books/2"]],
    ['"quick fox"~1', ["books/1", "books/2"]],
    ["be?rs || jum*", ["books/2", "books/3"]],
    ["browm~", ["books/1", "books/3"]],
    ["[bears TO brown]", ["books/1", "books/3"]],
  ]) {
    assert.deepEqual(ids(await index().whereLucene("title", text).all()), expected, text);
    const dynamic = store.openSession().query({ collection: "Books" }).waitForNonStaleResults();
    assert.deepEqual(ids(await dynamic.whereLucene("title", text).all()), expected, text);
  }
  await assert.rejects(index().whereLucene("title", "quick AND (").all(), /Cannot parse/);
});

test("filter scans rows and reports how many", async () => {
  let statistics;
  const rows = await raw("from Books filter pages > 100 and kind != null")
    .statistics((s) => (statistics = s))
    .all();
  assert.deepEqual(ids(rows), ["books/1", "books/3"]);
  assert.equal(statistics.totalResults, 2);
  assert.equal(statistics.skippedResults, 1);
});

test("highlighting marks matches, with default and custom tags", async () => {
  let found;
  await index()
    .highlight({ fieldName: "title", fragmentLength: 50, fragmentCount: 2 }, (h) => (found = h))
    .search("title", "quick fox")
    .all();
  assert.deepEqual(found.getFragments("books/1"), [
    'The <b style="background:yellow">quick</b> brown <b style="background:lawngreen">fox</b>',
  ]);
  await index()
    .highlight(
      {
        fieldName: "title",
        fragmentLength: 50,
        fragmentCount: 2,
        preTags: ["<em>"],
        postTags: ["</em>"],
        groupKey: "kind",
      },
      (h) => (found = h),
    )
    .search("title", "fox")
    .all();
  assert.deepEqual(found.getFragments("NULL_VALUE"), ["A quick red <em>fox</em> jumps"]);
  assert.deepEqual(found.getFragments("tale"), ["The quick brown <em>fox</em>"]);
});

test("explanations show how scores are computed", async () => {
  let explained;
  const rows = await index()
    .includeExplanations((e) => (explained = e))
    .search("title", "fox")
    .all();
  assert.equal(rows.length, 2);
  for (const row of rows) {
    const [text] = explained.explanations[row.id];
    assert.match(text, /^[0-9.]+ = \(MATCH\)/);
    assert.match(text, /title:fox/);
  }
});
