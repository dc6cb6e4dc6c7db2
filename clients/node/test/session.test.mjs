// Sessions: store, load, change, delete; the returned metadata; refresh, evict, exists.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, loadFresh, storeAll } from "../support/client.mjs";

class City {
  constructor(name, population) {
    this.name = name;
    this.population = population;
  }
}

const store = await databaseForThisFile("session");

test("a stored document is loaded in another session", async () => {
  const session = store.openSession();
  await session.store(new City("Ulm", 126790), "cities/ulm");
  await session.saveChanges();

  const loaded = await store.openSession().load("cities/ulm", City);
  assert.ok(loaded instanceof City);
  assert.deepEqual({ name: loaded.name, population: loaded.population }, { name: "Ulm", population: 126790 });
});

test("a change of a loaded document is saved, and only that document is sent", async () => {
  await storeAll(store, "Cities", { "change/1": { n: 1 }, "change/2": { n: 1 } });
  const session = store.openSession();
  const [first, second] = [await session.load("change/1"), await session.load("change/2")];
  const before = session.advanced.getChangeVectorFor(second);
  first.n = 2;
  await session.saveChanges();

  const check = store.openSession();
  assert.equal((await check.load("change/1")).n, 2);
  assert.equal(check.advanced.getChangeVectorFor(await check.load("change/2")), before);
});

test("a document deleted by entity or by id is gone", async () => {
  await storeAll(store, "Cities", { "gone/1": { n: 1 }, "gone/2": { n: 2 } });
  const session = store.openSession();
  await session.delete(await session.load("gone/1"));
  await session.delete("gone/2");
  await session.saveChanges();
  assert.equal(await loadFresh(store, "gone/1"), null);
  assert.equal(await loadFresh(store, "gone/2"), null);
});

test("deleting a document that never existed succeeds", async () => {
  const session = store.openSession();
  await session.delete("never/was-there");
  await session.saveChanges();
});

test("a document deleted and stored again under its id has only the new content", async () => {
  await storeAll(store, "Cities", { "again/1": { old: true } });
  const first = await changeVectorOf("again/1");
  const session = store.openSession();
  await session.delete("again/1");
  await session.saveChanges();
  await storeAll(store, "Towns", { "again/1": { fresh: true } });

  const check = store.openSession();
  const loaded = await check.load("again/1");
  assert.equal(loaded.old, undefined);
  assert.equal(loaded.fresh, true);
  assert.equal(check.advanced.getMetadataFor(loaded)["@collection"], "Towns");
  assert.notEqual(check.advanced.getChangeVectorFor(loaded), first);
});

test("delete and put of one id in one batch keeps the put", async () => {
  await storeAll(store, "Cities", { "swap/1": { n: 1 } });
  const session = store.openSession();
  session.advanced.defer(
    new client.DeleteCommandData("swap/1", null),
    new client.PutCommandDataBase("swap/1", null, null, {
      n: 2,
      "@metadata": { "@collection": "Cities" },
    }),
  );
  await session.saveChanges();
  assert.equal((await loadFresh(store, "swap/1")).n, 2);
});

test("metadata carries id, collection, change vector, last-modified and custom keys", async () => {
  const session = store.openSession();
  const entity = { name: "Bern" };
  await session.store(entity, "meta/1");
  const metadata = session.advanced.getMetadataFor(entity);
  metadata["@collection"] = "Capitals";
  metadata["Reviewed-By"] = "Käthe";
  metadata.Tags = ["a", "b"];
  metadata.Nested = { deep: { n: 1 } };
  const startedMs = Date.now();
  await session.saveChanges();

  const check = store.openSession();
  const loaded = await check.load("meta/1");
  const read = check.advanced.getMetadataFor(loaded);
  assert.equal(read["@id"], "meta/1");
  assert.equal(read["@collection"], "Capitals");
  assert.equal(read["Reviewed-By"], "Käthe");
  assert.deepEqual([...read.Tags], ["a", "b"]);
  assert.equal(read.Nested.deep.n, 1);
  assert.equal(read["@change-vector"], check.advanced.getChangeVectorFor(loaded));
  const modifiedMs = check.advanced.getLastModifiedFor(loaded).getTime();
  assert.ok(Math.abs(modifiedMs - startedMs) < 60_000, `${modifiedMs} is not near ${startedMs}`);
});

test("a changed metadata key alone saves the document", async () => {
  await storeAll(store, "Cities", { "meta/2": { n: 1 } });
  const session = store.openSession();
  session.advanced.getMetadataFor(await session.load("meta/2")).Colour = "green";
  await session.saveChanges();
  const check = store.openSession();
  const loaded = await check.load("meta/2");
  assert.equal(check.advanced.getMetadataFor(loaded).Colour, "green");
  assert.equal(loaded.n, 1);
});

