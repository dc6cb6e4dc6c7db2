// Follows a database while the server is killed and started again: a subscription worker that is
// processing a batch at that moment, and a listener to changes.
//
// Prints "in mid-batch" when the server may be killed; the file CORVUS_TEST_RESTARTED appears when it
// runs again. Afterwards every document has been sent, nothing acknowledged has been sent again, and
// the listener is notified of changes.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { createDatabase, deleteDatabase, openStore, storeAll, uniqueDatabaseName } from "../support/client.mjs";

const secondsMax = 60;
const shipsBefore = 20;
const shipsAfter = 10;
const batchHeld = 3;
const restarted = process.env.CORVUS_TEST_RESTARTED;
/** Whether the database is being deleted, which ends the worker, perhaps before the response arrives. */
let isOver = false;

// The client reads the next batch while one is processed, and leaves the rejection unhandled if that fails.
process.on("unhandledRejection", () => {});

const name = uniqueDatabaseName("follower");
const store = openStore(name);
await createDatabase(store, name);

const heard = await listen();
await saveShips(0, shipsBefore);
const { received, acknowledged } = await work(holdOneBatch());
await waitUntil(() => existsSync(restarted), "the restart");
await saveShips(shipsBefore, shipsAfter);
await waitUntil(() => received.size === shipsBefore + shipsAfter, "the documents after the restart");
await waitUntil(() => acknowledged.size === shipsBefore + shipsAfter, "the last acknowledgements");

// No change is reported until the client has reconnected; then the next one is.
const heardAfter = () => [...heard].some((id) => id.startsWith("after/"));
for (let number = 1; !heardAfter(); number++) {
  assert.ok(number <= secondsMax * 5, "the listener receives nothing after the restart");
  await storeAll(store, "Heard", { [`after/${number}`]: {} });
  await sleep(200);
}
isOver = true;
await deleteDatabase(store, name);
// The client's own timers may run for a while.
process.exit(0);

/** Ids of changed documents of the collection Heard. */
async function listen() {
  const changes = store.changes();
  // The client reports the lost connection here.
  changes.on("error", () => {});
  await changes.ensureConnectedNow();
  const received = new Set();
  const observable = changes.forDocumentsInCollection("Heard");
  observable.on("error", () => {});
  observable.on("data", (change) => received.add(change.id));
  await observable.ensureSubscribedNow();
  await storeAll(store, "Heard", { "before/1": {} });
  await waitUntil(() => received.has("before/1"), "the change before the restart");
  return received;
}

/** A worker, the documents it received, and those the server confirmed. */
async function work(onBatch) {
  const subscriptionName = await store.subscriptions.create({ query: "from Ships" });
  const worker = store.subscriptions.getSubscriptionWorker({
    subscriptionName,
    maxDocsPerBatch: 4,
    timeToWaitBeforeConnectionRetry: 200,
    maxErroneousPeriod: secondsMax * 1000,
  });
  const received = new Map();
  const acknowledged = new Set();
  worker.on("error", (error) => {
    if (isOver) return;
    console.error("the worker gave up:", error);
    process.exit(1);
  });
  worker.on("afterAcknowledgment", (batch, callback) => {
    batch.items.forEach((item) => acknowledged.add(item.id));
    callback();
  });
  worker.on("batch", (batch, callback) => {
    for (const item of batch.items) {
      assert.ok(!acknowledged.has(item.id), `${item.id} comes again and was acknowledged`);
      received.set(item.id, (received.get(item.id) ?? 0) + 1);
    }
    onBatch(batch).then(() => callback(), callback);
  });
  return { received, acknowledged };
}

/** Processes one of the batches until the server runs again. */
function holdOneBatch() {
  let batches = 0;
  return async () => {
    batches += 1;
    if (batches === batchHeld) {
      console.log("in mid-batch");
      await waitUntil(() => existsSync(restarted), "the restart");
    }
  };
}

async function saveShips(first, count) {
  const numbers = Array.from({ length: count }, (_, n) => first + n);
  await storeAll(store, "Ships", Object.fromEntries(numbers.map((n) => [`ships/${n}`, { length: n }])));
}

async function waitUntil(condition, what) {
  for (let waited = 0; !condition(); waited++) {
    assert.ok(waited < secondsMax * 20, `it takes too long: ${what}`);
    await sleep(50);
  }
}
