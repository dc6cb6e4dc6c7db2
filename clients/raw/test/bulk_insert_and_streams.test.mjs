// Bulk insert and streams on the wire: operation states, broken input, formats, queries.

import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import {
  answerBeforeTheEnd,
  assertErrorBody,
  batch,
  databaseForThisFile,
  getDocument,
  put,
  request,
} from "../support/http.mjs";

const route = await databaseForThisFile("bulk");

const STATE_POLLS_MAX = 2_000;

/** The state of operation `id` once it has left InProgress, which may be shortly after the response. */
async function finalState(id) {
  for (let polls = 0; polls < STATE_POLLS_MAX; polls++) {
    const state = (await request("GET", `${route}/operations/state?id=${id}`)).json();
    if (state.Status !== "InProgress") return state;
  }
  throw new Error(`operation ${id} stays InProgress`);
}

/** Sends `body` as one bulk insert; resolves to its response and the final state of its operation. */
async function bulkInsert(body, headers = {}) {
  const { Id } = (await request("GET", `${route}/operations/next-operation-id`)).json();
  const answer = await request("POST", `${route}/bulk_insert?id=${Id}`, { body, headers });
  return { answer, state: await finalState(Id) };
}

test("a bulk insert stores its documents and completes its operation", async () => {
  const documents = Array.from({ length: 300 }, (_, n) => ({ Id: `bi/${n}`, Type: "PUT", Document: { n } }));
  const { answer, state } = await bulkInsert(JSON.stringify(documents));
  assert.equal(answer.status, 201);
  assert.equal(state.Status, "Completed");
  assert.equal(state.Result.DocumentsProcessed, 300);
  assert.equal((await getDocument(route, "bi/299")).n, 299);
});

test("heartbeats, an empty list and gzip are accepted", async () => {
  const one = '{"Id":"hb/1","Type":"PUT","Document":{"n":1}}';
  const { state } = await bulkInsert(`[${one},{"Type":"HeartBeat"}]`);
  assert.deepEqual([state.Status, state.Result.DocumentsProcessed], ["Completed", 1]);
  assert.equal((await bulkInsert("[]")).state.Status, "Completed");
  const packed = await bulkInsert(gzipSync('[{"Id":"hb/2","Type":"PUT","Document":{"n":2}}]'), {
    "Content-Encoding": "gzip",
  });
  assert.equal(packed.state.Status, "Completed");
  assert.equal((await getDocument(route, "hb/2")).n, 2);
});

// The 7.x Node.js client ends its body only after it has read the response, so the server must respond
// at the bracket that closes the list; under gzip that comes before the gzip trailer.
for (const encoding of ["identity", "gzip"]) {
  test(`a bulk insert is answered at its closing bracket, before the body ends (${encoding})`, async () => {
    const { Id } = (await request("GET", `${route}/operations/next-operation-id`)).json();
    const pieces = [
      '[{"Id":"open/1","Type":"PUT","Document":{"n":1}}',
      `,{"Id":"open/2","Type":"PUT","Document":{"n":"${encoding}"}}`,
      "]",
    ];
    const status = await answerBeforeTheEnd(`${route}/bulk_insert?id=${Id}`, pieces, encoding);
    assert.equal(status, 201);
    assert.equal((await getDocument(route, "open/2")).n, encoding);
  });
}

const brokenInserts = {
  "an unknown command": '[{"Id":"broken/1","Type":"FROB"}]',
  "an object instead of a list": "{}",
  "an empty body": "",
  "an unfinished list": "[",
  "a list cut off in a document": '[{"Id":"broken/1","Type":"PUT","Document":{"n":1}},{"Id":"broken/2"',
  "a number as command": "[5]",
  "a number as document": '[{"Id":"broken/1","Type":"PUT","Document":5}]',
};
for (const [what, body] of Object.entries(brokenInserts)) {
  test(`a bulk insert fails and its operation is Faulted: ${what}`, async () => {
    const { answer, state } = await bulkInsert(body);
    assertErrorBody(answer, { status: 500 });
    assert.equal(state.Status, "Faulted");
    assert.equal(await getDocument(route, "broken/2"), null);
  });
}

test("a bulk insert without a usable operation id is refused", async () => {
  for (const query of ["", "?id=abc"]) {
    assertErrorBody(await request("POST", `${route}/bulk_insert${query}`, { body: "[]" }));
  }
});

test("the state of an unknown operation is 404", async () => {
  const answer = await request("GET", `${route}/operations/state?id=987654321`);
  assert.deepEqual([answer.status, answer.text], [404, ""]);
});

await batch(route, {
  Commands: Array.from({ length: 5 }, (_, n) =>
    put(`rows/${n}`, { n, "@metadata": { "@collection": "Rows" } }),
  ),
});

test("a stream of documents is one JSON object, by prefix in id order", async () => {
  const answer = await request("GET", `${route}/streams/docs?startsWith=rows/&start=1&pageSize=3`);
  assert.deepEqual(
    answer.json().Results.map((row) => row.n),
    [1, 2, 3],
  );
});

test("each JSON line of a document stream contains one document", async () => {
  const { text } = await request("GET", `${route}/streams/docs?startsWith=rows/&format=jsonl`);
  const lines = text
    .trim()
    .split(/\r?\n/)
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map((line) => (line.Item ?? line).n),
    [0, 1, 2, 3, 4],
  );
});

test("a query stream starts with its statistics, in both formats", async () => {
  const body = { Query: "from Rows" };
  const whole = (await request("POST", `${route}/streams/queries`, { body })).json();
  assert.equal(Object.keys(whole).at(-1), "Results", "statistics come before the results");
  assert.deepEqual([whole.TotalResults, whole.Results.length], [5, 5]);

  const { text } = await request("POST", `${route}/streams/queries?format=jsonl`, { body });
  const [stats, ...items] = text
    .trim()
    .split(/\r?\n/)
    .map((line) => JSON.parse(line));
  assert.equal(stats.Stats.TotalResults, 5);
  assert.deepEqual(
    items.map((line) => line.Item.n),
    [0, 1, 2, 3, 4],
  );
});

test("a collection query returns its envelope, its totals and 304", async () => {
  const ask = (headers) =>
    request("POST", `${route}/queries`, { body: { Query: "from Rows limit 2 offset 1" }, headers });
  const answer = await ask();
  const result = answer.json();
  assert.deepEqual(
    result.Results.map((row) => row.n),
    [1, 2],
  );
  assert.deepEqual([result.TotalResults, result.CappedMaxResults, result.IsStale], [5, 2, false]);
  assert.equal(result.IndexName, "collection/Rows");
  assert.equal(answer.headers.etag.replaceAll('"', ""), String(/"ResultEtag":(-?\d+)/.exec(answer.text)[1]));
  assert.equal((await ask({ "If-None-Match": answer.headers.etag })).status, 304);
  await batch(route, { Commands: [put("rows/4", { n: 40, "@metadata": { "@collection": "Rows" } })] });
  assert.equal((await ask({ "If-None-Match": answer.headers.etag })).status, 200);
});

test("unparseable queries are rejected with an error body", async () => {
  const bodies = [
    '{"Quer',
    "",
    "[]",
    "{}",
    '{"Query":5}',
    '{"Query":"selec Rows"}',
    '{"Query":"from"}',
    '{"Query":"from Rows limit -1"}',
  ];
  for (const body of bodies) {
    assertErrorBody(await request("POST", `${route}/queries`, { body }));
  }
});
