package corvus;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.DisabledIfEnvironmentVariable;

import net.ravendb.client.documents.BulkInsertOperation;
import net.ravendb.client.documents.operations.timeSeries.ConfigureTimeSeriesOperation;
import net.ravendb.client.documents.operations.timeSeries.GetMultipleTimeSeriesOperation;
import net.ravendb.client.documents.operations.timeSeries.GetTimeSeriesOperation;
import net.ravendb.client.documents.operations.timeSeries.GetTimeSeriesStatisticsOperation;
import net.ravendb.client.documents.operations.timeSeries.RawTimeSeriesPolicy;
import net.ravendb.client.documents.operations.timeSeries.TimeSeriesBatchOperation;
import net.ravendb.client.documents.operations.timeSeries.TimeSeriesCollectionConfiguration;
import net.ravendb.client.documents.operations.timeSeries.TimeSeriesConfiguration;
import net.ravendb.client.documents.operations.timeSeries.TimeSeriesDetails;
import net.ravendb.client.documents.operations.timeSeries.TimeSeriesItemDetail;
import net.ravendb.client.documents.operations.timeSeries.TimeSeriesOperation;
import net.ravendb.client.documents.operations.timeSeries.TimeSeriesPolicy;
import net.ravendb.client.documents.operations.timeSeries.TimeSeriesRange;
import net.ravendb.client.documents.operations.timeSeries.TimeSeriesRangeType;
import net.ravendb.client.documents.queries.timeSeries.TimeSeriesAggregationResult;
import net.ravendb.client.documents.queries.timeSeries.TimeSeriesRawResult;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.session.ISessionDocumentTimeSeries;
import net.ravendb.client.documents.session.timeSeries.TimeSeriesEntry;
import net.ravendb.client.documents.session.timeSeries.TimeSeriesValue;
import net.ravendb.client.documents.session.timeSeries.TypedTimeSeriesEntry;
import net.ravendb.client.documents.session.timeSeries.TypedTimeSeriesRollupEntry;
import net.ravendb.client.exceptions.RavenException;
import net.ravendb.client.primitives.TimeValue;

/** Time series: by sessions, operations and bulk inserts, by range and name, aggregated, included; policies. */
class TimeSeriesTest extends DatabaseTest {
    /** Noon of the first day of 2020. */
    private static final long NOON = 1_577_880_000_000L;

    /** The values measured in a place. */
    public static class Snow {
        @TimeSeriesValue(idx = 0)
        private double depth;
        @TimeSeriesValue(idx = 1)
        private double fresh;

        public double getDepth() {
            return depth;
        }

        public void setDepth(double depth) {
            this.depth = depth;
        }

        public double getFresh() {
            return fresh;
        }

        public void setFresh(double fresh) {
            this.fresh = fresh;
        }
    }

    private static Date at(long minute) {
        return new Date(NOON + minute * 60_000);
    }

    private static List<Long> minutes(TimeSeriesEntry[] entries) {
        return Arrays.stream(entries).map(entry -> (entry.getTimestamp().getTime() - NOON) / 60_000)
                .collect(Collectors.toList());
    }

    private void city(String id) {
        try (IDocumentSession session = store.openSession()) {
            session.store(new City(id, 1), id);
            session.saveChanges();
        }
    }

    /** Stores a city, with a series that has one entry per minute. */
    private void append(String id, String name, int count) {
        city(id);
        try (IDocumentSession session = store.openSession()) {
            ISessionDocumentTimeSeries series = session.timeSeriesFor(id, name);
            for (int minute = 0; minute < count; minute++) {
                series.append(at(minute), new double[] {minute, minute / 4.0}, minute % 2 == 0 ? null : "guides/1");
            }
            session.saveChanges();
        }
    }

    @Test
    void entriesAreAppendedReplacedAndDeleted() {
        append("cities/1", "Snow", 4);
        try (IDocumentSession session = store.openSession()) {
            ISessionDocumentTimeSeries series = session.timeSeriesFor("cities/1", "snow");
            series.append(at(1), 7.5);
            series.delete(at(2), at(3));
            session.saveChanges();
        }
        try (IDocumentSession session = store.openSession()) {
            TimeSeriesEntry[] entries = session.timeSeriesFor("cities/1", "Snow").get();
            assertEquals(Arrays.asList(0L, 1L), minutes(entries));
            assertArrayEquals(new double[] {7.5}, entries[1].getValues());
            assertNull(entries[1].getTag());
            City city = session.load(City.class, "cities/1");
            assertEquals(Arrays.asList("Snow"), session.advanced().getTimeSeriesFor(city));
            session.timeSeriesFor("cities/1", "Snow").delete();
            session.saveChanges();
        }
        assertNull(store.operations().send(new GetTimeSeriesOperation("cities/1", "Snow")));
    }

