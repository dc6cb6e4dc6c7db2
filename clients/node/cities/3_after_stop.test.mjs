// After a graceful stop and another restart the data is still complete; then the database is deleted.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import { assertAllCities, cityById, collection, idPrefix } from "../support/cities.mjs";
import { assertCityTotals } from "../support/city_totals.mjs";
import { client, deleteDatabase, openStore } from "../support/client.mjs";

const store = openStore(process.env.CORVUS_TEST_CITIES_DATABASE);
after(() => store.dispose());

test("counts and contents are unchanged", { timeout: 180_000 }, async () => {
  const collections = await store.maintenance.send(new client.GetCollectionStatisticsOperation());
  assert.deepEqual({ ...collections.collections }, { [collection]: cityById.size, Notes: 2 });
  await assertAllCities(await store.openSession().advanced.stream(idPrefix), "byId");
  assert.equal((await store.openSession().load("notes/after")).text, "after");
  await assertCityTotals(store);
});

test("the database with all cities can be deleted", async () => {
  await deleteDatabase(store, store.database);
  const names = await store.maintenance.server.send(new client.GetDatabaseNamesOperation(0, 1024));
  assert.ok(!names.includes(store.database));
});
