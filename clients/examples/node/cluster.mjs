// Stores orders in a cluster of three, while one of its nodes is killed and started again: node cluster.mjs
import { setTimeout as sleep } from "node:timers/promises";
import { DocumentStore } from "ravendb";

const urls = ["http://127.0.0.1:8081", "http://127.0.0.1:8082", "http://127.0.0.1:8083"];
const store = new DocumentStore(urls, "shop").initialize();

// Each order is on two of the three nodes before it counts as stored. No error is handled here: there is none.
for (let number = 1; number <= 500; number++) {
  const session = store.openSession();
  session.advanced.waitForReplicationAfterSaveChanges({ majority: true });
  await session.store({ number, "@metadata": { "@collection": "Orders" } }, `orders/${number}`);
  await session.saveChanges();
  await sleep(10);
}
console.log("500 orders are stored");
store.dispose();

// Every node has all of them, also the one that was away.
for (const url of urls) {
  const node = new DocumentStore(url, "shop");
  node.conventions.disableTopologyUpdates = true;
  node.initialize();
  const orders = () => node.openSession().query({ collection: "Orders" }).count().catch(() => 0);
  for (let looks = 0; (await orders()) < 500 && looks < 300; looks++) await sleep(100);
  console.log(`${url} has`, await orders(), "orders");
  node.dispose();
}
