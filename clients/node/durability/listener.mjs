// Listens while the server is restarted: the client comes back by itself and hears of what happens then.
// Says "listening" when its watch has begun, and ends when it has heard of a change made after the
// restart, which is told by the file CORVUS_TEST_RESTARTED.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { createDatabase, deleteDatabase, openStore, storeAll, uniqueDatabaseName } from "../support/client.mjs";

const secondsMax = 60;
const restarted = process.env.CORVUS_TEST_RESTARTED;
const name = uniqueDatabaseName("listener");
const store = openStore(name);
await createDatabase(store, name);
const changes = store.changes();
// The client tells of the lost connection here.
changes.on("error", () => {});
await changes.ensureConnectedNow();
const told = new Set();
const observable = changes.forDocumentsInCollection("Heard");
observable.on("error", () => {});
observable.on("data", (change) => told.add(change.id));
await observable.ensureSubscribedNow();
await storeAll(store, "Heard", { "before/1": {} });
await waitUntil(() => told.has("before/1"), "the change before the restart");
console.log("listening");
await waitUntil(() => existsSync(restarted), "the restart");

// Until the client is back, it hears nothing; then it hears of the next change.
const heardAfter = () => [...told].some((id) => id.startsWith("after/"));
for (let number = 1; !heardAfter(); number++) {
  assert.ok(number <= secondsMax * 5, "the client hears nothing after the restart");
  await storeAll(store, "Heard", { [`after/${number}`]: {} });
  await sleep(200);
}
changes.dispose();
await deleteDatabase(store, name);
store.dispose();

async function waitUntil(condition, what) {
  for (let waited = 0; !condition(); waited++) {
    assert.ok(waited < secondsMax * 20, `it takes too long: ${what}`);
    await sleep(50);
  }
}
