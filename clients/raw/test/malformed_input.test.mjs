// Malformed requests: each is rejected with an error body, stores nothing, and affects nothing else.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { gzipSync } from "node:zlib";

import {
  assertErrorBody,
  batch,
  databaseForThisFile,
  exchange,
  getDocument,
  isReference,
  put,
  request,
} from "../support/http.mjs";

const route = await databaseForThisFile("malformed");
await batch(route, { Commands: [put("witness/1", { n: 1 })] });

afterEach(async () => {
  assert.equal((await getDocument(route, "witness/1"))?.n, 1, "the server must go on serving");
});

const refusedBatches = {
  "an empty body": "",
  "text that is no JSON": "this is no JSON",
  "an unfinished batch": '{"Commands":[{"Id":"bad/1","Type":"PUT","Document":{"n":',
  "brackets that do not match": '{"Commands": [}',
  "an array as root": "[]",
  "a number as root": "5",
  "an object without Commands": "{}",
  "Commands that is a number": '{"Commands":5}',
  "Commands that is null": '{"Commands":null}',
  "a command that is a number": '{"Commands":[5]}',
  "a command without type": '{"Commands":[{"Id":"bad/1","Document":{}}]}',
  "a type that is a number": '{"Commands":[{"Id":"bad/1","Type":5,"Document":{}}]}',
  "a type in lower case": '{"Commands":[{"Id":"bad/1","Type":"put","Document":{}}]}',
  "an id that is a number": '{"Commands":[{"Id":5,"Type":"PUT","Document":{}}]}',
  "a document that is a number": '{"Commands":[{"Id":"bad/1","Type":"PUT","Document":5}]}',
  "a document that is text": '{"Commands":[{"Id":"bad/1","Type":"PUT","Document":"x"}]}',
  "a document that is an array": '{"Commands":[{"Id":"bad/1","Type":"PUT","Document":[1]}]}',
  "a PUT without document": '{"Commands":[{"Id":"bad/1","Type":"PUT"}]}',
  "metadata that is text": '{"Commands":[{"Id":"bad/1","Type":"PUT","Document":{"@metadata":"x"}}]}',
  "a change vector that is a number":
    '{"Commands":[{"Id":"bad/1","ChangeVector":5,"Type":"PUT","Document":{}}]}',
  "a number with a leading zero": '{"Commands":[{"Id":"bad/1","Type":"PUT","Document":{"n":01}}]}',
  "a number too large for a double": '{"Commands":[{"Id":"bad/1","Type":"PUT","Document":{"n":1e400}}]}',
};

for (const [what, body] of Object.entries(refusedBatches)) {
  test(`a batch is refused: ${what}`, async () => {
    assertErrorBody(await batch(route, body));
    assert.equal(await getDocument(route, "bad/1"), null);
  });
}

test("an unknown command is refused by name, and the commands before it are not stored", async () => {
  const answer = await batch(route, {
    Commands: [put("before/1", {}), { Id: "x", Type: "FROB", Document: {} }],
  });
  assert.match(assertErrorBody(answer).Message, /FROB/);
  assert.equal(await getDocument(route, "before/1"), null);
});

test("an id over 512 bytes is rejected by every route", async () => {
  const long = "l".repeat(513);
  assert.match(assertErrorBody(await batch(route, { Commands: [put(long, {})] })).Message, /512/);
  assertErrorBody(await request("PUT", `${route}/docs?id=${long}`, { body: {} }));
  assertErrorBody(await request("GET", `${route}/docs?id=${long}`));
});

test("the limit of 512 counts bytes, not characters", async () => {
  const fits = "ä".repeat(256);
  assert.equal((await batch(route, { Commands: [put(fits, { n: 3 })] })).status, 201);
  assert.equal((await getDocument(route, fits)).n, 3);
  assertErrorBody(await batch(route, { Commands: [put(`${fits}ä`, {})] }));
});

for (const [what, body] of Object.entries({ unfinished: '{"n":', array: "[1]", empty: "" })) {
  test(`PUT /docs refuses a body that is ${what}`, async () => {
    assertErrorBody(await request("PUT", `${route}/docs?id=bad/2`, { body }));
    assert.equal(await getDocument(route, "bad/2"), null);
  });
}