    @Test
    void rangesAndPagesAreRead() {
        append("cities/2", "Snow", 30);
        try (IDocumentSession session = store.openSession()) {
            ISessionDocumentTimeSeries series = session.timeSeriesFor("cities/2", "Snow");
            assertEquals(Arrays.asList(5L, 6L, 7L), minutes(series.get(at(5), at(7))));
        }
        try (IDocumentSession session = store.openSession()) {
            ISessionDocumentTimeSeries series = session.timeSeriesFor("cities/2", "Snow");
            assertEquals(Arrays.asList(10L, 11L, 12L), minutes(series.get(null, null, 10, 3)));
        }
        GetTimeSeriesOperation all = new GetTimeSeriesOperation("cities/2", "Snow");
        assertEquals(30L, store.operations().send(all).getTotalResults());
        TimeSeriesDetails several = store.operations().send(new GetMultipleTimeSeriesOperation("cities/2",
                Arrays.asList(new TimeSeriesRange("Snow", at(1), at(2)), new TimeSeriesRange("Snow", at(0), at(29)))));
        assertEquals(Arrays.asList(1L, 2L), minutes(several.getValues().get("Snow").get(0).getEntries()));
        assertNull(several.getValues().get("Snow").get(0).getTotalResults());
        assertEquals(30L, several.getValues().get("Snow").get(1).getTotalResults());
    }

    @Test
    void changesOfASeriesCanBeInAnyOrder() {
        city("cities/3");
        TimeSeriesOperation operation = new TimeSeriesOperation("Wind");
        for (long minute : new long[] {4, 0, 3, 1, 2}) {
            operation.append(new TimeSeriesOperation.AppendOperation(at(minute), new double[] {minute}, "guides/2"));
        }
        store.operations().send(new TimeSeriesBatchOperation("cities/3", operation));
        TimeSeriesOperation second = new TimeSeriesOperation("Wind");
        second.delete(new TimeSeriesOperation.DeleteOperation(at(4), null));
        store.operations().send(new TimeSeriesBatchOperation("cities/3", second));
        TimeSeriesItemDetail wind = store.operations().send(new GetTimeSeriesStatisticsOperation("cities/3"))
                .getTimeSeries().get(0);
        assertEquals("Wind", wind.getName());
        assertEquals(4, wind.getNumberOfEntries());
        assertEquals(Arrays.asList(at(0), at(3)), Arrays.asList(wind.getStartDate(), wind.getEndDate()));
        assertThrows(RavenException.class,
                () -> store.operations().send(new TimeSeriesBatchOperation("cities/none", operation)));
    }

    @Test
    void incrementalSeriesAreCounted() {
        city("cities/4");
        for (double[] values : new double[][] {{1, 10}, {2, -3}}) {
            try (IDocumentSession session = store.openSession()) {
                session.incrementalTimeSeriesFor("cities/4", "INC:Guests").increment(at(0), values);
                session.saveChanges();
            }
        }
        try (IDocumentSession session = store.openSession()) {
            TimeSeriesEntry[] entries = session.incrementalTimeSeriesFor("cities/4", "INC:Guests").get();
            assertEquals(1, entries.length);
            assertArrayEquals(new double[] {3, 7}, entries[0].getValues());
        }
    }

    @Test
    void rangesAreIncluded() {
        append("cities/5", "Snow", 10);
        try (IDocumentSession session = store.openSession()) {
            session.load(City.class, "cities/5", includes -> includes.includeTimeSeries("Snow", at(2), at(4)));
            assertEquals(Arrays.asList(2L, 3L, 4L),
                    minutes(session.timeSeriesFor("cities/5", "Snow").get(at(2), at(4))));
            assertEquals(1, session.advanced().getNumberOfRequests());
        }
        try (IDocumentSession session = store.openSession()) {
            session.query(City.class).whereEquals("id()", "cities/5")
                    .include(includes -> includes.includeTimeSeries("Snow", TimeSeriesRangeType.LAST, 3)).toList();
            assertEquals(Arrays.asList(7L, 8L, 9L),
                    minutes(session.timeSeriesFor("cities/5", "Snow").get(at(7), null)));
            assertEquals(1, session.advanced().getNumberOfRequests());
        }
    }

    @Test
    void bulkInsertsFillSeries() throws IOException {
        city("cities/6");
        try (BulkInsertOperation insert = store.bulkInsert();
             BulkInsertOperation.TimeSeriesBulkInsert series = insert.timeSeriesFor("cities/6", "Long")) {
            for (int minute = 0; minute < 3000; minute++) {
                series.append(at(minute), minute / 8.0, "tag");
            }
        }
        TimeSeriesEntry[] found =
                store.operations().send(new GetTimeSeriesOperation("cities/6", "Long")).getEntries();
        assertEquals(LongStream.range(0, 3000).boxed().collect(Collectors.toList()), minutes(found));
        assertEquals(2999 / 8.0, found[2999].getValue());
    }

