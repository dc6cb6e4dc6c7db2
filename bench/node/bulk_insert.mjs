// A bulk insert of small documents by the official Node.js client, for the driver.
//
//   node bulk_insert.mjs URL DATABASE COUNT
//
// Prints {"seconds": …, "cpuSeconds": …}: from the first document to the end of the insert, without the
// start of Node.js. The package is the one that clients/node has installed.

import { createRequire } from "node:module";

const require = createRequire(new URL("../../clients/node/package.json", import.meta.url));
const { DocumentStore } = require("ravendb7");

const [url, database, count] = process.argv.slice(2);
const store = new DocumentStore(url, database);
store.initialize();

const cpuBefore = process.cpuUsage();
const began = performance.now();
const insert = store.bulkInsert();
for (let number = 1; number <= Number(count); number++) {
  const document = { Name: nameOf(number), Number: number };
  await insert.store(document, `smalls/${number}`, { "@collection": "Smalls" });
}
await insert.finish();
const seconds = (performance.now() - began) / 1e3;
const { user, system } = process.cpuUsage(cpuBefore);
store.dispose();
console.log(JSON.stringify({ seconds, cpuSeconds: (user + system) / 1e6 }));

function nameOf(number) {
  return (Math.imul(number, 0x9e3779b1) >>> 0).toString(36).padStart(10, "name");
}
