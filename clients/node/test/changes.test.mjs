// The Changes API: documents, indexes, operations, counters and time series, as reported by the client.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const { IndexDefinition, PutIndexesOperation, DeleteIndexOperation, PatchByQueryOperation } = client;
const store = await databaseForThisFile("changes");
const changes = store.changes();
after(() => changes.dispose());
await changes.ensureConnectedNow();

const secondsMax = 15;

/** Listens to `observable`; `until(done)` waits until `done(all received changes)`. */
async function listen(observable) {
  const received = [];
  let wake = () => {};
  const note = (change) => {
    received.push(change);
    wake();
  };
  observable.on("data", note);
  await observable.ensureSubscribedNow();
  return {
    received,
    stop: () => observable.off("data", note),
    async until(done) {
      const deadline = Date.now() + secondsMax * 1000;
      while (!done(received)) {
        assert.ok(Date.now() < deadline, `received so far: ${JSON.stringify(received)}`);
        await new Promise((resolve) => {
          wake = resolve;
          setTimeout(resolve, 100);
        });
      }
      return received;
    },
  };
}

async function remove(id) {
  const session = store.openSession();
  await session.delete(id);
  await session.saveChanges();
}

test("one document is watched, in any case of its id", async () => {
  const listener = await listen(changes.forDocument("HUTS/1"));
  await storeAll(store, "Huts", { "huts/1": { name: "Monte Rosa" }, "huts/2": { name: "Mönchsjoch" } });
  await remove("huts/1");
  const received = await listener.until((all) => all.length >= 2);
  listener.stop();
  assert.deepEqual(
    received.map(({ type, id, collectionName }) => [type, id, collectionName]),
    [
      ["Put", "huts/1", "Huts"],
      ["Delete", "huts/1", "Huts"],
    ],
  );
  assert.match(received[0].changeVector, /^A:\d+-/);
});

test("documents are watched by prefix, by collection, and all of them", async () => {
  const byPrefix = await listen(changes.forDocumentsStartingWith("Peaks/"));
  const byCollection = await listen(changes.forDocumentsInCollection("summits"));
  const all = await listen(changes.forAllDocuments());
  await storeAll(store, "Summits", { "peaks/1": { height: 4478 }, "tops/1": { height: 4634 } });
  await storeAll(store, "Others", { "end/1": {} });
  const ids = (listener) => listener.received.map((change) => change.id);
  await all.until(() => ids(all).includes("end/1"));
  assert.deepEqual(ids(byPrefix), ["peaks/1"]);
  assert.deepEqual(ids(byCollection), ["peaks/1", "tops/1"]);
  assert.deepEqual(ids(all), ["peaks/1", "tops/1", "end/1"]);
  [byPrefix, byCollection, all].forEach((listener) => listener.stop());
});

test("a client that stops listening receives nothing more, and can start again", async () => {
  const first = await listen(changes.forDocument("again/1"));
  await storeAll(store, "Again", { "again/1": { n: 1 } });
  await first.until((all) => all.length === 1);
  first.stop();
  const other = await listen(changes.forDocument("again/2"));
  await storeAll(store, "Again", { "again/1": { n: 2 }, "again/2": { n: 2 } });
  await other.until((all) => all.length === 1);
  assert.equal(first.received.length, 1);
  const second = await listen(changes.forDocument("again/1"));
  await storeAll(store, "Again", { "again/1": { n: 3 } });
  await second.until((all) => all.length === 1);
  [other, second].forEach((listener) => listener.stop());
});

test("changes of an index are reported", async () => {
  const one = await listen(changes.forIndex("Huts/ByName"));
  const all = await listen(changes.forAllIndexes());
  const definition = Object.assign(new IndexDefinition(), {
    name: "Huts/ByName",
    maps: new Set(["from h in docs.Huts select new { h.name }"]),
  });
  await store.maintenance.send(new PutIndexesOperation(definition));
  const kinds = (listener) => listener.received.map((change) => change.type);
  await one.until(() => kinds(one).includes("BatchCompleted"));
  await store.maintenance.send(new DeleteIndexOperation("Huts/ByName"));
  await one.until(() => kinds(one).includes("IndexRemoved"));
  await all.until(() => kinds(all).includes("IndexRemoved"));
  assert.equal(kinds(one)[0], "IndexAdded");
  assert.ok(one.received.every((change) => change.name === "Huts/ByName"));
  [one, all].forEach((listener) => listener.stop());
});

