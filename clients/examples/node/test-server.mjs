// A test against a server of its own: CORVUS=/path/to/corvus node --test test-server.mjs
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { CreateDatabaseOperation, DocumentStore } from "ravendb";

/** A server in memory, on a free port. It ends with this process. */
async function startCorvus(executable = process.env.CORVUS ?? "corvus") {
  const settings = ["--ServerUrl=http://127.0.0.1:0", "--RunInMemory=true", "--Logs.MinLevel=Warn"];
  settings.push(`--Embedded.ParentProcessId=${process.pid}`);
  const child = spawn(executable, settings, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) {
    const url = line.match(/^Server available on: (\S+)/)?.[1];
    if (url) return { url, stop: () => child.kill() };
  }
  throw new Error(`${executable} did not start`);
}

/** A store on an empty database. */
async function emptyDatabase(url) {
  const store = new DocumentStore(url, `test-${crypto.randomUUID()}`).initialize();
  await store.maintenance.server.send(new CreateDatabaseOperation({ databaseName: store.database }));
  return store;
}

const corvus = await startCorvus();
after(() => corvus.stop());

test("a customer is found by name", async () => {
  const store = await emptyDatabase(corvus.url);
  const session = store.openSession();
  await session.store({ name: "Ada", "@metadata": { "@collection": "Customers" } }, "customers/1");
  await session.saveChanges();
  const found = await store.openSession().query({ collection: "Customers" })
    .whereEquals("name", "Ada").waitForNonStaleResults().all();
  assert.deepEqual(found.map((customer) => customer.id), ["customers/1"]);
  store.dispose();
});
