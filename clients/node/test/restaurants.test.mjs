// One search box over several fields: an index merges name, street and cuisine into one analysed field, and
// words in any order find the right place first.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const store = await databaseForThisFile("restaurants");

const known = [
  { name: "Rama Thai", street: "Bleecker St", cuisine: "Thai" },
  { name: "Corner Bean", street: "48th St", cuisine: "Coffee" },
  { name: "Mr. Fancy", street: "Lexington Ave", cuisine: "Korean" },
  { name: "Café des Étoiles", street: "Mulberry St", cuisine: "French" },
];
const first = ["Golden", "Little", "Old", "Blue", "Lucky", "Royal", "Grand", "Happy", "Silver", "Green"];
const second = ["Dragon", "Garden", "Kitchen", "Lantern", "Table", "Corner", "Palace", "Spoon", "House", "Tiger"];
const cuisines = ["Thai", "Korean", "Coffee", "Italian", "Mexican", "Indian", "Pizza"];
const streets = [
  "2nd Ave", "3rd Ave", "8th Ave", "14th St", "23rd St", "47th St", "49th St", "Broadway", "Canal St",
  "Lexington Ave", "Madison Ave",
];

/** 200 places: those above, others whose names, streets and cuisines share words with them. */
function restaurants() {
  const places = [...known];
  for (const street of ["48th St", "Bleecker St"]) {
    for (const cuisine of ["Italian", "Pizza", "Indian"]) {
      places.push({ name: `${cuisine} House`, street, cuisine });
    }
  }
  places.push({ name: "Fancy Spoon", street: "Canal St", cuisine: "Italian" });
  places.push({ name: "Mr. Noodle", street: "8th Ave", cuisine: "Thai" });
  places.push({ name: "Ramen Thanh", street: "3rd Ave", cuisine: null });
  places.push({ name: "Nameless", cuisine: "Coffee" });
  for (let number = 0; places.length < 200; number += 1) {
    const name = `${first[number % 10]} ${second[(number * 7 + Math.floor(number / 10)) % 10]}`;
    const street = streets[(number * 3) % streets.length];
    places.push({ name, street, cuisine: cuisines[(number * 5) % cuisines.length] });
  }
  return places;
}

function definition(name, map) {
  const index = new client.IndexDefinition();
  index.name = name;
  index.maps = new Set([map]);
  const options = new client.IndexFieldOptions();
  options.indexing = "Search";
  index.fields = { text: options };
  return index;
}

const places = restaurants().map((place, number) => [`restaurants/${number + 1}`, place]);
await storeAll(store, "Restaurants", Object.fromEntries(places));
await store.maintenance.send(
  new client.PutIndexesOperation(
    definition(
      "Restaurants/Text",
      "from r in docs.Restaurants select new { text = new object[] { r.name, r.street, r.cuisine } }",
    ),
    definition(
      "Restaurants/TextScript",
      "map('Restaurants', r => ({ text: [r.name, r.street, r.cuisine] }))",
    ),
  ),
);

async function found(index, typed, operator) {
  return store
    .openSession()
    .query({ indexName: index })
    .waitForNonStaleResults()
    .search("text", typed, operator)
    .orderByScore()
    .all();
}

for (const index of ["Restaurants/Text", "Restaurants/TextScript"]) {
  test(`${index}: the words find the right place first`, async () => {
    for (const [typed, name] of [
      ["Rama Thai", "Rama Thai"],
      ["thai rama", "Rama Thai"],
      ["rama bleecker", "Rama Thai"],
      ["coffee 48th st", "Corner Bean"],
      ["48TH coffee", "Corner Bean"],
      ["korean mr fancy ave", "Mr. Fancy"],
      ["fancy lexington", "Mr. Fancy"],
      ["café étoiles", "Café des Étoiles"],
    ]) {
      const rows = await found(index, typed);
      assert.equal(rows[0]?.name, name, typed);
      assert.ok(rows.length < 200, `${typed}: ${rows.length} of 200`);
    }
  });

  test(`${index}: all words, or a prefix, narrow the results`, async () => {
    const names = async (...asked) => (await found(index, ...asked)).map((place) => place.name);
    assert.deepEqual(await names("coffee 48th st", "AND"), ["Corner Bean"]);
    assert.deepEqual(await names("korean mr fancy ave", "AND"), ["Mr. Fancy"]);
    assert.deepEqual((await names("ram*")).sort(), ["Rama Thai", "Ramen Thanh"]);
    assert.deepEqual(await names("ram* thai", "AND"), ["Rama Thai"]);
    assert.deepEqual(await names("sushi"), []);
  });
}
