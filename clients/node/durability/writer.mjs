// Saves batches until the server is killed, and records each batch that was acknowledged.
//
// Run by clients/run, which kills the server and then this process. Each line of the file
// CORVUS_TEST_ACKNOWLEDGED is the id prefix of one batch whose saveChanges() had returned.

import { appendFileSync } from "node:fs";

import { createDatabase, openStore } from "../support/client.mjs";
import { BATCH_DOCUMENTS, WRITERS } from "../support/batches.mjs";

const store = openStore(process.env.CORVUS_TEST_DURABILITY_DATABASE);
await createDatabase(store, store.database);

async function writeBatches(writer) {
  for (let n = 0; ; n++) {
    const prefix = `batch/${writer}-${n}/`;
    const session = store.openSession();
    for (let i = 0; i < BATCH_DOCUMENTS; i++) {
      await session.store({ prefix, i, "@metadata": { "@collection": "Batches" } }, `${prefix}${i}`);
    }
    await session.saveChanges();
    appendFileSync(process.env.CORVUS_TEST_ACKNOWLEDGED, `${prefix}\n`);
  }
}

// The first failure is the kill of the server, for which this program waits.
await Promise.all(Array.from({ length: WRITERS }, (_, writer) => writeBatches(writer))).catch(() =>
  process.exit(0),
);
