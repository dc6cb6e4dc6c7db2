package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.indexes.AbstractCommonApiForIndexes;
import net.ravendb.client.documents.indexes.AbstractIndexCreationTask;
import net.ravendb.client.documents.indexes.AbstractJavaScriptIndexCreationTask;
import net.ravendb.client.documents.indexes.AbstractMultiMapIndexCreationTask;
import net.ravendb.client.documents.queries.GroupBy;
import net.ravendb.client.documents.session.GroupByField;
import net.ravendb.client.documents.session.IDocumentQuery;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.session.OrderingType;

/** Map-reduce: indexes with a reduce in C# and JavaScript, over several collections, and group by in queries. */
class MapReduceTest extends HutsTest {
    public static class HutsByRegion extends AbstractIndexCreationTask {
        public HutsByRegion() {
            map = "from h in docs.Huts select new { key = h.region, count = 1, beds = h.beds }";
            reduce = "from r in results group r by r.key into g "
                + "select new { key = g.Key, count = g.Sum(x => x.count), beds = g.Sum(x => x.beds) }";
        }
    }

    public static class HutsByTag extends AbstractJavaScriptIndexCreationTask {
        public HutsByTag() {
            setMaps(Collections.singleton("map('Huts', h => { if (!h.tags) return null; "
                + "return h.tags.map(t => { return { key: t, count: 1, beds: h.beds }; }); })"));
            setReduce("groupBy(x => x.key).aggregate(g => { return { key: g.key, "
                + "count: g.values.reduce((n, x) => n + x.count, 0), "
                + "beds: g.values.reduce((n, x) => n + x.beds, 0) }; })");
        }
    }

    public static class BedsByClub extends AbstractMultiMapIndexCreationTask {
        public BedsByClub() {
            addMap("from h in docs.Huts select new { key = h.club, count = 1, beds = h.beds }");
            addMap("from c in docs.Clubs select new { key = Id(c), count = 0, beds = 0 }");
            reduce = "from r in results group r by r.key into g "
                + "select new { key = g.Key, count = g.Sum(x => x.count), beds = g.Sum(x => x.beds) }";
        }
    }

    /** The club is a separate document, so a hut's row depends on two documents. */
    public static class BedsByClubName extends AbstractIndexCreationTask {
        public BedsByClubName() {
            map = "docs.Huts.Select(h => new { h = h, c = this.LoadDocument(h.club, \"Clubs\") })"
                + ".Where(this0 => this0.c != null)"
                + ".Select(this0 => new { key = this0.c.name, count = 1, beds = this0.h.beds })";
            reduce = "results.GroupBy(r => r.key).Select(g => new { key = g.Key, "
                + "count = Enumerable.Sum(g, x => ((int) x.count)), beds = Enumerable.Sum(g, x => ((int) x.beds)) })";
        }
    }

    /** A definition that is sent twice, with different factors. */
    public static class BedsReplaced extends AbstractIndexCreationTask {
        public BedsReplaced() {
            this(1);
        }

        BedsReplaced(int factor) {
            map = "from h in docs.Huts select new { key = h.region, count = 1, beds = h.beds * " + factor + " }";
            reduce = "from r in results group r by r.key into g "
                + "select new { key = g.Key, count = g.Sum(x => x.count), beds = g.Max(x => x.beds) }";
        }
    }

    /** A group: its key, and its counts or sums. */
    public static class Group {
        public String key;
        public long count;
        public long beds;

        @Override
        public String toString() {
            return key + " " + count + " " + beds;
        }
    }

    @BeforeAll
    void storeIndexes() {
        new HutsByRegion().execute(store);
        new HutsByTag().execute(store);
        new BedsByClub().execute(store);
        new BedsByClubName().execute(store);
    }

    private <I extends AbstractCommonApiForIndexes> List<String> groups(
            Class<I> index, Function<IDocumentQuery<Group>, IDocumentQuery<Group>> condition) {
        try (IDocumentSession session = store.openSession()) {
            return texts(condition.apply(session.query(Group.class, index)));
        }
    }

    private Set<String> grouped(Function<IDocumentQuery<Hut>, IDocumentQuery<Hut>> query) {
        try (IDocumentSession session = store.openSession()) {
            return Set.copyOf(texts(query.apply(session.query(Hut.class)).ofType(Group.class)));
        }
    }

    private static List<String> texts(IDocumentQuery<Group> query) {
        return query.waitForNonStaleResults().toList().stream().map(Group::toString).collect(Collectors.toList());
    }

    @Test
    void anIndexInCSharpSumsByKeyAndKeepsTheCaseOfKeys() {
        assertEquals(List.of("null 1 6", "valais 1 134", "Grisons 2 170", "Valais 2 250", "Bern 2 253"),
            groups(HutsByRegion.class, q -> q.orderBy("beds", OrderingType.LONG)));
        assertEquals(List.of("Valais 2 250"), groups(HutsByRegion.class, q -> q.whereGreaterThan("count", 1)
            .orderByDescending("beds", OrderingType.LONG).skip(1).take(1)));
    }

