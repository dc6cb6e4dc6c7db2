// Indexes of time series: defined by the client's classes in C# and JavaScript, queried, streamed, reduced.

import assert from "node:assert/strict";
import { test } from "node:test";

import { client, databaseForThisFile, storeAll } from "../support/client.mjs";

const {
  AbstractCsharpIndexCreationTask,
  AbstractMultiMapTimeSeriesIndexCreationTask,
  AbstractRawJavaScriptTimeSeriesIndexCreationTask,
  AbstractCsharpTimeSeriesIndexCreationTask,
  GetIndexOperation,
  GetIndexStatisticsOperation,
  GetTermsOperation,
} = client;
const store = await databaseForThisFile("time_series_indexes");
const at = (minute) => new Date(Date.UTC(2020, 0, 1, 0, minute));

class HutsByBeds extends AbstractCsharpTimeSeriesIndexCreationTask {
  constructor() {
    super();
    this.map =
      "from series in timeSeries.Huts.Beds from entry in series.Entries " +
      "let guide = LoadDocument(entry.Tag, \"Guides\") " +
      "select new { beds = entry.Values[0], minute = entry.Timestamp.Minute, hut = series.DocumentId, guide = guide.name }";
  }
}

class HutsByBedsScript extends AbstractRawJavaScriptTimeSeriesIndexCreationTask {
  constructor() {
    super();
    this.maps.add(
      "timeSeries.map('Huts', 'Beds', function (series) { return series.Entries.map(entry => ({ " +
        "beds: entry.Value, minute: entry.Timestamp.getUTCMinutes(), hut: series.DocumentId, " +
        "guide: load(entry.Tag, 'Guides').name })); })",
    );
  }
}

class BedsOfAll extends AbstractMultiMapTimeSeriesIndexCreationTask {
  constructor() {
    super();
    for (const name of ["Beds", "Bunks"])
      this._addMap(
        `from series in timeSeries.Huts.${name} from entry in series.Entries ` +
          "select new { hut = series.DocumentId, count = 1, beds = entry.Value }",
      );
    this._reduce =
      "from r in results group r by r.hut into g " +
      "select new { hut = g.Key, count = g.Sum(x => x.count), beds = g.Sum(x => x.beds) }";
  }
}

class HutsByNames extends AbstractCsharpIndexCreationTask {
  constructor() {
    super();
    this.map = "from hut in docs.Huts select new { names = TimeSeriesNamesFor(hut), counters = CounterNamesFor(hut) }";
  }
}

await storeAll(store, "Huts", { "huts/1": { name: "Monte Rosa" }, "huts/2": { name: "Bordier" } });
await storeAll(store, "Guides", { "guides/1": { name: "Anna" } });
await append("huts/1", "Beds", [0, 1, 2], "guides/1");
await append("huts/2", "beds", [3], null);
await append("huts/2", "Bunks", [4], null);
for (const index of [new HutsByBeds(), new HutsByBedsScript(), new BedsOfAll(), new HutsByNames()])
  await index.execute(store);

async function append(id, name, minutes, tag) {
  const session = store.openSession();
  for (const minute of minutes) session.timeSeriesFor(id, name).append(at(minute), [minute * 10, 1], tag);
  await session.saveChanges();
}

async function remove(id, name, from, to) {
  const session = store.openSession();
  session.timeSeriesFor(id, name).delete(from, to);
  await session.saveChanges();
}

/** All rows of an index that is not stale, in the order of huts and minutes. */
async function rowsOf(index, query = (all) => all) {
  const all = store.openSession().query({ index }).waitForNonStaleResults();
  const rows = (await query(all).all()).map(({ hut, minute, beds, guide }) => [hut, minute, beds, guide ?? null]);
  return rows.sort((left, right) => String(left).localeCompare(String(right)));
}

test("entries are queried like documents, in both languages", async () => {
  const expected = [
    ["huts/1", 0, 0, "Anna"],
    ["huts/1", 1, 10, "Anna"],
    ["huts/1", 2, 20, "Anna"],
    ["huts/2", 3, 30, null],
  ];
  for (const index of [HutsByBeds, HutsByBedsScript]) {
    assert.deepEqual(await rowsOf(index), expected);
    assert.deepEqual(await rowsOf(index, (all) => all.whereGreaterThan("beds", 10)), expected.slice(2));
    assert.deepEqual(await rowsOf(index, (all) => all.whereEquals("hut", "Huts/2")), expected.slice(3));
    assert.deepEqual(await rowsOf(index, (all) => all.whereEquals("guide", "anna")), expected.slice(0, 3));
  }
});

test("an index reports that its source is time series", async () => {
  for (const index of [new HutsByBeds(), new HutsByBedsScript(), new BedsOfAll()]) {
    const name = index.getIndexName();
    assert.equal((await store.maintenance.send(new GetIndexOperation(name))).sourceType, "TimeSeries");
    const stats = await store.maintenance.send(new GetIndexStatisticsOperation(name));
    assert.deepEqual([stats.sourceType, stats.isStale], ["TimeSeries", false]);
  }
});

test("an index is updated when entries are appended, replaced, deleted or loaded", async () => {
  await append("huts/1", "Beds", [2], null);
  await remove("huts/1", "Beds", at(0), at(0));
  const session = store.openSession();
  (await session.load("guides/1")).name = "Berta";
  await session.delete("huts/2");
  await session.saveChanges();
  const expected = [
    ["huts/1", 1, 10, "Berta"],
    ["huts/1", 2, 20, null],
  ];
  for (const index of [HutsByBeds, HutsByBedsScript]) assert.deepEqual(await rowsOf(index), expected);
  await append("huts/1", "Beds", [0], "guides/1");
  for (const index of [HutsByBeds, HutsByBedsScript])
    assert.deepEqual(await rowsOf(index), [["huts/1", 0, 0, "Berta"], ...expected]);
});

test("several series are reduced to one result", async () => {
  await append("huts/1", "Bunks", [5, 6], null);
  const results = await store.openSession().query({ index: BedsOfAll }).waitForNonStaleResults().all();
  assert.deepEqual(results.map(({ hut, count, beds }) => [hut, count, beds]), [["huts/1", 5, 140]]);
});

test("entries are streamed", async () => {
  const session = store.openSession();
  const stream = await session.advanced.stream(session.query({ index: HutsByBeds }).whereEquals("minute", 1));
  const found = [];
  for await (const { document } of stream) found.push([document.hut, document.beds]);
  assert.deepEqual(found, [["huts/1", 10]]);
});

test("documents are found by the names of their series and counters", async () => {
  const huts = async (field, name) => {
    const all = store.openSession().query({ index: HutsByNames }).waitForNonStaleResults();
    return (await all.whereEquals(field, name).all()).map((hut) => hut.id);
  };
  assert.deepEqual(await huts("names", "bunks"), ["huts/1"]);
  assert.deepEqual(await huts("counters", "guests"), []);
  const session = store.openSession();
  session.countersFor("huts/1").increment("guests", 2);
  session.timeSeriesFor("huts/1", "Bunks").delete();
  await session.saveChanges();
  assert.deepEqual(await huts("names", "bunks"), []);
  assert.deepEqual(await huts("counters", "guests"), ["huts/1"]);
  const terms = await store.maintenance.send(new GetTermsOperation("HutsByNames", "names", null));
  assert.deepEqual(terms, ["beds"]);
});