test("a document without a collection lands in @empty", async () => {
  await store.getRequestExecutor().execute(new client.PutDocumentCommand("empty/1", null, { plain: true }));
  const session = store.openSession();
  const loaded = await session.load("empty/1");
  assert.equal(loaded.plain, true);
  assert.ok([undefined, "@empty"].includes(session.advanced.getMetadataFor(loaded)["@collection"]));
  const statistics = await store.maintenance.send(new client.GetCollectionStatisticsOperation());
  assert.ok(statistics.collections["@empty"] >= 1);
});

test("last-modified and change vector move forward with every save", async () => {
  await storeAll(store, "Cities", { "forward/1": { n: 0 } });
  const seen = new Set([await changeVectorOf("forward/1")]);
  for (let n = 1; n <= 5; n++) {
    const session = store.openSession();
    (await session.load("forward/1")).n = n;
    await session.saveChanges();
    seen.add(await changeVectorOf("forward/1"));
  }
  assert.equal(seen.size, 6, "six saves must give six change vectors");
});

test("after saveChanges the session knows the new change vector without loading", async () => {
  const session = store.openSession();
  const entity = { n: 1 };
  await session.store(entity, "known/1");
  await session.saveChanges();
  const known = session.advanced.getChangeVectorFor(entity);
  assert.match(known, /^A:\d+-.{22}$/);
  assert.equal(known, await changeVectorOf("known/1"));
});

test("exists distinguishes stored, deleted and missing documents", async () => {
  await storeAll(store, "Cities", { "exists/1": { n: 1 }, "exists/2": { n: 1 } });
  const session = store.openSession();
  await session.delete("exists/2");
  await session.saveChanges();
  const ask = store.openSession();
  assert.equal(await ask.advanced.exists("exists/1"), true);
  assert.equal(await ask.advanced.exists("exists/2"), false);
  assert.equal(await ask.advanced.exists("exists/3"), false);
});

test("conditional load returns a document only after a change", async () => {
  await storeAll(store, "Cities", { "conditional/1": { n: 1 } });
  const known = await changeVectorOf("conditional/1");
  const load = (id, vector) => store.openSession().advanced.conditionalLoad(id, vector, Object);

  const same = await load("conditional/1", known);
  assert.equal(same.entity, null);
  assert.equal(same.changeVector, known);

  await storeAll(store, "Cities", { "conditional/1": { n: 2 } });
  const changed = await load("conditional/1", known);
  assert.equal(changed.entity.n, 2);
  assert.notEqual(changed.changeVector, known);

  const missing = await load("conditional/none", known);
  assert.equal(missing.entity, null);
  assert.equal(missing.changeVector, null);
});

test("refresh fetches what another session saved; evict removes it from the session", async () => {
  await storeAll(store, "Cities", { "refresh/1": { n: 1 } });
  const session = store.openSession();
  const entity = await session.load("refresh/1");
  await storeAll(store, "Cities", { "refresh/1": { n: 2 } });

  assert.equal(entity.n, 1, "a session keeps what it loaded");
  await session.advanced.refresh(entity);
  assert.equal(entity.n, 2);

  await storeAll(store, "Cities", { "refresh/1": { n: 3 } });
  session.advanced.evict(entity);
  assert.equal(session.advanced.isLoaded("refresh/1"), false);
  assert.equal((await session.load("refresh/1")).n, 3);
});

test("refresh of a document deleted meanwhile is an error", async () => {
  await storeAll(store, "Cities", { "refresh/2": { n: 1 } });
  const session = store.openSession();
  const entity = await session.load("refresh/2");
  const other = store.openSession();
  await other.delete("refresh/2");
  await other.saveChanges();
  await assert.rejects(session.advanced.refresh(entity));
});

test("ids are case-insensitive but keep the spelling of the first store", async () => {
  await storeAll(store, "Cities", { "Mixed/Case-Ä": { n: 1 } });
  const session = store.openSession();
  const loaded = await session.load("mixed/CASE-ä");
  assert.equal(loaded.n, 1);
  assert.equal(session.advanced.getMetadataFor(loaded)["@id"], "Mixed/Case-Ä");
  assert.equal(await store.openSession().advanced.exists("MIXED/case-ä"), true);

  const remover = store.openSession();
  await remover.delete("MIXED/CASE-Ä");
  await remover.saveChanges();
  assert.equal(await loadFresh(store, "Mixed/Case-Ä"), null);
});

test("the collection of an existing document cannot be changed by a plain put", async () => {
  await storeAll(store, "Cities", { "collection/1": { n: 1 } });
  await assert.rejects(storeAll(store, "Rivers", { "collection/1": { n: 2 } }), {
    name: "DocumentCollectionMismatchException",
  });
  assert.equal((await loadFresh(store, "collection/1")).n, 1);
});

async function changeVectorOf(id) {
  const session = store.openSession();
  return session.advanced.getChangeVectorFor(await session.load(id));
}