    @Test
    void namedValuesAreAggregated() {
        store.timeSeries().register(City.class, Snow.class);
        city("cities/7");
        try (IDocumentSession session = store.openSession()) {
            for (int minute = 0; minute < 120; minute++) {
                Snow snow = new Snow();
                snow.depth = minute;
                snow.fresh = minute % 2;
                session.timeSeriesFor(Snow.class, "cities/7").append(at(minute), snow, "guides/1");
            }
            session.saveChanges();
        }
        try (IDocumentSession session = store.openSession()) {
            TypedTimeSeriesEntry<Snow>[] entries = session.timeSeriesFor(Snow.class, "cities/7").get(at(7), at(7));
            assertEquals(7, entries[0].getValue().depth);
            assertEquals(1, entries[0].getValue().fresh);
            TimeSeriesRawResult raw = session.query(City.class).whereEquals("id()", "cities/7")
                    .selectTimeSeries(TimeSeriesRawResult.class,
                            builder -> builder.raw("from Snows where depth >= 100 and fresh = 1"))
                    .first();
            assertEquals(10, raw.getCount());
            assertEquals(101, raw.asTypedResult(Snow.class).getResults()[0].getValue().depth);
            TimeSeriesAggregationResult hours = session.query(City.class).whereEquals("id()", "cities/7")
                    .selectTimeSeries(TimeSeriesAggregationResult.class,
                            builder -> builder.raw("from Snows group by '1 hour' select min(), max(), avg(), sum()"))
                    .first();
            assertEquals(120, hours.getCount());
            assertEquals(2, hours.getResults().length);
            assertEquals(at(60), hours.getResults()[1].getFrom());
            assertArrayEquals(new double[] {60, 0}, hours.getResults()[1].getMin());
            assertArrayEquals(new double[] {89.5, 0.5}, hours.getResults()[1].getAverage());
            assertArrayEquals(new long[] {60, 60}, hours.getResults()[1].getCount());
        }
    }

    @Test
    @DisabledIfEnvironmentVariable(named = "CORVUS_TEST_REFERENCE", matches = "1", disabledReason = "needs a licence")
    void policiesMakeRollupsAndDeleteWhatIsOld() throws InterruptedException {
        TimeSeriesPolicy byHour = new TimeSeriesPolicy("ByHour", TimeValue.ofHours(1), TimeValue.ofYears(100));
        TimeSeriesCollectionConfiguration clubs = new TimeSeriesCollectionConfiguration();
        clubs.setRawPolicy(new RawTimeSeriesPolicy(TimeValue.ofDays(1)));
        clubs.setPolicies(Arrays.asList(byHour));
        TimeSeriesConfiguration configuration = new TimeSeriesConfiguration();
        configuration.setCollections(new TreeMap<>(Map.of("Clubs", clubs)));
        configuration.setPolicyCheckFrequency(Duration.ofSeconds(1));
        store.maintenance().send(new ConfigureTimeSeriesOperation(configuration));
        try (IDocumentSession session = store.openSession()) {
            session.store(new Club(), "clubs/1");
            for (int minute = 0; minute < 120; minute++) {
                session.timeSeriesFor("clubs/1", "Snows").append(at(minute), new double[] {minute, 1});
            }
            session.saveChanges();
        }
        while (store.operations().send(new GetTimeSeriesOperation("clubs/1", "Snows")) != null) {
            Thread.sleep(100);
        }
        try (IDocumentSession session = store.openSession()) {
            TypedTimeSeriesRollupEntry<Snow>[] hours =
                    session.timeSeriesRollupFor(Snow.class, "clubs/1", "ByHour").get();
            assertEquals(2, hours.length);
            assertTrue(hours[1].isRollup());
            assertEquals(60, hours[1].getMin().depth);
            assertEquals(119, hours[1].getMax().depth);
            assertEquals(60, hours[1].getSum().fresh);
            TypedTimeSeriesRollupEntry<Snow> own = new TypedTimeSeriesRollupEntry<>(Snow.class, at(120));
            own.getMax().depth = 7;
            session.timeSeriesRollupFor(Snow.class, "clubs/1", "ByHour").append(own);
            session.saveChanges();
        }
        try (IDocumentSession session = store.openSession()) {
            assertEquals(7, session.timeSeriesRollupFor(Snow.class, "clubs/1", "ByHour").get()[2].getMax().depth);
            assertNotNull(session.load(Club.class, "clubs/1"));
            assertFalse(session.timeSeriesFor("clubs/1", byHour.getTimeSeriesName("Snows")).get().length == 0);
        }
        assertThrows(RavenException.class,
                () -> store.timeSeries().setRawPolicy("Clubs", TimeValue.ofMinutes(1)));
    }
}
