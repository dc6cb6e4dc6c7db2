// Backups by a task, and restoring them: logical ones and snapshots, in a folder, and in a bucket where CORVUS_TEST_S3 names
// a server with buckets that the server under test reaches.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import { client, databaseForThisFile, deleteDatabase, openStore, storeAll, uniqueDatabaseName } from "../support/client.mjs";

const { GetPeriodicBackupStatusOperation, RestoreBackupOperation, StartBackupOperation, UpdatePeriodicBackupOperation } = client;
const store = await databaseForThisFile("backups");
const bucketsUrl = process.env.CORVUS_TEST_S3;
await storeAll(store, "Huts", { "huts/1": { name: "Monte Rosa", beds: 120 } });

/** Backs everything up, and then what has changed; returns the status of the task. */
async function backUp(backupType, destination) {
  const defined = await store.maintenance.send(
    new UpdatePeriodicBackupOperation({
      name: uniqueDatabaseName("task"),
      backupType,
      fullBackupFrequency: "0 0 1 1 *",
      incrementalBackupFrequency: "0 0 1 1 *",
      ...destination,
    }),
  );
  for (const isFull of [true, false]) {
    await storeAll(store, "Huts", { "huts/2": { name: "Gnifetti", isFull } });
    const started = await store.maintenance.send(new StartBackupOperation(isFull, defined.taskId));
    // Which of the two it is depends on the version of the client.
    await (started.waitForCompletion ? started.waitForCompletion() : finished(started.operationId));
  }
  return (await store.maintenance.send(new GetPeriodicBackupStatusOperation(defined.taskId))).status;
}

async function finished(id) {
  for (;;) {
    const state = await store.maintenance.send(new client.GetOperationStateOperation(id));
    if (state.status === "Completed") return;
    assert.equal(state.status, "InProgress", JSON.stringify(state));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function restored(configuration) {
  const name = uniqueDatabaseName("restored");
  const operation = await store.maintenance.server.send(new RestoreBackupOperation({ databaseName: name, ...configuration }));
  await operation.waitForCompletion();
  const other = openStore(name);
  after(async () => {
    await deleteDatabase(other, name);
    other.dispose();
  });
  const session = other.openSession();
  assert.equal((await session.load("huts/1")).beds, 120);
  assert.equal((await session.load("huts/2")).isFull, false);
}

for (const backupType of ["Backup", "Snapshot"]) {
  test(`a ${backupType} in a folder is restored with what follows it`, async () => {
    const status = await backUp(backupType, { localSettings: { folderPath: store.database } });
    assert.equal(status.backupType, backupType);
    await restored({ type: "Local", backupLocation: status.localBackup.backupDirectory });
  });

  const skip = bucketsUrl ? false : "CORVUS_TEST_S3 names no server with buckets";
  test(`a ${backupType} in a bucket is restored with what follows it`, { skip }, async () => {
    const bucketName = uniqueDatabaseName("bucket");
    assert.equal((await fetch(`${bucketsUrl}/${bucketName}`, { method: "PUT" })).status, 200);
    const settings = {
      bucketName,
      awsRegionName: "us-east-1",
      awsAccessKey: "key",
      awsSecretKey: "secret",
      remoteFolderName: "a",
      customServerUrl: bucketsUrl,
      forcePathStyle: true,
    };
    const status = await backUp(backupType, { s3Settings: settings });
    const folder = status.localBackup.backupDirectory.split("/").pop();
    await restored({ type: "S3", settings: { ...settings, remoteFolderName: `a/${folder}` } });
  });
}
