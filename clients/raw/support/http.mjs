// Plain HTTP requests to the server under test, bytes in and bytes out, and databases to try on.
//
// Only the standard library: the bytes sent are exactly those in the test, including requests that no
// real client would send.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import http from "node:http";
import net from "node:net";
import { PassThrough } from "node:stream";
import { after } from "node:test";
import { constants, createGzip } from "node:zlib";

if (!process.env.CORVUS_TEST_URL) {
  throw new Error("CORVUS_TEST_URL is not set; start the tests through clients/run");
}
export const serverUrl = new URL(process.env.CORVUS_TEST_URL);

/** True when the server under test is RavenDB itself, whose known bugs are then skipped. */
export const isReference = process.env.CORVUS_TEST_REFERENCE === "1";

const ANSWER_TIMEOUT_MS = 30_000;

/**
 * Sends one request and resolves to {status, headers, bytes, text, json()}.
 * A `chunked` body is sent in two chunks without a Content-Length.
 */
export function request(method, path, { body, headers = {}, chunked = false } = {}) {
  const payload =
    typeof body === "string" || Buffer.isBuffer(body) || body === undefined ? body : JSON.stringify(body);
  const length = payload === undefined || chunked ? {} : { "Content-Length": Buffer.byteLength(payload) };
  return new Promise((resolve, reject) => {
    const options = {
      host: serverUrl.hostname,
      port: serverUrl.port,
      method,
      path,
      headers: { ...headers, ...length },
      agent: false,
      timeout: ANSWER_TIMEOUT_MS,
    };
    const sent = http.request(options, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("error", reject);
      answer.on("end", () => {
        const bytes = Buffer.concat(parts);
        const text = bytes.toString("utf8");
        resolve({
          status: answer.statusCode,
          headers: answer.headers,
          bytes,
          text,
          json: () => JSON.parse(text),
        });
      });
    });
    sent.on("timeout", () => sent.destroy(new Error(`no answer to ${method} ${path}`)));
    sent.on("error", reject);
    const half = chunked ? payload.length >> 1 : 0;
    if (half > 0) sent.write(payload.slice(0, half));
    sent.end(payload?.slice(half));
  });
}

/** Sends `bytes` on a bare connection, closes the sending side, resolves to everything received. */
export function exchange(bytes) {
  return new Promise((resolve, reject) => {
    const parts = [];
    const socket = net.connect(Number(serverUrl.port), serverUrl.hostname, () => socket.end(bytes));
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => socket.destroy(new Error("the connection was left open")));
    socket.on("data", (part) => parts.push(part));
    socket.on("error", (error) =>
      error.code === "ECONNRESET" ? resolve(Buffer.concat(parts)) : reject(error),
    );
    socket.on("close", () => resolve(Buffer.concat(parts)));
  });
}

/** Posts `pieces` one by one without ever ending the body; resolves to the status of the response. */
export function answerBeforeTheEnd(path, pieces, encoding) {
  return new Promise((resolve, reject) => {
    const sent = http.request({
      host: serverUrl.hostname,
      port: serverUrl.port,
      method: "POST",
      path,
      headers: {
        "Content-Type": "application/json",
        ...(encoding === "gzip" ? { "Content-Encoding": "gzip" } : {}),
      },
      agent: false,
      timeout: ANSWER_TIMEOUT_MS,
    });
    sent.on("timeout", () => sent.destroy(new Error(`no answer to ${path} while its body is open`)));
    sent.on("error", reject);
    sent.on("response", (answer) => {
      resolve(answer.statusCode);
      sent.destroy();
    });
    const sink = encoding === "gzip" ? createGzip({ flush: constants.Z_SYNC_FLUSH }) : new PassThrough();
    sink.pipe(sent, { end: false });
    for (const piece of pieces) sink.write(piece);
  });
}

export async function createDatabase(name) {
  const answer = await request("PUT", `/admin/databases?name=${name}&replicationFactor=1`, {
    body: { DatabaseName: name, Settings: {}, Disabled: false },
  });
  assert.equal(answer.status, 201, answer.text);
}

export async function deleteDatabases(...names) {
  return request("DELETE", "/admin/databases", { body: { DatabaseNames: names, HardDelete: true } });
}

/** Creates a database for the whole file; returns its route `/databases/<name>`. */
export async function databaseForThisFile(label) {
  const name = `raw-${label}-${randomBytes(5).toString("hex")}`;
  await createDatabase(name);
  after(() => deleteDatabases(name));
  return `/databases/${name}`;
}

/** Asserts the shape that every error body has, and returns the parsed body. */
export function assertErrorBody(answer, { status, type } = {}) {
  assert.ok(answer.status >= 400, `expected an error, got ${answer.status}: ${answer.text}`);
  if (status) assert.equal(answer.status, status, answer.text);
  assert.match(answer.headers["content-type"], /^application\/json/);
  const body = answer.json();
  for (const key of ["Url", "Type", "Message", "Error"]) {
    assert.equal(typeof body[key], "string", `${key} in ${answer.text}`);
  }
  if (type) assert.match(body.Type, type);
  return body;
}

export const put = (Id, Document, more = {}) => ({ Id, ChangeVector: null, Document, Type: "PUT", ...more });

/** Posts a batch: an object is sent as JSON, a string or buffer as it is. */
export function batch(route, body, headers = {}) {
  return request("POST", `${route}/bulk_docs`, { body, headers });
}

export async function getDocument(route, id) {
  const answer = await request("GET", `${route}/docs?id=${encodeURIComponent(id)}`);
  return answer.status === 404 ? null : answer.json().Results[0];
}