    @Test
    void sumsAreUpdatedByPutsMovesAndDeletes() {
        Server.save(store, Hut.of("New", "Ticino", 1, 10, null, null), "huts/new");
        Server.save(store, Hut.of("Newer", "Ticino", 1, 10, null, null), "huts/newer");
        assertEquals(List.of("Ticino 2 20"), groups(HutsByRegion.class, q -> q.whereEquals("key", "ticino")));
        Server.save(store, Hut.of("New", "Uri", 1, 10, null, null), "huts/new");
        assertEquals(List.of("Ticino 1 10"), groups(HutsByRegion.class, q -> q.whereEquals("key", "ticino")));
        assertEquals(List.of("Uri 1 10"), groups(HutsByRegion.class, q -> q.whereEquals("key", "uri")));
        Server.remove(store, "huts/new");
        Server.remove(store, "huts/newer");
        assertEquals(List.of(), groups(HutsByRegion.class, q -> q.whereIn("key", List.of("ticino", "uri"))));
    }

    @Test
    void anIndexInJavaScriptSumsTheItemsOfLists() {
        assertEquals(List.of("climbing 2 210", "glacier 4 472", "ski 2 249", "winter 2 235"),
            groups(HutsByTag.class, q -> q.orderBy("key")));
    }

    @Test
    void anIndexOverTwoCollectionsJoinsThemByKey() {
        assertEquals(List.of("null 1 6", "clubs/alpine 5 587", "clubs/guides 1 130", "clubs/nobody 1 90"),
            groups(BedsByClub.class, q -> q.orderBy("key")));
    }

    @Test
    void resultsAreStreamed() {
        groups(BedsByClub.class, q -> q);
        List<Long> beds = new ArrayList<>();
        try (IDocumentSession session = store.openSession();
            var stream = session.advanced().stream(
                session.query(Group.class, BedsByClub.class).orderBy("beds", OrderingType.LONG))) {
            stream.forEachRemaining(row -> beds.add(row.getDocument().beds));
        }
        assertEquals(List.of(6L, 90L, 130L, 587L), beds);
    }

    @Test
    void groupByCountsSumsAndFilters() {
        assertEquals(Set.of("Valais 2 0", "valais 1 0", "Bern 2 0", "Grisons 2 0", "null 1 0"),
            grouped(q -> q.groupBy("region").selectKey("region", "key").selectCount("count")));
        assertEquals(Set.of("Bern 0 253"), grouped(q -> q.groupBy("region").selectKey("region", "key")
            .selectSum(new GroupByField("beds")).whereEquals("region", "bern")));
        assertEquals(Set.of("Valais 2 0", "Bern 2 0", "Grisons 2 0"),
            grouped(q -> q.groupBy("region").selectKey("region", "key").selectCount("count")
                .whereGreaterThan("count", 1)));
    }

    @Test
    void groupsByTwoKeysItemsAndWholeLists() {
        assertTrue(grouped(q -> q.groupBy("region", "club").selectKey("club", "key").selectCount("count"))
            .contains("clubs/guides 1 0"));
        assertEquals(Set.of("glacier 4 0", "winter 2 0", "climbing 2 0", "ski 2 0", "null 1 0"),
            grouped(q -> q.groupBy("tags[]").selectKey("tags[]", "key").selectCount("count")));
        assertEquals(Set.of("null 1 0"),
            grouped(q -> q.groupBy(GroupBy.array("tags")).selectCount("count")));
    }

    @Test
    void aGroupIsUpdatedWhenItsDocumentsChange() {
        assertEquals(List.of("Alpine Club 5 587", "Guides of Zermatt 1 130"),
            groups(BedsByClubName.class, q -> q.orderBy("key")));
        try (IDocumentSession session = store.openSession()) {
            session.load(Club.class, "clubs/guides").name = "Zermatt Guides";
            session.saveChanges();
        }
        assertEquals(List.of("Alpine Club 5 587", "Zermatt Guides 1 130"),
            groups(BedsByClubName.class, q -> q.orderBy("key")));
    }

    @Test
    void theOldDefinitionAnswersUntilTheChangedOneHasCaughtUp() {
        new BedsReplaced().execute(store);
        Set<String> before = Set.of("Valais 2 130", "valais 1 134", "Bern 2 138", "Grisons 2 90", "null 1 6");
        assertEquals(before, Set.copyOf(groups(BedsReplaced.class, q -> q)));
        new BedsReplaced(10).execute(store);
        Set<String> after = Set.of("Valais 2 1300", "valais 1 1340", "Bern 2 1380", "Grisons 2 900", "null 1 60");
        Set<String> found = Set.copyOf(groups(BedsReplaced.class, q -> q));
        while (!found.equals(after)) {
            assertEquals(before, found);
            found = Set.copyOf(groups(BedsReplaced.class, q -> q));
        }
    }

    @Test
    void groupsAreOrderedAndFilteredBySums() {
        try (IDocumentSession session = store.openSession()) {
            assertEquals(List.of("Bern 0 253", "Valais 0 250", "Grisons 0 170"),
                texts(session.query(Hut.class).groupBy("region").selectKey("region", "key")
                    .selectSum(new GroupByField("beds")).whereGreaterThan("beds", 134)
                    .orderByDescending("beds", OrderingType.LONG).ofType(Group.class)));
        }
    }

    @Test
    void groupsAreProjectedByAScript() {
        try (IDocumentSession session = store.openSession()) {
            List<Group> rows = session.advanced().rawQuery(Group.class, "from Huts as h group by h.region "
                + "where region = $region select { key: key(), count: count(), beds: sum(x => x.beds) * 2 }")
                .addParameter("region", "Bern").waitForNonStaleResults().toList();
            assertEquals("Bern 2 506", rows.get(0).toString());
        }
    }
}
