// Optimistic concurrency, all-or-nothing batches, and many sessions at once.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, loadFresh, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("concurrency");
const conflict = { name: "ConcurrencyException" };

function optimisticSession() {
  const session = store.openSession();
  session.advanced.useOptimisticConcurrency = true;
  return session;
}

test("without optimistic concurrency the last writer wins", async () => {
  await storeAll(store, "Accounts", { "last/1": { n: 0 } });
  const [a, b] = [store.openSession(), store.openSession()];
  const [first, second] = [await a.load("last/1"), await b.load("last/1")];
  first.n = 1;
  second.n = 2;
  await a.saveChanges();
  await b.saveChanges();
  assert.equal((await loadFresh(store, "last/1")).n, 2);
});

test("with optimistic concurrency the second writer gets ConcurrencyException", async () => {
  await storeAll(store, "Accounts", { "optimistic/1": { n: 0 } });
  const [a, b] = [optimisticSession(), optimisticSession()];
  const [first, second] = [await a.load("optimistic/1"), await b.load("optimistic/1")];
  first.n = 1;
  second.n = 2;
  await a.saveChanges();
  await assert.rejects(b.saveChanges(), conflict);
  assert.equal((await loadFresh(store, "optimistic/1")).n, 1);
});

test("an optimistic session may save the same document repeatedly", async () => {
  const session = optimisticSession();
  const entity = { n: 0 };
  await session.store(entity, "repeat/1");
  for (let n = 1; n <= 3; n++) {
    entity.n = n;
    await session.saveChanges();
  }
  assert.equal((await loadFresh(store, "repeat/1")).n, 3);
});

test("storing a new document under a taken id is refused in an optimistic session", async () => {
  await storeAll(store, "Accounts", { "taken/1": { owner: "first" } });
  const session = optimisticSession();
  await session.store({ owner: "second" }, "taken/1");
  await assert.rejects(session.saveChanges(), conflict);
  assert.equal((await loadFresh(store, "taken/1")).owner, "first");
});

test("an empty expected change vector means the document must not exist", async () => {
  const put = async (id) => {
    const session = store.openSession();
    await session.store({ n: 1 }, id, { changeVector: "" });
    await session.saveChanges();
  };
  await put("absent/1");
  await assert.rejects(put("absent/1"), conflict);
});

test("a delete with a stale change vector is refused and keeps the document", async () => {
  await storeAll(store, "Accounts", { "delete/1": { n: 1 } });
  const session = store.openSession();
  const stale = session.advanced.getChangeVectorFor(await session.load("delete/1"));
  await storeAll(store, "Accounts", { "delete/1": { n: 2 } });

  const remover = store.openSession();
  await remover.delete("delete/1", stale);
  await assert.rejects(remover.saveChanges(), conflict);
  assert.equal((await loadFresh(store, "delete/1")).n, 2);
});

test("the single-document PUT and DELETE commands honour the change vector", async () => {
  const executor = store.getRequestExecutor();
  const put = new client.PutDocumentCommand("single/1", null, { n: 1 });
  await executor.execute(put);
  const known = put.result.changeVector;
  await executor.execute(new client.PutDocumentCommand("single/1", known, { n: 2 }));
  await assert.rejects(
    executor.execute(new client.PutDocumentCommand("single/1", known, { n: 3 })),
    conflict,
  );
  await assert.rejects(executor.execute(new client.DeleteDocumentCommand("single/1", known)), conflict);
  assert.equal((await loadFresh(store, "single/1")).n, 2);
});

test("one stale command undoes the whole batch of puts and deletes", async () => {
  await storeAll(store, "Accounts", {
    "batch/stale": { n: 0 },
    "batch/updated": { n: 0 },
    "batch/deleted": { n: 0 },
  });
  const session = optimisticSession();
  const stale = await session.load("batch/stale");
  const updated = await session.load("batch/updated");
  await storeAll(store, "Accounts", { "batch/stale": { n: 7 } });

  await session.store({ n: 1 }, "batch/new-before");
  updated.n = 1;
  await session.delete("batch/deleted");
  stale.n = 1;
  await session.store({ n: 1 }, "batch/new-after");
  await assert.rejects(session.saveChanges(), conflict);

  const check = await store
    .openSession()
    .load(["batch/new-before", "batch/new-after", "batch/updated", "batch/deleted", "batch/stale"]);
  assert.equal(check["batch/new-before"], null);
  assert.equal(check["batch/new-after"], null);
  assert.equal(check["batch/updated"].n, 0);
  assert.equal(check["batch/deleted"].n, 0);
  assert.equal(check["batch/stale"].n, 7);
});

test("a batch that mixes puts and deletes applies all of it", async () => {
  await storeAll(store, "Accounts", { "mix/1": { n: 1 }, "mix/2": { n: 2 } });
  const session = store.openSession();
  (await session.load("mix/1")).n = 10;
  await session.delete("mix/2");
  for (let i = 3; i < 103; i++) await session.store({ n: i }, `mix/${i}`);
  await session.saveChanges();

  const check = await store.openSession().load(["mix/1", "mix/2", "mix/3", "mix/102"]);
  assert.equal(check["mix/1"].n, 10);
  assert.equal(check["mix/2"], null);
  assert.equal(check["mix/3"].n, 3);
  assert.equal(check["mix/102"].n, 102);
});

test("32 sessions that increment one counter lose no update", async () => {
  await storeAll(store, "Accounts", { "counter/1": { n: 0 } });
  const incrementOnce = async () => {
    for (;;) {
      const session = optimisticSession();
      (await session.load("counter/1")).n += 1;
      try {
        return await session.saveChanges();
      } catch (error) {
        if (error.name !== "ConcurrencyException") throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: 32 }, incrementOnce));
  assert.equal((await loadFresh(store, "counter/1")).n, 32);
});

test("32 parallel sessions keep transfers between accounts balanced", async () => {
  const accounts = Array.from({ length: 8 }, (_, i) => `transfer/${i}`);
  await storeAll(store, "Accounts", Object.fromEntries(accounts.map((id) => [id, { sum: 1000 }])));
  const transfers = 5;
  const worker = async (w) => {
    for (let done = 0; done < transfers;) {
      const session = optimisticSession();
      const from = accounts[(w * 3 + done) % accounts.length];
      const to = accounts[(w * 5 + done * 7 + 1) % accounts.length];
      if (from === to) {
        done += 1;
        continue;
      }
      const both = await session.load([from, to]);
      both[from].sum -= w + 1;
      both[to].sum += w + 1;
      try {
        await session.saveChanges();
        done += 1;
      } catch (error) {
        if (error.name !== "ConcurrencyException") throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: 32 }, (_, w) => worker(w)));
  const loaded = await store.openSession().load(accounts);
  const total = accounts.reduce((sum, id) => sum + loaded[id].sum, 0);
  assert.equal(total, accounts.length * 1000);
});

test("32 parallel sessions that store their own documents all find them again", async () => {
  const perWorker = 25;
  await Promise.all(
    Array.from({ length: 32 }, async (_, w) => {
      for (let i = 0; i < perWorker; i++) {
        await storeAll(store, "Parts", { [`parts/${w}-${i}`]: { w, i } });
        const back = await loadFresh(store, `parts/${w}-${i}`);
        assert.deepEqual([back.w, back.i], [w, i], "a session reads what was just acknowledged");
      }
    }),
  );
  const statistics = await store.maintenance.send(new client.GetCollectionStatisticsOperation());
  assert.equal(statistics.collections.Parts, 32 * perWorker);
});
