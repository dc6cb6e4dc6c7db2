import {
  AbstractJavaScriptIndexCreationTask, CreateDatabaseOperation, DeleteDatabasesOperation, DocumentStore,
  PatchByQueryOperation,
} from "ravendb";

const store = new DocumentStore(process.env.SERVER_URL ?? "http://127.0.0.1:8080", "tutorial-node").initialize();
const server = store.maintenance.server;
await server.send(new DeleteDatabasesOperation({ databaseNames: [store.database], hardDelete: true }));
await server.send(new CreateDatabaseOperation({ databaseName: store.database }));

class Order {
  constructor(city, lines) {
    this.city = city;
    this.lines = lines; // [{ product, price, count }]
  }
}

const session = store.openSession();
await session.store(new Order("Berlin", [{ product: "tea", price: 4, count: 10 }]));
await session.store(new Order("Lyon", [{ product: "tea", price: 4, count: 3 }]));
await session.store(new Order("Berlin", [{ product: "rice", price: 2, count: 25 }]));
await session.saveChanges();
console.log("first order:", (await session.load("orders/1-A")).city);

let statistics;
const inBerlin = await store.openSession().query({ collection: "Orders" })
  .whereEquals("city", "Berlin")
  .waitForNonStaleResults()
  .statistics((found) => { statistics = found; })
  .all();
console.log("in Berlin:", inBerlin.map((order) => order.id).sort().join(", "));
console.log("by the index:", statistics.indexName);

class Products_Sold extends AbstractJavaScriptIndexCreationTask {
  constructor() {
    super();
    this.map("Orders", (order) =>
      order.lines.map((line) => ({ product: line.product, revenue: line.price * line.count })));
    this.reduce((results) => results.groupBy((result) => result.product).aggregate((group) => ({
      product: group.key,
      revenue: group.values.reduce((sum, result) => sum + result.revenue, 0),
    })));
  }
}

await new Products_Sold().execute(store);
const sold = await store.openSession().query({ index: Products_Sold })
  .orderByDescending("revenue", "Long")
  .waitForNonStaleResults()
  .all();
console.log("sold:", sold.map((row) => `${row.product} ${row.revenue}`).join(", "));

const subscriptionName = await store.subscriptions.create({ query: "from Orders where city = 'Lyon'" });
const worker = store.subscriptions.getSubscriptionWorker({ subscriptionName });
const batches = [];
let onBatch = () => {};
worker.on("batch", (batch, done) => {
  batches.push(batch.items.map((item) => `${item.id} ${item.result.lines[0].count}`).join(", "));
  done(); // acknowledges the batch
  onBatch();
});
const batch = async () => {
  while (batches.length === 0) await new Promise((resolve) => { onBatch = resolve; });
  return batches.shift();
};
console.log("sent to the worker:", await batch());

const update = "from Orders update { for (const line of this.lines) line.count += 1; }";
await (await store.operations.send(new PatchByQueryOperation(update))).waitForCompletion();
console.log("after the patch:", await batch());

worker.dispose();
store.dispose();
