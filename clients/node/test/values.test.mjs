// Values come back as they were stored: numbers, text of all planes, nesting, size.

import assert from "node:assert/strict";
import { test } from "node:test";

import { databaseForThisFile, loadFresh } from "../support/client.mjs";

const store = await databaseForThisFile("values");

async function roundTrip(id, value) {
  const session = store.openSession();
  await session.store({ value }, id);
  await session.saveChanges();
  return (await loadFresh(store, id)).value;
}

test("numbers keep their value", async () => {
  const numbers = [
    0,
    1,
    -1,
    255,
    65536,
    2147483647,
    -2147483648,
    4294967296,
    Number.MAX_SAFE_INTEGER,
    Number.MIN_SAFE_INTEGER,
    0.1,
    -0.5,
    1.5e-7,
    Math.PI,
    1 / 3,
    1e21,
    1.7976931348623157e308,
    5e-324,
    123456789.123456789,
  ];
  assert.deepEqual(await roundTrip("numbers/1", numbers), numbers);
});

test("text of all planes, escapes and control characters survives", async () => {
  const texts = [
    "",
    " ",
    "ASCII",
    "Grüße",
    "Ελληνικά",
    "日本語",
    "العربية",
    "👩‍👩‍👧‍👦",
    "🏔️🇨🇭",
    "\u{10FFFF}",
    "line\nbreak\ttab\r",
    'quote " backslash \\ slash /',
    "\u0000\u0001\u001f\u007f",
    "\u2028\u2029",
    "e\u0301",
  ];
  assert.deepEqual([...(await roundTrip("texts/1", texts))], texts);
});

test("booleans, nulls, empty and nested containers survive", async () => {
  const value = {
    yes: true,
    no: false,
    nothing: null,
    emptyList: [],
    emptyObject: {},
    list: [1, "two", null, [3, [4, [5]]], { six: 6 }],
    "key with spaces": 1,
    ключ: 2,
    "🗝️": 3,
    "": 4,
    "with.dot": 5,
    'with"quote': 6,
  };
  const back = await roundTrip("containers/1", value);
  assert.deepEqual(JSON.parse(JSON.stringify(back)), value);
});

test("objects nested sixty deep survive", async () => {
  let value = { bottom: true };
  for (let i = 0; i < 60; i++) value = { inner: value };
  const back = await roundTrip("deep/1", value);
  assert.deepEqual(JSON.parse(JSON.stringify(back)), value);
});

test("the order of properties is kept", async () => {
  const value = { zebra: 1, apple: 2, Mango: 3, 10: 4 };
  assert.deepEqual(Object.keys(await roundTrip("order/1", value)), Object.keys(value));
});

test("an object with two thousand properties survives", async () => {
  const value = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`property${i}`, i]));
  const back = await roundTrip("wide/1", value);
  assert.deepEqual(JSON.parse(JSON.stringify(back)), value);
});

test("dates are kept to the millisecond", async () => {
  const date = new Date("2024-02-29T23:59:59.987Z");
  const back = await roundTrip("dates/1", { date });
  assert.equal(new Date(back.date).getTime(), date.getTime());
});

test("a document of one megabyte is stored and changed", async () => {
  const text =
    Array.from({ length: 65536 }, (_, i) => String.fromCodePoint(0x4e00 + (i % 5000))).join("") +
    "🙂".repeat(220_000);
  assert.ok(Buffer.byteLength(text) > 1024 * 1024);
  assert.equal(await roundTrip("big/1", text), text);
  const session = store.openSession();
  (await session.load("big/1")).value = `${text}!`;
  await session.saveChanges();
  assert.equal((await loadFresh(store, "big/1")).value, `${text}!`);
});

test("a document of thirty thousand small values survives", async () => {
  const rows = Array.from({ length: 10_000 }, (_, i) => ({ i, f: i / 7, s: `row ${i}` }));
  const back = await roundTrip("rows/1", rows);
  assert.deepEqual(JSON.parse(JSON.stringify(back)), rows);
});
