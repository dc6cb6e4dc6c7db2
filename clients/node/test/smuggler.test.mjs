// Export and import: to a file, to another database, with options, and what the operations say.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { client, createDatabase, databaseForThisFile, deleteDatabase, openStore, storeAll, uniqueDatabaseName } from "../support/client.mjs";

const { DatabaseSmugglerExportOptions, DatabaseSmugglerImportOptions, GetStatisticsOperation } =
  client;
const store = await databaseForThisFile("smuggler");
const folder = await mkdtemp(join(tmpdir(), "smuggler-"));
after(() => rm(folder, { recursive: true }));

await storeAll(store, "Huts", { "huts/1": { name: "Monte Rosa", beds: 120 }, "huts/2": { name: "Größe", beds: 12 } });
await storeAll(store, "Peaks", { "peaks/1": { name: "Dufourspitze", metres: 4634 } });
const session = store.openSession();
session.advanced.attachments.store("huts/1", "map.bin", Buffer.alloc(300_000, 7), "image/png");
session.countersFor("huts/1").increment("nights", 5);
session.timeSeriesFor("peaks/1", "Snow").append(new Date("2024-01-01T00:00:00Z"), [1.5, 2], "gauge/1");
await session.saveChanges();

/** Another database, deleted at the end of the file. */
async function another() {
  const name = uniqueDatabaseName("smuggled");
  const other = openStore(name);
  await createDatabase(other, name);
  after(async () => {
    await deleteDatabase(other, name);
    other.dispose();
  });
  return other;
}

async function assertIsComplete(other) {
  const session = other.openSession();
  const hut = await session.load("huts/1");
  assert.deepEqual([hut.name, hut.beds], ["Monte Rosa", 120]);
  assert.equal((await session.load("huts/2")).name, "Größe");
  const attachment = await session.advanced.attachments.get("huts/1", "map.bin");
  assert.deepEqual([attachment.details.size, attachment.details.contentType], [300_000, "image/png"]);
  attachment.dispose();
  assert.equal(await session.countersFor("huts/1").get("nights"), 5);
  const [entry] = await session.timeSeriesFor("peaks/1", "Snow").get();
  assert.deepEqual([entry.values, entry.tag], [[1.5, 2], "gauge/1"]);
}

test("a database is exported to a file and imported from it", async () => {
  const file = join(folder, "all.ravendbdump");
  const exported = await store.smuggler.export(new DatabaseSmugglerExportOptions(), file);
  await exported.waitForCompletion();
  const other = await another();
  const imported = await other.smuggler.import(new DatabaseSmugglerImportOptions(), file);
  await imported.waitForCompletion();
  await assertIsComplete(other);
});

// The client 7.2.6 takes the other database for the path of a file.
const skip = process.env.CORVUS_NODE_CLIENT === "ravendb7" && "a known bug of this client";
test("a database is exported into another one", { skip }, async () => {
  const other = await another();
  const exported = await store.smuggler.export(
    new DatabaseSmugglerExportOptions(),
    other.smuggler.forDatabase(other.database),
  );
  await exported.waitForCompletion();
  await assertIsComplete(other);
});

test("options choose what is exported", async () => {
  const other = await another();
  const options = new DatabaseSmugglerExportOptions();
  options.operateOnTypes = ["Documents"];
  options.collections = ["Peaks"];
  const file = join(folder, "peaks.ravendbdump");
  await (await store.smuggler.export(options, file)).waitForCompletion();
  await (await other.smuggler.import(new DatabaseSmugglerImportOptions(), file)).waitForCompletion();
  const statistics = await other.maintenance.send(new GetStatisticsOperation());
  assert.equal(statistics.countOfDocuments, 1);
});

test("a file that is cut fails the import", async () => {
  const file = join(folder, "cut.ravendbdump");
  await (await store.smuggler.export(new DatabaseSmugglerExportOptions(), file)).waitForCompletion();
  await truncate(file, Math.floor((await readFile(file)).length / 2));
  const other = await another();
  await assert.rejects(async () => {
    const imported = await other.smuggler.import(new DatabaseSmugglerImportOptions(), file);
    await imported.waitForCompletion();
  });
});

test("a file that is no dump fails the import", async () => {
  const file = join(folder, "text.ravendbdump");
  await writeFile(file, "no dump");
  const other = await another();
  await assert.rejects(async () => {
    const imported = await other.smuggler.import(new DatabaseSmugglerImportOptions(), file);
    await imported.waitForCompletion();
  });
});
