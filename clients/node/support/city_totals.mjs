// Totals over all cities: two map-reduce indexes, and the same totals computed here.

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";

import { cityById, collection } from "./cities.mjs";
import { client } from "./client.mjs";

const pauseMilliseconds = 100;

const byCountry = {
  name: "Cities/ByCountry",
  maps: [`from c in docs.${collection} select new { c.country, c.population, cities = 1, largest = c.population }`],
  reduce: `from r in results group r by r.country into g
           select new { country = g.Key, population = g.Sum(x => x.population), cities = g.Sum(x => x.cities),
                        largest = g.Max(x => x.largest) }`,
};

const byFirstLetter = {
  name: "Cities/ByFirstLetter",
  maps: [`map("${collection}", c => ({ letter: c.name[0], population: c.population, cities: 1 }))`],
  reduce: `groupBy(r => r.letter).aggregate(g => ({
             letter: g.key,
             population: g.values.reduce((sum, row) => sum + row.population, 0),
             cities: g.values.reduce((sum, row) => sum + row.cities, 0),
           }))`,
};

export async function defineCityTotals(store) {
  for (const { name, maps, reduce } of [byCountry, byFirstLetter]) {
    const definition = new client.IndexDefinition();
    Object.assign(definition, { name, maps: new Set(maps), reduce });
    await store.maintenance.send(new client.PutIndexesOperation(definition));
  }
}

/** Waits until no index is stale: a query waits for 15 seconds at most, whatever time it is given. */
async function indexesAreCurrent(store) {
  for (;;) {
    const statistics = await store.maintenance.send(new client.GetStatisticsOperation());
    if (!statistics.indexes.some((index) => index.isStale)) return;
    await setTimeout(pauseMilliseconds);
  }
}

/** Key -> [population, cities, largest]. */
function computed(keyOf) {
  const totals = new Map();
  for (const city of cityById.values()) {
    const [population, cities, largest] = totals.get(keyOf(city)) ?? [0, 0, 0];
    const total = [population + city.population, cities + 1, Math.max(largest, city.population)];
    totals.set(keyOf(city), total);
  }
  return totals;
}

async function stored(store, name, keyOf, valuesOf) {
  const session = store.openSession();
  const rows = await session.advanced.rawQuery(`from index '${name}'`).waitForNonStaleResults().all();
  const totals = new Map(rows.map((row) => [keyOf(row), valuesOf(row)]));
  assert.equal(totals.size, rows.length, "every key once");
  return totals;
}

const inOrder = (totals) => [...totals].sort(([left], [right]) => (left < right ? -1 : 1));

/** Asserts that both indexes return the same totals as a loop over all cities. */
export async function assertCityTotals(store) {
  await indexesAreCurrent(store);
  const countries = await stored(
    store,
    byCountry.name,
    (row) => row.country,
    (row) => [row.population, row.cities, row.largest],
  );
  assert.deepEqual(inOrder(countries), inOrder(computed((city) => city.country)));
  const letters = await stored(
    store,
    byFirstLetter.name,
    (row) => row.letter,
    (row) => [row.population, row.cities],
  );
  const wanted = computed((city) => city.name[0]);
  const withoutLargest = inOrder(wanted).map(([letter, [population, cities]]) => [letter, [population, cities]]);
  assert.deepEqual(inOrder(letters), withoutLargest);
}
