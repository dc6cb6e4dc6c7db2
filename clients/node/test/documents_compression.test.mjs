// Compressed documents: clients see nothing of it but sizes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { client, databaseForThisFile, loadFresh, serverUrl } from "../support/client.mjs";

const { UpdateDocumentsCompressionConfigurationOperation } = client;
const store = await databaseForThisFile("compression");

const USERS = 200;
const PATIENCE_MILLISECONDS = 30_000;

const user = (number) => ({
  firstName: `Name ${number}`,
  lastName: `Surname ${(number * 7919) % 997}`,
  address: { street: `Main street ${number % 83}`, country: "United Kingdom" },
  tags: ["customer", "newsletter", "discount"],
  "@metadata": { "@collection": "Users" },
});

async function saveAll() {
  const session = store.openSession();
  for (let number = 0; number < USERS; number++) await session.store(user(number), `users/${number}`);
  await session.saveChanges();
}

// The client has no operation for it.
async function sizeOf(id) {
  const url = `${serverUrl}/databases/${store.database}/docs/size?id=${encodeURIComponent(id)}`;
  const size = await (await fetch(url)).json();
  return { stored: size.AllocatedSize, plain: size.ActualSize };
}

async function configure(configuration) {
  const operation = new UpdateDocumentsCompressionConfigurationOperation(configuration);
  const configured = await store.maintenance.send(operation);
  assert.ok(configured.raftCommandIndex > 0);
}

test("documents of a configured collection are compressed, and are returned unchanged", async () => {
  await configure({ collections: ["Users"], compressAllCollections: false, compressRevisions: true });
  const end = Date.now() + PATIENCE_MILLISECONDS;
  let size = { stored: 1, plain: 1 };
  while (size.plain <= 2 * size.stored) {
    assert.ok(Date.now() < end, "no dictionary is trained");
    await saveAll();
    size = await sizeOf("users/7");
    await pause(50);
  }
  const read = await loadFresh(store, "users/7");
  assert.equal(read.lastName, user(7).lastName);
  assert.deepEqual(read.tags, user(7).tags);
  const session = store.openSession();
  const found = await session.query({ collection: "Users" }).whereEquals("lastName", user(9).lastName)
    .waitForNonStaleResults().all();
  assert.deepEqual(found.map((one) => one.firstName), ["Name 9"]);
});

test("documents written after disabling compression are not compressed", async () => {
  await configure({ collections: [], compressAllCollections: false, compressRevisions: false });
  assert.ok((await sizeOf("users/8")).stored < (await sizeOf("users/8")).plain);
  const session = store.openSession();
  await session.store(user(1008), "users/8");
  await session.saveChanges();
  const { stored, plain } = await sizeOf("users/8");
  assert.equal(stored, plain);
});
