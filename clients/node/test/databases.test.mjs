// Databases: create, list, disable, enable, delete, and the errors for a missing one.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import {
  client,
  createDatabase,
  deleteDatabase,
  openStore,
  storeAll,
  uniqueDatabaseName,
} from "../support/client.mjs";

const server = openStore(undefined);
const made = [];
after(async () => {
  for (const name of made) await deleteDatabase(server, name);
  server.dispose();
});

async function newDatabase(label) {
  const name = uniqueDatabaseName(label);
  made.push(name);
  const result = await createDatabase(server, name);
  return { name, result };
}

async function databaseNames() {
  return server.maintenance.server.send(new client.GetDatabaseNamesOperation(0, 1024));
}

async function withStore(name, work) {
  const store = openStore(name);
  try {
    return await work(store);
  } finally {
    store.dispose();
  }
}

test("a created database is listed and has a record", async () => {
  const { name, result } = await newDatabase("created");
  assert.equal(result.name, name);
  assert.ok(result.raftCommandIndex > 0, "creating a database is a raft command");
  assert.ok((await databaseNames()).includes(name));

  const record = await server.maintenance.server.send(new client.GetDatabaseRecordOperation(name));
  assert.equal(record.databaseName, name);
  assert.equal(record.disabled, false);
});

test("creating a database twice is a concurrency error and keeps the first", async () => {
  const { name } = await newDatabase("twice");
  await withStore(name, (store) => storeAll(store, "Notes", { "notes/1": { text: "kept" } }));
  await assert.rejects(createDatabase(server, name), { name: "ConcurrencyException" });
  const note = await withStore(name, (store) => store.openSession().load("notes/1"));
  assert.equal(note.text, "kept");
});

test("a deleted database and its record no longer exist", async () => {
  const { name } = await newDatabase("deleted");
  await deleteDatabase(server, name);
  assert.ok(!(await databaseNames()).includes(name));
  const record = await server.maintenance.server.send(new client.GetDatabaseRecordOperation(name));
  assert.ok(!record, "the record of a deleted database is null or undefined");
});

test("a database created again under the same name is empty", async () => {
  const { name } = await newDatabase("again");
  await withStore(name, (store) => storeAll(store, "Notes", { "notes/1": { text: "old" } }));
  await deleteDatabase(server, name);
  await createDatabase(server, name);
  const note = await withStore(name, (store) => store.openSession().load("notes/1"));
  assert.equal(note, null);
});

test("deleting several databases in one operation deletes all of them", async () => {
  const names = [(await newDatabase("many-a")).name, (await newDatabase("many-b")).name];
  await server.maintenance.server.send(
    new client.DeleteDatabasesOperation({ databaseNames: names, hardDelete: true }),
  );
  const left = await databaseNames();
  assert.deepEqual(
    names.filter((name) => left.includes(name)),
    [],
  );
});

test("the list of names is paged", async () => {
  await newDatabase("page-a");
  await newDatabase("page-b");
  const first = await server.maintenance.server.send(new client.GetDatabaseNamesOperation(0, 1));
  const second = await server.maintenance.server.send(new client.GetDatabaseNamesOperation(1, 1));
  assert.equal(first.length, 1);
  assert.equal(second.length, 1);
  assert.notEqual(first[0], second[0]);
});

test("a disabled database refuses work with DatabaseDisabledException until enabled", async () => {
  const { name } = await newDatabase("disabled");
  await withStore(name, (store) => storeAll(store, "Notes", { "notes/1": { text: "still here" } }));

  const off = await server.maintenance.server.send(new client.ToggleDatabasesStateOperation(name, true));
  assert.equal(off.disabled, true);
  await withStore(name, (store) =>
    assert.rejects(store.openSession().load("notes/1"), { name: "DatabaseDisabledException" }),
  );
  assert.ok((await databaseNames()).includes(name), "a disabled database is still listed");

  const on = await server.maintenance.server.send(new client.ToggleDatabasesStateOperation(name, false));
  assert.equal(on.disabled, false);
  const note = await withStore(name, (store) => store.openSession().load("notes/1"));
  assert.equal(note.text, "still here");
});

test("an unknown database is reported as DatabaseDoesNotExistException", async () => {
  await withStore(uniqueDatabaseName("unknown"), async (store) => {
    await assert.rejects(store.openSession().load("notes/1"), {
      name: "DatabaseDoesNotExistException",
    });
    const session = store.openSession();
    await session.store({ text: "nowhere" }, "notes/1");
    await assert.rejects(session.saveChanges(), { name: "DatabaseDoesNotExistException" });
  });
});

test("the database name in a request is case-insensitive", async () => {
  const { name } = await newDatabase("case");
  await withStore(name, (store) => storeAll(store, "Notes", { "notes/1": { text: "one" } }));
  const note = await withStore(name.toUpperCase(), (store) => store.openSession().load("notes/1"));
  assert.equal(note.text, "one");
});

test("a name with characters outside the allowed set is refused", async () => {
  await assert.rejects(createDatabase(server, "no/slash?allowed"));
  await assert.rejects(createDatabase(server, "x".repeat(300)));
});

test("twenty databases are created, used and deleted in parallel without mixing", async () => {
  const names = Array.from({ length: 20 }, (_, i) => uniqueDatabaseName(`parallel-${i}`));
  made.push(...names);
  await Promise.all(names.map((name) => createDatabase(server, name)));
  await Promise.all(
    names.map((name, i) =>
      withStore(name, async (store) => {
        await storeAll(store, "Notes", { "notes/1": { owner: name }, [`notes/own-${i}`]: { i } });
      }),
    ),
  );
  await Promise.all(
    names.map((name, i) =>
      withStore(name, async (store) => {
        const session = store.openSession();
        assert.equal((await session.load("notes/1")).owner, name);
        const own = await session.advanced.loadStartingWith("notes/own-");
        assert.deepEqual(
          own.map((note) => note.id),
          [`notes/own-${i}`],
        );
      }),
    ),
  );
  await Promise.all(names.map((name) => deleteDatabase(server, name)));
  const left = await databaseNames();
  assert.deepEqual(
    names.filter((name) => left.includes(name)),
    [],
  );
});
