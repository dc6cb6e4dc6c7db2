// Time series: appended by sessions, in batches and bulk inserts, read by range, included, streamed; policies.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";

import { client, databaseForThisFile, serverUrl } from "../support/client.mjs";

const {
  AppendOperation,
  ConfigureTimeSeriesOperation,
  ConfigureTimeSeriesValueNamesOperation,
  GetMultipleTimeSeriesOperation,
  GetTimeSeriesOperation,
  GetTimeSeriesStatisticsOperation,
  PatchOperation,
  PatchRequest,
  RawTimeSeriesPolicy,
  TimeSeriesAggregationResult,
  TimeSeriesBatchOperation,
  TimeSeriesCollectionConfiguration,
  TimeSeriesConfiguration,
  TimeSeriesOperation,
  TimeSeriesPolicy,
  TimeSeriesRawResult,
  TimeValue,
} = client;
const store = await databaseForThisFile("time_series");

const at = (minute) => new Date(Date.UTC(2020, 0, 1, 0, minute));
const shown = (entries) =>
  entries.map((entry) => [entry.timestamp.getTime() - at(0).getTime(), entry.values, entry.tag ?? null]);
const minutes = (entries) => entries.map((entry) => (entry.timestamp.getTime() - at(0).getTime()) / 60_000);

async function storeHut(id) {
  const session = store.openSession();
  await session.store({ name: id, "@metadata": { "@collection": "Huts" } }, id);
  await session.saveChanges();
}

async function appendMinutes(id, name, count) {
  const session = store.openSession();
  const series = session.timeSeriesFor(id, name);
  for (let minute = 0; minute < count; minute++) series.append(at(minute), [minute, minute / 4], minute % 2 ? "guides/1" : null);
  await session.saveChanges();
}

test("entries are appended, replaced and deleted by a session", async () => {
  await storeHut("huts/1");
  const session = store.openSession();
  session.timeSeriesFor("huts/1", "Beds").append(at(1), 5, "guides/1");
  session.timeSeriesFor("huts/1", "Beds").append(at(0), [1.25, -3]);
  session.timeSeriesFor("huts/1", "Beds").append(at(2), 7);
  await session.saveChanges();
  const read = () => store.openSession().timeSeriesFor("huts/1", "Beds").get();
  assert.deepEqual(shown(await read()), [[0, [1.25, -3], null], [60_000, [5], "guides/1"], [120_000, [7], null]]);
  const later = store.openSession();
  later.timeSeriesFor("huts/1", "beds").append(at(1), [6, 7]);
  later.timeSeriesFor("huts/1", "beds").deleteAt(at(2));
  await later.saveChanges();
  assert.deepEqual(shown(await read()), [[0, [1.25, -3], null], [60_000, [6, 7], null]]);
  const hut = await store.openSession().load("huts/1");
  assert.deepEqual(hut["@metadata"]["@timeseries"], ["Beds"]);
  assert.match(hut["@metadata"]["@flags"], /HasTimeSeries/);
});

test("ranges and pages are read", async () => {
  await storeHut("huts/2");
  await appendMinutes("huts/2", "Snow", 30);
  const series = () => store.openSession().timeSeriesFor("huts/2", "Snow");
  assert.deepEqual(minutes(await series().get(at(5), at(7))), [5, 6, 7]);
  assert.deepEqual(minutes(await series().get(10, 3)), [10, 11, 12]);
  assert.deepEqual(minutes(await series().get(at(28), null)), [28, 29]);
  assert.equal((await series().get(at(100), null)).length, 0);
  const range = await store.operations.send(new GetTimeSeriesOperation("huts/2", "Snow"));
  assert.equal(range.totalResults, 30);
  assert.ok(!(await store.operations.send(new GetTimeSeriesOperation("huts/2", "Nothing"))));
  const several = await store.operations.send(new GetMultipleTimeSeriesOperation("huts/2", [
    { name: "Snow", from: at(1), to: at(2) },
    { name: "Snow", from: at(10), to: at(10) },
  ]));
  assert.deepEqual(several.values.get("Snow").map((part) => minutes(part.entries)), [[1, 2], [10]]);
});

test("a session that has part of a range requests the rest", async () => {
  await storeHut("huts/3");
  await appendMinutes("huts/3", "Snow", 20);
  const session = store.openSession();
  const series = session.timeSeriesFor("huts/3", "Snow");
  await series.get(at(5), at(8));
  const requests = session.advanced.numberOfRequests;
  assert.deepEqual(minutes(await series.get(at(6), at(7))), [6, 7]);
  assert.equal(session.advanced.numberOfRequests, requests);
  assert.deepEqual(minutes(await series.get(at(3), at(10))), [3, 4, 5, 6, 7, 8, 9, 10]);
});

