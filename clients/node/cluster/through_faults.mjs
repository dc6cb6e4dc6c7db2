// Runs a program that works on a database of three nodes, while these are killed and paused one after another.
//
//   CORVUS_TEST_SERVER=<executable> node through_faults.mjs <faults> <program> [argument]...
//
// The program finds the addresses in CORVUS_TEST_URLS, the database in CORVUS_TEST_DATABASE, prints "working" when the
// faults may begin, and appends the id of each document that a majority acknowledged to the file CORVUS_TEST_ACKNOWLEDGED.
// It ends when the file CORVUS_TEST_FAULTS_OVER is there, with exit status 0 unless it saw an error. Afterwards every
// acknowledged document is on every node, also once all of them were killed at the same time.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { ThreeNodes, until } from "../support/three_nodes.mjs";

const [faults, ...command] = process.argv.slice(2);
const database = "faults";
const pauseSeconds = 4;
const restSeconds = 3;
const acknowledgedMin = 200;

const cluster = await ThreeNodes.start(database);
const acknowledged = join(cluster.folder, "acknowledged.txt");
const isOver = join(cluster.folder, "over");
writeFileSync(acknowledged, "");

try {
  const program = begin();
  await until("the program", () => program.isWorking || program.process.exitCode !== null);
  for (let number = 0; number < Number(faults) && program.process.exitCode === null; number++) await fault(number);
  writeFileSync(isOver, "");
  if (program.process.exitCode === null) await once(program.process, "exit");
  assert.equal(program.process.exitCode, 0, "the program failed");
  const ids = readFileSync(acknowledged, "utf8").trim().split("\n");
  assert.ok(ids.length >= acknowledgedMin, `only ${ids.length} documents were acknowledged`);
  await allHave(ids);
  await Promise.all(cluster.nodes.map((node) => node.kill()));
  await Promise.all(cluster.nodes.map((node) => node.start()));
  await cluster.healed(database);
  await allHave(ids);
  console.log(`${faults} faults, ${ids.length} acknowledged documents on every node`);
} catch (error) {
  process.exitCode = 1;
  console.error(error);
} finally {
  await cluster.end({ keep: process.exitCode === 1 });
}
process.exit();

function begin() {
  const env = {
    ...process.env,
    CORVUS_TEST_URLS: cluster.urls.join(","),
    CORVUS_TEST_DATABASE: database,
    CORVUS_TEST_ACKNOWLEDGED: acknowledged,
    CORVUS_TEST_FAULTS_OVER: isOver,
  };
  const program = { isWorking: false };
  program.process = spawn(command[0], command.slice(1), { env, stdio: ["ignore", "pipe", "inherit"] });
  program.process.stdout.on("data", (text) => {
    program.isWorking ||= text.toString().includes("working");
    process.stdout.write(text);
  });
  return program;
}

/** A node is killed and started again, or paused; in turn the one that leads, the preferred one, and every other. */
async function fault(number) {
  const chosen = [() => cluster.leader(), () => cluster.preferred(database), () => cluster.nodes[number % 3]];
  const node = (await chosen[number % 3]()) ?? cluster.nodes[number % 3];
  const isKill = number % 2 === 0;
  console.error(`-- ${isKill ? "killing" : "pausing"} ${node.url}`);
  if (isKill) {
    await node.kill();
    await sleep(1000 + Math.random() * 2000);
    await node.start();
  } else {
    node.pause();
    await sleep(pauseSeconds * 1000);
    node.resume();
  }
  await cluster.healed(database);
  // For the health checks of the clients, see failover.mjs.
  await sleep(restSeconds * 1000);
}

/** Waits until every node has all of these documents. */
async function allHave(ids) {
  for (const node of cluster.nodes) {
    let missing;
    const hasAll = async () => {
      const response = await fetch(`${node.url}/databases/${database}/streams/docs?startsWith=kept/`);
      const found = new Set((await response.json()).Results.map((document) => document["@metadata"]["@id"]));
      missing = ids.filter((id) => !found.has(id));
      return missing.length === 0;
    };
    await until(`all documents on ${node.url}`, hasAll).catch((error) => {
      throw new Error(`${error.message}; ${missing.length} are missing, such as ${missing.slice(0, 5)}`);
    });
  }
}