test("an operation is reported until it completes", async () => {
  const listener = await listen(changes.forAllOperations());
  const operation = await store.operations.send(new PatchByQueryOperation("from Huts update { this.open = true }"));
  await operation.waitForCompletion();
  const received = await listener.until((all) => all.some((change) => change.state.status === "Completed"));
  listener.stop();
  assert.ok(received.every((change) => change.operationId === received[0].operationId));
  const last = received.at(-1).state;
  assert.equal(last.status, "Completed");
  assert.ok(last.result.total >= 1);
});

test("counters are watched: one, by name, by document, and all", async () => {
  await storeAll(store, "Huts", { "huts/7": { name: "Konkordia" }, "huts/8": { name: "Britannia" } });
  const one = await listen(changes.forCounterOfDocument("huts/7", "Guests"));
  const named = await listen(changes.forCounter("guests"));
  const ofDocument = await listen(changes.forCountersOfDocument("huts/7"));
  const all = await listen(changes.forAllCounters());
  const count = async (id, name, by) => {
    const session = store.openSession();
    session.countersFor(id).increment(name, by);
    await session.saveChanges();
  };
  await count("huts/7", "Guests", 3);
  await count("huts/7", "Guests", 2);
  await count("huts/8", "Guests", 1);
  await count("huts/7", "Beds", 9);
  const session = store.openSession();
  session.countersFor("huts/7").delete("Guests");
  await session.saveChanges();
  await all.until((received) => received.length >= 5);
  const shape = ({ documentId, name, type, value }) => `${documentId} ${name} ${type} ${value}`;
  const [first, second, third, fourth, fifth] = all.received.map(shape);
  assert.deepEqual(
    [first, second, third, fourth, fifth],
    [
      "huts/7 Guests Put 3",
      "huts/7 Guests Increment 5",
      "huts/8 Guests Put 1",
      "huts/7 Beds Put 9",
      "huts/7 Guests Delete 0",
    ],
  );
  assert.deepEqual(one.received.map(shape), [first, second, fifth]);
  assert.deepEqual(named.received.map(shape), [first, second, third, fifth]);
  assert.deepEqual(ofDocument.received.map(shape), [first, second, fourth, fifth]);
  [one, named, ofDocument, all].forEach((listener) => listener.stop());
});

test("time series are watched: one, by name, by document, and all", async () => {
  await storeAll(store, "Huts", { "huts/9": { name: "Topali" }, "huts/10": { name: "Tracuit" } });
  const one = await listen(changes.forTimeSeriesOfDocument("huts/9", "Snow"));
  const named = await listen(changes.forTimeSeries("snow"));
  const ofDocument = await listen(changes.forTimeSeriesOfDocument("huts/9"));
  const all = await listen(changes.forAllTimeSeries());
  const append = async (id, name, ...days) => {
    const session = store.openSession();
    const series = session.timeSeriesFor(id, name);
    days.forEach((day) => series.append(new Date(Date.UTC(2026, 0, day)), day));
    await session.saveChanges();
  };
  await append("huts/9", "Snow", 3, 1, 2);
  await append("huts/10", "Snow", 4);
  await append("huts/9", "Wind", 5);
  const session = store.openSession();
  session.timeSeriesFor("huts/9", "Snow").deleteAt(new Date(Date.UTC(2026, 0, 2)));
  await session.saveChanges();
  await all.until((received) => received.length >= 4);
  const shape = ({ documentId, name, type, from, to }) =>
    `${documentId} ${name} ${type} ${from.getUTCDate()}-${to.getUTCDate()}`;
  const [first, second, third, fourth] = all.received.map(shape);
  assert.deepEqual(
    [first, second, third, fourth],
    ["huts/9 Snow Put 1-3", "huts/10 Snow Put 4-4", "huts/9 Wind Put 5-5", "huts/9 Snow Delete 2-2"],
  );
  assert.deepEqual(one.received.map(shape), [first, fourth]);
  assert.deepEqual(named.received.map(shape), [first, second, fourth]);
  assert.deepEqual(ofDocument.received.map(shape), [first, third, fourth]);
  [one, named, ofDocument, all].forEach((listener) => listener.stop());
});