test("ranges are included with documents", async () => {
  await storeHut("huts/4");
  await appendMinutes("huts/4", "Snow", 10);
  for (const [include, expected] of [
    [(builder) => builder.includeTimeSeries("Snow", at(2), at(4)), [2, 3, 4]],
    [(builder) => builder.includeTimeSeries("Snow", "Last", 3), [7, 8, 9]],
  ]) {
    const session = store.openSession();
    await session.load("huts/4", { includes: include });
    const found = await session.timeSeriesFor("huts/4", "Snow").get(at(expected[0]), at(expected.at(-1)));
    assert.deepEqual(minutes(found), expected);
    assert.equal(session.advanced.numberOfRequests, 1);
  }
});

test("operations change a series and return its statistics", async () => {
  await storeHut("huts/5");
  const operation = new TimeSeriesOperation("Wind");
  for (let minute = 0; minute < 5; minute++) operation.append(new AppendOperation(at(minute), [minute], "guides/2"));
  await store.operations.send(new TimeSeriesBatchOperation("huts/5", operation));
  const statistics = await store.operations.send(new GetTimeSeriesStatisticsOperation("huts/5"));
  assert.equal(statistics.documentId, "huts/5");
  const [wind] = statistics.timeSeries;
  assert.deepEqual([wind.name, wind.numberOfEntries], ["Wind", 5]);
  assert.deepEqual([wind.startDate, wind.endDate], [at(0), at(4)]);
  await assert.rejects(store.operations.send(new TimeSeriesBatchOperation("huts/none", operation)));
});

test("incremental series are incremented and decremented", async () => {
  await storeHut("huts/6");
  const count = async (minute, values) => {
    const session = store.openSession();
    session.incrementalTimeSeriesFor("huts/6", "INC:Guests").increment(at(minute), values);
    await session.saveChanges();
  };
  await count(0, [1, 10]);
  await count(0, [2, -3]);
  await count(1, [4]);
  const found = await store.openSession().incrementalTimeSeriesFor("huts/6", "INC:Guests").get();
  assert.deepEqual(found.map((entry) => entry.values[0]), [3, 4]);
  assert.deepEqual(found[0].values, [3, 7]);
});

test("bulk inserts fill series, and streams read them", async () => {
  await storeHut("huts/7");
  const bulk = store.bulkInsert();
  const series = bulk.timeSeriesFor("huts/7", "Long");
  for (let second = 0; second < 5000; second++) await series.append(new Date(at(0).getTime() + second * 1000), second / 8, "tag");
  series.dispose();
  await bulk.finish();
  const answer = await fetch(`${serverUrl}/databases/${store.database}/streams/timeseries?docId=huts/7&name=Long`);
  // Every entry is followed by a comma, so this is not JSON.
  const { Results: entries } = JSON.parse((await answer.text()).replace(/,\]\}$/, "]}"));
  const sum = entries.reduce((sum, entry) => sum + entry.Values[0], 0);
  assert.deepEqual([entries.length, sum], [5000, (4999 * 5000) / 16]);
});

test("scripts append, read and delete", async () => {
  await storeHut("huts/8");
  const script = `timeseries(this, "Snow").append("2020-01-01T00:00:00.000Z", [1, 2], "guides/1");
    timeseries(this, "Snow").append("2020-01-01T00:01:00.000Z", 3);
    timeseries(this, "Snow").delete("2020-01-01T00:01:00.000Z", "2020-01-01T00:01:00.000Z");
    this.count = timeseries(this, "Snow").getStats().Count;`;
  await store.operations.send(new PatchOperation("huts/8", null, PatchRequest.forScript(script)));
  const session = store.openSession();
  assert.equal((await session.load("huts/8")).count, 1);
  assert.deepEqual(shown(await session.timeSeriesFor("huts/8", "Snow").get()), [[0, [1, 2], "guides/1"]]);
});

test("series are deleted with their documents", async () => {
  await storeHut("huts/9");
  await appendMinutes("huts/9", "Snow", 3);
  const session = store.openSession();
  await session.delete("huts/9");
  await session.saveChanges();
  await storeHut("huts/9");
  assert.equal(await store.openSession().timeSeriesFor("huts/9", "Snow").get(), null);
});

test("value names and policies are configured", async () => {
  await store.maintenance.send(new ConfigureTimeSeriesValueNamesOperation({
    collection: "Huts", timeSeries: "Snow", valueNames: ["Depth", "Fresh"], update: true,
  }));
  const huts = new TimeSeriesCollectionConfiguration();
  huts.disabled = true;
  const configuration = new TimeSeriesConfiguration();
  configuration.collections = new Map([["Huts", huts]]);
  const configured = await store.maintenance.send(new ConfigureTimeSeriesOperation(configuration));
  assert.ok(configured.raftCommandIndex > 0);
});

