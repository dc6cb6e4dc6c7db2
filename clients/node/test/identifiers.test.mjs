// Ids: HiLo ranges, ids chosen by the server, ids chosen by the caller, and their limits.

import assert from "node:assert/strict";
import { test } from "node:test";

import { databaseForThisFile, loadFresh, openStore } from "../support/client.mjs";

class User {
  constructor(name) {
    this.name = name;
  }
}

const store = await databaseForThisFile("identifiers");

async function storeOne(entity, id) {
  const session = store.openSession();
  await session.store(entity, id);
  await session.saveChanges();
  return session.advanced.getDocumentId(entity);
}

test("HiLo gives short ascending ids of the collection, before anything is saved", async () => {
  const session = store.openSession();
  const users = Array.from({ length: 100 }, (_, i) => new User(`user ${i}`));
  for (const user of users) await session.store(user);
  const numbers = users.map((user) => {
    const match = /^users\/(\d+)-A$/.exec(session.advanced.getDocumentId(user));
    assert.ok(match, `${session.advanced.getDocumentId(user)} is not a HiLo id`);
    return Number(match[1]);
  });
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(numbers).size, 100);
  await session.saveChanges();
  assert.equal((await loadFresh(store, "users/100-A"))?.name, "user 99");
});

test("the HiLo document remembers the range that was handed out", async () => {
  await storeOne(new User("range"));
  const hilo = await loadFresh(store, "Raven/Hilo/users");
  assert.ok(hilo.Max >= 32, `Max is ${hilo.Max}`);
});

test("two stores take disjoint HiLo ranges", async () => {
  const other = openStore(store.database);
  try {
    const ids = await Promise.all(
      [store, other].map(async (owner) => {
        const session = owner.openSession();
        const users = Array.from({ length: 70 }, () => new User("disjoint"));
        for (const user of users) await session.store(user);
        await session.saveChanges();
        return users.map((user) => session.advanced.getDocumentId(user));
      }),
    );
    assert.equal(new Set(ids.flat()).size, 140);
  } finally {
    other.dispose();
  }
});

test("an id that ends in a slash is completed by the server", async () => {
  const ids = [];
  for (let i = 0; i < 3; i++) ids.push(await storeOne({ n: i }, "tickets/"));
  for (const id of ids) assert.match(id, /^tickets\/\d{19}-A$/);
  assert.deepEqual(ids, ids.toSorted(), "server-side ids sort in the order of their creation");
  assert.equal(new Set(ids).size, 3);
  assert.equal((await loadFresh(store, ids[1])).n, 1);
});

test("an empty id lets the server make one", async () => {
  const session = store.openSession();
  const entity = { n: 1 };
  await session.store(entity, "");
  await session.saveChanges();
  const id = session.advanced.getDocumentId(entity);
  assert.ok(id, "the session learns the id from the answer");
  assert.equal((await loadFresh(store, id)).n, 1);
});

test("ids with spaces, slashes, percent signs, quotes and emoji survive the URL", async () => {
  const ids = [
    "a b/c d",
    "percent/100%25",
    "plus+and&and=and?and#",
    `quotes/'single' "double"`,
    "back\\slash",
    "emoji/🏔️/日本",
    "ümläut/ß",
    "semi;colon,comma",
  ];
  for (const [n, id] of ids.entries()) await storeOne({ n }, id);
  for (const [n, id] of ids.entries()) {
    const session = store.openSession();
    const loaded = await session.load(id);
    assert.equal(loaded?.n, n, id);
    assert.equal(session.advanced.getDocumentId(loaded), id);
    assert.equal(await session.advanced.exists(id), true, id);
  }
  const together = await store.openSession().load(ids);
  assert.deepEqual(
    ids.map((id) => together[id]?.n),
    [...ids.keys()],
  );
});

test("an id of 512 bytes is stored, one byte more is refused", async () => {
  const longest = "l".repeat(512);
  await storeOne({ n: 1 }, longest);
  assert.equal((await loadFresh(store, longest)).n, 1);
  await assert.rejects(storeOne({ n: 2 }, `${longest}l`));
  assert.equal(await loadFresh(store, `${longest}l`).catch(() => null), null);
});
