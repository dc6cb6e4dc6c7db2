// Backups of all databases: defined, listed, disabled and deleted.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import { client, databaseForThisFile, uniqueDatabaseName } from "../support/client.mjs";

const {
  DeleteServerWideTaskOperation,
  GetDatabaseRecordOperation,
  GetServerWideBackupConfigurationOperation,
  GetServerWideBackupConfigurationsOperation,
  PutServerWideBackupConfigurationOperation,
  ToggleServerWideTaskStateOperation,
} = client;
const store = await databaseForThisFile("server-wide");
const server = store.maintenance.server;
const name = uniqueDatabaseName("backup");
after(() => server.send(new DeleteServerWideTaskOperation(name, "Backup")).catch(() => {}));

/** The task that the database of this file has of the one that the test defines. */
async function task() {
  const record = await server.send(new GetDatabaseRecordOperation(store.database));
  return record.periodicBackups.find((task) => task.name === `Server Wide Backup, ${name}`);
}

test("a backup of all databases is defined, changed, disabled and deleted", async () => {
  await server.send(
    new PutServerWideBackupConfigurationOperation({
      name,
      backupType: "Backup",
      fullBackupFrequency: "0 2 * * 0",
      incrementalBackupFrequency: "0 2 * * *",
      localSettings: { folderPath: "all" },
      excludedDatabases: [],
    }),
  );
  const read = () => server.send(new GetServerWideBackupConfigurationOperation(name));
  const found = await read();
  assert.deepEqual([found.name, found.fullBackupFrequency], [name, "0 2 * * 0"]);
  const all = await server.send(new GetServerWideBackupConfigurationsOperation());
  assert.ok(all.some((one) => one.name === name));
  assert.equal((await task()).localSettings.folderPath, `all/${store.database}`);

  // The client sends the request, and cannot read any answer to it.
  const toggle = new ToggleServerWideTaskStateOperation(name, "Backup", true);
  await assert.rejects(server.send(toggle), /NotSupportedException/);
  assert.equal((await task()).disabled, true);

  const changed = { ...found, excludedDatabases: [store.database] };
  await server.send(new PutServerWideBackupConfigurationOperation(changed));
  assert.equal(await task(), undefined);

  await server.send(new DeleteServerWideTaskOperation(name, "Backup"));
  assert.equal(await read(), undefined);
});