class Depth {
  static TIME_SERIES_VALUES = ["depth", "fresh"];
}

async function appendDepths(id, name, count) {
  await storeHut(id);
  const session = store.openSession();
  const series = session.timeSeriesFor(id, name);
  for (let minute = 0; minute < count; minute++) series.append(at(minute), [minute, minute % 2]);
  await session.saveChanges();
}

test("named values are aggregated", async () => {
  await store.timeSeries.register("Huts", "Depths", ["depth", "fresh"]);
  await appendDepths("huts/10", "Depths", 120);
  const session = store.openSession();
  const raw = await session.advanced
    .rawQuery("from Huts where id() = 'huts/10' select timeseries(from Depths where depth >= $least and fresh = 1)", TimeSeriesRawResult)
    .addParameter("least", 100)
    .first();
  assert.deepEqual([raw.count, minutes(raw.results).slice(0, 2)], [10, [101, 103]]);
  assert.equal(raw.asTypedResult(Depth).results[0].value.depth, 101);
  const hours = await session.advanced
    .rawQuery("from Huts as h where id() = 'huts/10' select timeseries(from h.Depths group by '1 hour' select min(), avg())", TimeSeriesAggregationResult)
    .first();
  assert.deepEqual([hours.count, hours.results.length], [120, 2]);
  const [, second] = hours.results;
  assert.deepEqual([second.from, second.min, second.average], [at(60), [60, 0], [89.5, 0.5]]);
  // A time series result next to other fields is recognised as such.
  const named = await session.advanced
    .rawQuery("from Huts as h where id() = 'huts/10' select timeseries(from h.Depths group by '1 hour' select max()) as depths, h.name")
    .first();
  assert.deepEqual([named.depths.count, named.depths.results[1].max], [120, [119, 1]]);
});

test("policies create rollups, which queries use", { skip: process.env.CORVUS_TEST_REFERENCE === "1" }, async () => {
  const byHour = new TimeSeriesPolicy("ByHour", TimeValue.ofHours(1), TimeValue.ofYears(100));
  const huts = new TimeSeriesCollectionConfiguration();
  huts.rawPolicy = new RawTimeSeriesPolicy(TimeValue.ofDays(1));
  huts.policies = [byHour];
  const configuration = new TimeSeriesConfiguration();
  configuration.collections = new Map([["Wells", huts]]);
  configuration.policyCheckFrequencyInMs = 1000;
  await store.maintenance.send(new ConfigureTimeSeriesOperation(configuration));
  const session = store.openSession();
  await session.store({ name: "well", "@metadata": { "@collection": "Wells" } }, "wells/1");
  for (let minute = 0; minute < 120; minute++) session.timeSeriesFor("wells/1", "Depths").append(at(minute), [minute, 1]);
  await session.saveChanges();
  while (await store.operations.send(new GetTimeSeriesOperation("wells/1", "Depths"))) await setTimeout(100);
  const rollup = await store.openSession().timeSeriesFor("wells/1", byHour.getTimeSeriesName("Depths")).get();
  assert.deepEqual(rollup.map((entry) => [entry.isRollup, entry.values.length, entry.values[5]]), [[true, 12, 60], [true, 12, 60]]);
  const day = await store.openSession().advanced
    .rawQuery("from Wells select timeseries(from Depths group by 1d select sum(), count())", TimeSeriesAggregationResult)
    .first();
  assert.deepEqual([day.results[0].sum, day.results[0].count], [[7140, 120], [120, 120]]);
});

test("subscriptions include the last entries", async () => {
  const writing = store.openSession();
  await writing.store({ name: "spring", "@metadata": { "@collection": "Springs" } }, "springs/1");
  for (let minute = 0; minute < 10; minute++) writing.timeSeriesFor("springs/1", "Last").append(at(minute), minute);
  await writing.saveChanges();
  const name = await store.subscriptions.create({ query: "from Springs include timeseries('Last', last(3))" });
  const worker = store.subscriptions.getSubscriptionWorker({ subscriptionName: name });
  const found = await new Promise((resolve, reject) => {
    worker.on("error", reject);
    worker.on("batch", async (batch, callback) => {
      const session = batch.openSession();
      const entries = await session.timeSeriesFor("springs/1", "Last").get(at(7), null);
      callback();
      resolve([minutes(entries), session.advanced.numberOfRequests]);
    });
  });
  worker.dispose();
  assert.deepEqual(found, [[7, 8, 9], 0]);
});