test("requests without their mandatory id are refused", async () => {
  for (const [method, body] of [
    ["PUT", "{}"],
    ["DELETE", undefined],
  ]) {
    assertErrorBody(await request(method, `${route}/docs`, { body }));
  }
  assert.ok((await request("HEAD", `${route}/docs`)).status >= 400);
});

test("query-string values of the wrong type are refused", async () => {
  assertErrorBody(await request("GET", `${route}/docs?start=abc`));
  assertErrorBody(await request("GET", `${route}/docs?id=witness/1&metadataOnly=yes`));
});

test("an invalid or truncated gzip body is rejected", async () => {
  const whole = gzipSync(JSON.stringify({ Commands: [put("bad/3", { text: "x".repeat(5000) })] }));
  for (const body of [Buffer.from("no gzip at all"), whole.subarray(0, whole.length >> 1)]) {
    assertErrorBody(await batch(route, body, { "Content-Encoding": "gzip" }));
  }
  assert.equal(await getDocument(route, "bad/3"), null);
});

test("a connection that ends within a body stores nothing", async () => {
  const start = `POST ${route}/bulk_docs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n`;
  await exchange(`${start}{"Commands":[{"Id":"half/1","Type":"PUT","Document":{"n":1}},`);
  assert.equal(await getDocument(route, "half/1"), null);
});

test("bytes that are not HTTP do not affect the server", async () => {
  await exchange("GARBAGE\r\n\r\n");
  await exchange(Buffer.from(Array.from({ length: 4096 }, (_, i) => (i * 7919) & 255)));
  await exchange(`GET ${route}/docs?id=%FF HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
});

test("an endless sequence of opening brackets is rejected", async () => {
  const body = `{"Commands":[{"Id":"deep/1","Type":"PUT","Document":{"n":${"[".repeat(200_000)}`;
  assertErrorBody(await batch(route, body));
  assert.equal(await getDocument(route, "deep/1"), null);
});

test("a million nested arrays get a response and do not crash the server", async () => {
  const nested = "[".repeat(1_000_000) + "]".repeat(1_000_000);
  const answer = await batch(route, `{"Commands":[{"Id":"deep/2","Type":"PUT","Document":{"n":${nested}}}]}`);
  assert.ok(answer.status === 201 || assertErrorBody(answer));
});

const knownFault = isReference ? "a known fault of the reference server" : false;

test("nesting too deep to be read back is rejected", { skip: knownFault }, async () => {
  for (const depth of [100, 1_000, 100_000]) {
    const nested = "[".repeat(depth) + "]".repeat(depth);
    const answer = await batch(
      route,
      `{"Commands":[{"Id":"deep/${depth}","Type":"PUT","Document":{"n":${nested}}}]}`,
    );
    if (answer.status !== 201) {
      assertErrorBody(answer);
      assert.equal(await getDocument(route, `deep/${depth}`), null);
      continue;
    }
    const back = await request("GET", `${route}/docs?id=deep/${depth}`);
    assert.ok(back.text.includes(nested), `${depth} levels were accepted but did not come back`);
  }
});

test("invalid UTF-8 is rejected or replaced, never returned", { skip: knownFault }, async () => {
  const [head, tail] = ['{"Commands":[{"Id":"utf8/1","Type":"PUT","Document":{"x":"', '"}}]}'];
  const body = Buffer.concat([Buffer.from(head), Buffer.from([0xff, 0xfe, 0xc3, 0x28]), Buffer.from(tail)]);
  const answer = await batch(route, body);
  if (answer.status !== 201) return void assertErrorBody(answer);
  const { bytes } = await request("GET", `${route}/docs?id=utf8/1`);
  new TextDecoder("utf-8", { fatal: true }).decode(bytes);
});

test("a body that is not valid UTF-8 leaves the documents around it readable", async () => {
  const body = Buffer.concat([
    Buffer.from('{"Commands":[{"Id":"utf8/2'),
    Buffer.from([0xc3]),
    Buffer.from('","Type":"PUT","Document":{}}]}'),
  ]);
  await batch(route, body);
  await batch(route, { Commands: [put("utf8/3", { n: 3 })] });
  assert.equal((await getDocument(route, "utf8/3")).n, 3);
});
