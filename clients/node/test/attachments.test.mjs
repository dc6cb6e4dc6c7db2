// Attachments: stored and read by sessions and operations, copied, moved, renamed, in bulk inserts.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const { PutAttachmentOperation, GetAttachmentOperation, DeleteAttachmentOperation, GetStatisticsOperation } =
  client;
const store = await databaseForThisFile("attachments");
const helloHash = "Mk3PAn3UowqTLEQfNlol6GsXPe+kuOWJSCU0cbgbcs8=";

async function read(result) {
  const pieces = [];
  for await (const piece of result.data) pieces.push(piece);
  result.dispose();
  return Buffer.concat(pieces);
}

async function contentOf(id, name) {
  const result = await store.openSession().advanced.attachments.get(id, name);
  return result && read(result);
}

async function namesOf(id) {
  const session = store.openSession();
  const document = await session.load(id);
  return session.advanced.attachments.getNames(document).map((attachment) => attachment.name);
}

test("a session stores a document with its attachments", async () => {
  const session = store.openSession();
  const hut = { name: "Monte Rosa" };
  await session.store(hut, "huts/1");
  session.advanced.attachments.store("huts/1", "hello.txt", Buffer.from("hello"), "text/plain");
  session.advanced.attachments.store(hut, "größe/ß.bin", Buffer.from([0, 13, 10, 45, 45, 255]));
  session.advanced.attachments.store(hut, "empty", Buffer.alloc(0), "x/y");
  await session.saveChanges();
  assert.deepEqual(await namesOf("huts/1"), ["empty", "größe/ß.bin", "hello.txt"]);
  assert.equal((await contentOf("huts/1", "HELLO.txt")).toString(), "hello");
  assert.deepEqual([...(await contentOf("huts/1", "größe/ß.bin"))], [0, 13, 10, 45, 45, 255]);
  assert.equal((await contentOf("huts/1", "empty")).length, 0);
});

test("the details of an attachment are returned", async () => {
  const result = await store.openSession().advanced.attachments.get("huts/1", "hello.txt");
  const { name, hash, contentType, size, documentId, changeVector } = result.details;
  result.dispose();
  assert.deepEqual([name, hash, contentType, size, documentId], ["hello.txt", helloHash, "text/plain", 5, "huts/1"]);
  assert.match(changeVector, /^A:\d+-/);
  const attachments = store.openSession().advanced.attachments;
  assert.equal(await attachments.exists("huts/1", "hello.txt"), true);
  assert.equal(await attachments.exists("huts/1", "nothing"), false);
  assert.equal(await attachments.get("huts/1", "nothing"), null);
});

test("large contents are returned unchanged", async () => {
  await storeAll(store, "Huts", { "huts/large": { name: "large" } });
  const contents = [3 << 20, (1 << 20) - 80, (1 << 20) - 79].map((bytes) => randomBytes(bytes));
  const session = store.openSession();
  contents.forEach((content, i) => session.advanced.attachments.store("huts/large", `c${i}`, content, "x/y"));
  await session.saveChanges();
  for (const [i, content] of contents.entries()) {
    assert.ok((await contentOf("huts/large", `c${i}`)).equals(content));
  }
});

test("operations put, read and delete", async () => {
  await storeAll(store, "Huts", { "huts/2": { name: "Margherita" } });
  const stored = await store.operations.send(
    new PutAttachmentOperation("huts/2", "a", Buffer.from("hello"), "text/plain"),
  );
  assert.deepEqual([stored.name, stored.hash, stored.size], ["a", helloHash, 5]);
  const result = await store.operations.send(new GetAttachmentOperation("huts/2", "A", "Document", null));
  assert.equal((await read(result)).toString(), "hello");
  await store.operations.send(new DeleteAttachmentOperation("huts/2", "a"));
  assert.deepEqual(await namesOf("huts/2"), []);
});

test("storing an attachment on a missing document fails", async () => {
  const missing = new PutAttachmentOperation("huts/none", "a", Buffer.from("x"), "t/x");
  await assert.rejects(() => store.operations.send(missing), { name: "DocumentDoesNotExistException" });
});

test("attachments are copied, moved and renamed", async () => {
  await storeAll(store, "Huts", { "huts/4": { name: "from" }, "huts/5": { name: "to" } });
  const first = store.openSession();
  first.advanced.attachments.store("huts/4", "a", Buffer.from("hello"), "text/plain");
  await first.saveChanges();
  const second = store.openSession();
  second.advanced.attachments.copy("huts/4", "a", "huts/5", "copied");
  await second.saveChanges();
  const third = store.openSession();
  third.advanced.attachments.rename("huts/4", "a", "b");
  await third.saveChanges();
  assert.deepEqual([await namesOf("huts/4"), await namesOf("huts/5")], [["b"], ["copied"]]);
  const fourth = store.openSession();
  fourth.advanced.attachments.move("huts/4", "b", "huts/5", "moved");
  await fourth.saveChanges();
  assert.deepEqual([await namesOf("huts/4"), await namesOf("huts/5")], [[], ["copied", "moved"]]);
  assert.equal((await contentOf("huts/5", "moved")).toString(), "hello");
});

test("saving a document keeps its attachments, and the session can continue to use it", async () => {
  const session = store.openSession();
  session.advanced.useOptimisticConcurrency = true;
  const hut = { name: "first" };
  await session.store(hut, "huts/6");
  session.advanced.attachments.store(hut, "a", Buffer.from("a"));
  await session.saveChanges();
  hut.name = "second";
  await session.saveChanges();
  session.advanced.attachments.delete(hut, "a");
  hut.name = "third";
  await session.saveChanges();
  assert.deepEqual(await namesOf("huts/6"), []);
  session.advanced.attachments.store(hut, "b", Buffer.from("b"));
  await session.saveChanges();
  await session.delete(hut);
  await session.saveChanges();
  await storeAll(store, "Huts", { "huts/6": { name: "again" } });
  assert.deepEqual(await namesOf("huts/6"), []);
  assert.equal(await contentOf("huts/6", "b"), null);
});

test("queries return documents with their attachments", async () => {
  const session = store.openSession();
  const found = await session.query({ collection: "Huts" }).whereEquals("id()", "huts/5").all();
  const names = session.advanced.attachments.getNames(found[0]).map((attachment) => attachment.name);
  assert.deepEqual(names, ["copied", "moved"]);
});

test("bulk inserts can contain attachments", async () => {
  const content = randomBytes(2 << 20);
  const insert = store.bulkInsert();
  await insert.store({ name: "bulk" }, "huts/bulk");
  const attachments = insert.attachmentsFor("huts/bulk");
  await attachments.store("small", Buffer.from("],}"), "t/x");
  await attachments.store("large", content);
  await insert.store({ name: "other" }, "huts/bulk2");
  await insert.finish();
  assert.equal((await contentOf("huts/bulk", "small")).toString(), "],}");
  assert.ok((await contentOf("huts/bulk", "large")).equals(content));
});

test("statistics count attachments and distinct contents", async () => {
  const statistics = await store.maintenance.send(new GetStatisticsOperation());
  // hello.txt, größe, empty; three large ones; copied and moved, which are hello; two of the bulk insert.
  assert.equal(statistics.countOfAttachments, 10);
  assert.equal(statistics.countOfUniqueAttachments, 8);
});
