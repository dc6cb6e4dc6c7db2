// Server-wide answers: missing databases, unknown routes, topology, HiLo, database administration.

import assert from "node:assert/strict";
import { test } from "node:test";

import { assertErrorBody, databaseForThisFile, deleteDatabases, request } from "../support/http.mjs";

const route = await databaseForThisFile("server");
const name = route.slice("/databases/".length);

test("the topology of a database names this server as its one member", async () => {
  const answer = await request("GET", `/topology?name=${name}&first-topology-update`);
  assert.equal(answer.status, 200);
  const { Nodes, Etag } = answer.json();
  assert.equal(typeof Etag, "number");
  assert.deepEqual(
    Nodes.map((node) => [node.ClusterTag, node.ServerRole, node.Database]),
    [["A", "Member", name]],
  );
});

test("the topology of a missing database is 503 with the header Database-Missing", async () => {
  const answer = await request("GET", "/topology?name=no-such-database");
  assert.equal(answer.status, 503);
  assert.equal(answer.headers["database-missing"], "no-such-database");
});

test("the record of a missing database is 404 with the header Database-Missing", async () => {
  const answer = await request("GET", "/admin/databases?name=no-such-database");
  assert.equal(answer.status, 404);
  assert.equal(answer.headers["database-missing"], "no-such-database");
});

test("requests to a missing database fail with DatabaseDoesNotExistException", async () => {
  const type = /^Raven\.Client\.Exceptions\.Database\.DatabaseDoesNotExistException$/;
  for (const [method, path, body] of [
    ["GET", "/docs?id=a/1"],
    ["POST", "/bulk_docs", '{"Commands":[]}'],
    ["GET", "/stats"],
    ["POST", "/queries", '{"Query":"from Users"}'],
  ]) {
    const answer = await request(method, `/databases/no-such-database${path}`, { body });
    const error = assertErrorBody(answer, { type });
    assert.equal(error.Url, `/databases/no-such-database${path}`);
    assert.match(error.Message, /no-such-database/);
  }
});

test("unknown routes and wrong methods are rejected with RouteNotFoundException", async () => {
  const type = /^Raven\.Client\.Exceptions\.Routing\.RouteNotFoundException$/;
  for (const [method, path] of [
    ["GET", "/frob"],
    ["GET", `${route}/frob`],
    ["DELETE", "/build/version"],
  ]) {
    const error = assertErrorBody(await request(method, path), { status: 400, type });
    assert.match(error.Message, new RegExp(`${method} ${path}$`));
  }
});

test("database names outside the allowed characters are refused", async () => {
  for (const bad of ["a/b?", "a b", "a\\b", "ä:ö", "x".repeat(300)]) {
    const answer = await request("PUT", `/admin/databases?name=${encodeURIComponent(bad)}`, {
      body: { DatabaseName: bad },
    });
    assertErrorBody(answer);
  }
});

test("creating a database with a malformed body is rejected and creates nothing", async () => {
  assertErrorBody(await request("PUT", "/admin/databases?name=raw-broken", { body: '{"DatabaseName"' }));
  assert.equal((await request("GET", "/admin/databases?name=raw-broken")).status, 404);
});

test("creating a database that exists is 409 ConcurrencyException", async () => {
  const answer = await request("PUT", `/admin/databases?name=${name}`, {
    body: { DatabaseName: name },
    headers: { ETag: '"0"' },
  });
  assertErrorBody(answer, { status: 409, type: /ConcurrencyException$/ });
});

test("deleting a database that does not exist succeeds", async () => {
  const answer = await deleteDatabases("no-such-database");
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.json().PendingDeletes, []);
});

test("HiLo returns ascending ranges that never overlap", async () => {
  const next = async () =>
    (
      await request(
        "GET",
        `${route}/hilo/next?tag=users&lastBatchSize=32&lastRangeAt=&identityPartsSeparator=/&lastMax=0`,
      )
    ).json();
  const ranges = await Promise.all(Array.from({ length: 10 }, next));
  ranges.sort((a, b) => a.Low - b.Low);
  for (const [i, range] of ranges.entries()) {
    assert.equal(range.Prefix, "users/");
    assert.equal(range.ServerTag, "A");
    assert.ok(range.High >= range.Low);
    if (i > 0) assert.ok(range.Low > ranges[i - 1].High, "ranges overlap");
  }
});

test("a response to an outdated topology etag contains Refresh-Topology", async () => {
  const old = await request("GET", `${route}/docs?startsWith=x`, { headers: { "Topology-Etag": '"-5"' } });
  assert.equal(old.headers["refresh-topology"], "true");
  const none = await request("GET", `${route}/docs?startsWith=x`);
  assert.equal(none.headers["refresh-topology"], undefined);
});

test("the build version has its four fields", async () => {
  const build = (await request("GET", "/build/version")).json();
  assert.deepEqual(Object.keys(build).toSorted(), [
    "BuildVersion",
    "CommitHash",
    "FullVersion",
    "ProductVersion",
  ]);
});

test("namesOnly lists names", async () => {
  const { Databases } = (await request("GET", "/databases?namesOnly=true&start=0&pageSize=1024")).json();
  assert.ok(Databases.includes(name));
});
