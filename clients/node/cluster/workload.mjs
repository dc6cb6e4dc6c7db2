// Works on a database of three nodes while through_faults.mjs kills and pauses them. An application sees no error, and
// the subscription sends every document.

import assert from "node:assert/strict";
import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { client, isPassedOn } from "../support/package.mjs";
import { until } from "../support/three_nodes.mjs";

const writers = 4;
/** A node that does not answer for so long is taken for dead; without it a client waits for a paused node. */
const requestTimeout = 2000;
const urls = process.env.CORVUS_TEST_URLS.split(",");
const isOver = () => existsSync(process.env.CORVUS_TEST_FAULTS_OVER);

// The 5.4 client reads the next batch while one is processed, and leaves the rejection unhandled if that fails.
process.on("unhandledRejection", () => {});

const kept = [];
const received = new Set();
const counts = { written: 0, read: 0, queried: 0, exchanged: 0, clusterWide: 0, passedOn: 0 };
const worker = await follow();
const work = [...Array(writers).keys()].map(write);
work.push(read(), query(), exchange(), clusterWide());
const timer = setInterval(() => {
  const { passedOn, ...done } = counts;
  if (!Object.values(done).every((count) => count > 0)) return;
  console.log("working");
  clearInterval(timer);
}, 50);
try {
  await Promise.all(work);
  await until("every document from the subscription", () => kept.every((id) => received.has(id)));
} catch (error) {
  console.error(error, counts, kept.filter((id) => !received.has(id)).slice(0, 5));
  process.exit(1);
}
console.log(JSON.stringify({ ...counts, received: received.size }));
process.exit(0);

/** Does something again whose broken connection the client has passed on, which happens rarely: see failover.mjs. */
async function tolerant(work) {
  try {
    return await work();
  } catch (error) {
    counts.passedOn += 1;
    if (!isPassedOn(error) || counts.passedOn > 1) throw error;
    return work();
  }
}

function openStore() {
  const store = new client.DocumentStore(urls, process.env.CORVUS_TEST_DATABASE);
  store.conventions.requestTimeout = requestTimeout;
  return store.initialize();
}

/** Documents that count as written once two of the three nodes have them. */
async function write(writer) {
  const store = openStore();
  for (let number = 0; !isOver(); number++) {
    const id = `kept/${writer}-${number}`;
    await tolerant(async () => {
      const session = store.openSession();
      session.advanced.waitForReplicationAfterSaveChanges({ majority: true, throwOnTimeout: true, timeout: 15000 });
      await session.store({ writer, number, "@metadata": { "@collection": "Kept" } }, id);
      await session.saveChanges();
    });
    appendFileSync(process.env.CORVUS_TEST_ACKNOWLEDGED, `${id}\n`);
    kept.push(id);
    counts.written += 1;
    await sleep(5);
  }
}

async function read() {
  const store = openStore();
  while (!isOver()) {
    await sleep(5);
    const id = kept[Math.floor(Math.random() * kept.length)];
    if (!id) continue;
    // A node that was away may not have it yet.
    await until(`${id} to be read`, () => tolerant(() => store.openSession().load(id)));
    counts.read += 1;
  }
}

async function query() {
  const store = openStore();
  while (!isOver()) {
    await sleep(100);
    await tolerant(() => {
      const query = store.openSession().query({ collection: "Kept" });
      return query.whereEquals("writer", 1).whereGreaterThan("number", 10).take(5).all();
    });
    counts.queried += 1;
  }
}

/**
 * Adds 1 to a value, again and again: nobody else changes it, so that none is lost. The client repeats a change whose answer
 * did not arrive, with another id, so that the server cannot know it again: it refuses it, and shows the value that is there.
 */
async function exchange() {
  const store = openStore();
  for (let value = 1, index = 0; !isOver(); value++) {
    const result = await store.operations.send(new client.PutCompareExchangeValueOperation("value", value, index));
    assert.ok(result.successful || result.value === value, `value ${value} was refused: ${JSON.stringify(result)}`);
    index = result.index;
    const found = await store.operations.send(new client.GetCompareExchangeValueOperation("value"));
    assert.equal(found.value, value);
    counts.exchanged += 1;
    await sleep(20);
  }
}

async function clusterWide() {
  const store = openStore();
  for (let number = 0; !isOver(); number++) {
    const session = store.openSession({ transactionMode: "ClusterWide" });
    session.advanced.clusterTransaction.createCompareExchangeValue(`unique/${number}`, number);
    await session.store({ number, "@metadata": { "@collection": "Unique" } }, `unique/${number}`);
    await session.saveChanges();
    counts.clusterWide += 1;
    await sleep(50);
  }
}

async function follow() {
  const store = openStore();
  const subscriptionName = await store.subscriptions.create({ query: "from Kept" });
  const worker = store.subscriptions.getSubscriptionWorker({
    subscriptionName,
    maxDocsPerBatch: 64,
    timeToWaitBeforeConnectionRetry: 200,
    maxErroneousPeriod: 120_000,
  });
  worker.on("error", (error) => {
    console.error("the worker gave up:", error);
    process.exit(1);
  });
  worker.on("connectionRetry", (error) => console.error("-- the worker connects again:", `${error}`.split("\n")[0]));
  worker.on("batch", (batch, callback) => {
    for (const item of batch.items) received.add(item.id);
    callback();
  });
  return worker;
}
