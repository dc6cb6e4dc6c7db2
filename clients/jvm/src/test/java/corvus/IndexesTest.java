package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.indexes.AbstractIndexCreationTask;
import net.ravendb.client.documents.indexes.AbstractJavaScriptIndexCreationTask;
import net.ravendb.client.documents.indexes.FieldIndexing;
import net.ravendb.client.documents.indexes.FieldStorage;
import net.ravendb.client.documents.indexes.IndexDefinition;
import net.ravendb.client.documents.indexes.IndexLockMode;
import net.ravendb.client.documents.operations.indexes.DeleteIndexOperation;
import net.ravendb.client.documents.operations.indexes.GetIndexNamesOperation;
import net.ravendb.client.documents.operations.indexes.GetIndexOperation;
import net.ravendb.client.documents.operations.indexes.GetIndexStatisticsOperation;
import net.ravendb.client.documents.operations.indexes.PutIndexesOperation;
import net.ravendb.client.documents.operations.indexes.SetIndexesLockOperation;
import net.ravendb.client.documents.queries.SearchOperator;
import net.ravendb.client.documents.session.IDocumentQuery;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.session.OrderingType;
import net.ravendb.client.documents.session.QueryStatistics;
import net.ravendb.client.exceptions.documents.compilation.IndexCompilationException;
import net.ravendb.client.primitives.Reference;

/** Queries that need an index: automatic ones, and definitions in C# and JavaScript. */
class IndexesTest extends DatabaseTest {
    @BeforeAll
    void storeDocuments() {
        try (IDocumentSession session = store.openSession()) {
            City bern = new City("Bern on the Aare", 134000);
            bern.setCountry("CH");
            bern.setTwins(Collections.singletonList("Vienna"));
            City basel = new City("Basel", 173000);
            basel.setCountry("CH");
            City berlin = new City("Berlin", 3600000);
            berlin.setCountry("DE");
            berlin.setTwins(Arrays.asList("Paris", "Vienna"));
            session.store(bern, "cities/bern");
            session.store(basel, "cities/basel");
            session.store(berlin, "cities/berlin");
            session.saveChanges();
        }
    }

    private static List<String> names(IDocumentQuery<City> query) {
        return query.waitForNonStaleResults().toList().stream().map(City::getName).collect(Collectors.toList());
    }

    @Test
    void conditionsFindDocumentsThroughAnAutomaticIndex() {
        try (IDocumentSession session = store.openSession()) {
            Reference<QueryStatistics> statistics = new Reference<>();
            IDocumentQuery<City> query = session.query(City.class)
                .statistics(statistics)
                .whereEquals("country", "ch")
                .andAlso()
                .whereGreaterThan("population", 150000);
            assertEquals(Collections.singletonList("Basel"), names(query));
            String index = statistics.value.getIndexName();
            assertTrue(index.startsWith("Auto/Cities/By") && index.contains("country") && index.contains("population"));
            assertEquals(1, statistics.value.getTotalResults());
        }
    }

    @Test
    void listsPrefixesWordsAndOrdersReturnTheMatchingDocuments() {
        try (IDocumentSession session = store.openSession()) {
            assertEquals(
                Arrays.asList("Berlin", "Bern on the Aare"),
                names(session.query(City.class).whereIn("twins", Arrays.asList("vienna")).orderBy("name")));
            assertEquals(
                Arrays.asList("Bern on the Aare", "Berlin"),
                names(session.query(City.class).whereStartsWith("name", "BER")
                    .orderBy("population", OrderingType.LONG)));
            assertEquals(
                Collections.singletonList("Bern on the Aare"),
                names(session.query(City.class).search("name", "aare bern", SearchOperator.AND)));
            assertEquals(
                Collections.singletonList("Berlin"),
                names(session.query(City.class).not().whereEquals("country", "CH")));
        }
    }

    public static class CitiesByTwin extends AbstractIndexCreationTask {
        public CitiesByTwin() {
            map = "docs.Cities.SelectMany(c => c.twins, (c, t) => new { twin = t, name = c.name })";
            index("name", FieldIndexing.SEARCH);
            store("twin", FieldStorage.YES);
        }
    }

    @Test
    void aDefinitionOfAClassIsStoredKeptUpToDateAndLocked() {
        new CitiesByTwin().execute(store);
        try (IDocumentSession session = store.openSession()) {
            IDocumentQuery<City> query = session.query(City.class, CitiesByTwin.class)
                .waitForNonStaleResults().whereEquals("twin", "Paris");
            assertEquals(Collections.singletonList("Berlin"), names(query));
        }
        assertEquals(3, store.maintenance().send(new GetIndexStatisticsOperation("CitiesByTwin")).getEntriesCount());
        store.maintenance().send(new SetIndexesLockOperation("CitiesByTwin", IndexLockMode.LOCKED_IGNORE));
        IndexDefinition stored = store.maintenance().send(new GetIndexOperation("CitiesByTwin"));
        assertEquals(IndexLockMode.LOCKED_IGNORE, stored.getLockMode());
        assertEquals(FieldIndexing.SEARCH, stored.getFields().get("name").getIndexing());
    }

    public static class CitiesInJavaScript extends AbstractJavaScriptIndexCreationTask {
        public CitiesInJavaScript() {
            setMaps(Collections.singleton("map('Cities', c => ({ size: c.population > 1000000 ? 'large' : 'small' }))"));
        }
    }

    @Test
    void aDefinitionInJavaScriptIsStoredAndKeptUpToDate() {
        new CitiesInJavaScript().execute(store);
        try (IDocumentSession session = store.openSession()) {
            IDocumentQuery<City> query = session.query(City.class, CitiesInJavaScript.class).whereEquals("size", "large");
            assertEquals(Collections.singletonList("Berlin"), names(query));
        }
    }

    @Test
    void anInvalidDefinitionIsRejectedAndADeletedOneNoLongerExists() {
        IndexDefinition bad = new IndexDefinition();
        bad.setName("Bad");
        bad.setMaps(Collections.singleton("from c in docs.Cities select new { c.name"));
        assertThrows(IndexCompilationException.class, () -> store.maintenance().send(new PutIndexesOperation(bad)));
        IndexDefinition good = new IndexDefinition();
        good.setName("Good");
        good.setMaps(Collections.singleton("from c in docs.Cities select new { c.name }"));
        store.maintenance().send(new PutIndexesOperation(good));
        store.maintenance().send(new DeleteIndexOperation("Good"));
        List<String> names = Arrays.asList(store.maintenance().send(new GetIndexNamesOperation(0, 100)));
        assertFalse(names.contains("Bad") || names.contains("Good"));
    }
}
