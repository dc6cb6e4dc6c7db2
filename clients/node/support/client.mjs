// The server under test and the databases that the tests own. Every database created here is deleted when the test
// file ends.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { after } from "node:test";

import { client } from "./package.mjs";

export { client };

export const serverUrl = requiredVariable("CORVUS_TEST_URL");

function requiredVariable(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; start the tests through clients/run`);
  return value;
}

export function uniqueDatabaseName(label) {
  return `node-${label}-${randomBytes(5).toString("hex")}`;
}

/** How the client identifies itself to a server with certificates. */
function authentication() {
  const pfx = process.env.CORVUS_TEST_CLIENT_PFX;
  if (!pfx) return undefined;
  const ca = readFileSync(requiredVariable("CORVUS_TEST_AUTHORITY"));
  return { type: "pfx", certificate: readFileSync(pfx), password: "", ca };
}

/** An initialised store for `database`; the caller disposes it. */
export function openStore(database, configure = () => {}) {
  const store = new client.DocumentStore(serverUrl, database, authentication());
  configure(store.conventions);
  return store.initialize();
}

export async function createDatabase(store, name) {
  return store.maintenance.server.send(new client.CreateDatabaseOperation({ databaseName: name }));
}

export async function deleteDatabase(store, name) {
  return store.maintenance.server.send(
    new client.DeleteDatabasesOperation({ databaseNames: [name], hardDelete: true }),
  );
}

/** Registers one database for the whole test file and returns its store. */
export async function databaseForThisFile(label, configure) {
  const name = uniqueDatabaseName(label);
  const store = openStore(name, configure);
  await createDatabase(store, name);
  after(async () => {
    await deleteDatabase(store, name);
    store.dispose();
  });
  return store;
}

/** Stores `documents` ({id: entity}) into `collection` in one session. */
export async function storeAll(store, collection, documents) {
  const session = store.openSession();
  for (const [id, entity] of Object.entries(documents)) {
    entity["@metadata"] = { "@collection": collection };
    await session.store(entity, id);
  }
  await session.saveChanges();
}

/** What `session.load` returns for `id` in a session of its own. */
export async function loadFresh(store, id) {
  return store.openSession().load(id);
}

export async function readAll(stream) {
  const rows = [];
  for await (const row of stream) rows.push(row);
  return rows;
}
