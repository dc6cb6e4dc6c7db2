package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;

import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.indexes.IndexDefinition;
import net.ravendb.client.documents.operations.compareExchange.CompareExchangeResult;
import net.ravendb.client.documents.operations.compareExchange.CompareExchangeValue;
import net.ravendb.client.documents.operations.compareExchange.DeleteCompareExchangeValueOperation;
import net.ravendb.client.documents.operations.compareExchange.GetCompareExchangeValueOperation;
import net.ravendb.client.documents.operations.compareExchange.GetCompareExchangeValuesOperation;
import net.ravendb.client.documents.operations.compareExchange.PutCompareExchangeValueOperation;
import net.ravendb.client.documents.operations.indexes.PutIndexesOperation;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.session.SessionOptions;
import net.ravendb.client.documents.session.TransactionMode;
import net.ravendb.client.exceptions.ClusterTransactionConcurrencyException;

/** Compare exchange and cluster-wide sessions: a change requires the newest version. */
class CompareExchangeTest extends DatabaseTest {
    private CompareExchangeResult<String> put(String key, String value, long index) {
        return store.operations().send(new PutCompareExchangeValueOperation<>(key, value, index));
    }

    private CompareExchangeValue<String> get(String key) {
        return store.operations().send(new GetCompareExchangeValueOperation<>(String.class, key));
    }

    private IDocumentSession clusterWide() {
        SessionOptions options = new SessionOptions();
        options.setTransactionMode(TransactionMode.CLUSTER_WIDE);
        return store.openSession(options);
    }

    @Test
    void aValueChangesOnlyIfItsNewestVersionIsGiven() {
        CompareExchangeResult<String> first = put("locks/1", "anna", 0);
        assertTrue(first.isSuccessful());
        CompareExchangeResult<String> refused = put("LOCKS/1", "bert", 0);
        assertFalse(refused.isSuccessful());
        assertEquals("anna", refused.getValue());
        assertEquals(first.getIndex(), refused.getIndex());
        CompareExchangeResult<String> second = put("locks/1", "bert", first.getIndex());
        assertTrue(second.isSuccessful());
        assertEquals("bert", get("Locks/1").getValue());
        assertTrue(store.operations().send(
            new DeleteCompareExchangeValueOperation<>(String.class, "locks/1", second.getIndex())).isSuccessful());
        assertNull(get("locks/1"));
    }

    @Test
    void valuesAreListedByPrefix() {
        for (String name : new String[] {"c", "a", "b"}) {
            put("listed/" + name, name, 0);
        }
        var found = store.operations().send(
            new GetCompareExchangeValuesOperation<>(String.class, "listed/", 1, 2));
        assertEquals(java.util.List.of("listed/b", "listed/c"), new ArrayList<>(found.keySet()));
    }

    @Test
    void aClusterWideSessionStoresDocumentsAndValuesTogether() {
        try (IDocumentSession session = clusterWide()) {
            session.store(new City("Bergen", 1), "together/1");
            session.advanced().clusterTransaction().createCompareExchangeValue("names/1", "together/1");
            session.saveChanges();
        }
        assertEquals("Bergen", Server.load(store, City.class, "together/1").getName());
        assertEquals("together/1", get("names/1").getValue());
    }

    @Test
    void aTakenNameRejectsTheWholeSession() {
        put("names/2", "somebody", 0);
        try (IDocumentSession session = clusterWide()) {
            session.store(new City("Oslo", 1), "refused/1");
            session.advanced().clusterTransaction().createCompareExchangeValue("names/2", "refused/1");
            assertThrows(ClusterTransactionConcurrencyException.class, session::saveChanges);
        }
        assertNull(Server.load(store, City.class, "refused/1"));
    }

    @Test
    void ofTwoClusterWideSessionsThatChangeOneDocumentTheSecondIsRefused() {
        try (IDocumentSession session = clusterWide()) {
            session.store(new City("Moss", 0), "guarded/1");
            session.saveChanges();
        }
        try (IDocumentSession a = clusterWide(); IDocumentSession b = clusterWide()) {
            a.load(City.class, "guarded/1").setPopulation(1);
            b.load(City.class, "guarded/1").setPopulation(2);
            a.saveChanges();
            assertThrows(ClusterTransactionConcurrencyException.class, b::saveChanges);
        }
        assertEquals(1, Server.load(store, City.class, "guarded/1").getPopulation());
    }

    @Test
    void aValueIsIncludedWithItsDocument() {
        put("Stavanger", "in the west", 0);
        Server.save(store, new City("Stavanger", 0), "along/1");
        try (IDocumentSession session = clusterWide()) {
            session.load(City.class, "along/1", includes -> includes.includeCompareExchangeValue("name"));
            int requests = session.advanced().getNumberOfRequests();
            CompareExchangeValue<String> value = session.advanced().clusterTransaction()
                .getCompareExchangeValue(String.class, "Stavanger");
            assertEquals("in the west", value.getValue());
            assertEquals(requests, session.advanced().getNumberOfRequests());
        }
    }

    @Test
    void valuesAreReadLazily() {
        put("lazy/1", "seven", 0);
        try (IDocumentSession session = clusterWide()) {
            var value = session.advanced().clusterTransaction().lazily()
                .getCompareExchangeValue(String.class, "lazy/1");
            assertEquals("seven", value.getValue().getValue());
        }
    }

    @Test
    void queriesAndIndexesReadValues() {
        try (IDocumentSession session = store.openSession()) {
            session.store(new City("Chur", 1), "ranked/1");
            session.store(new City("Arosa", 2), "ranked/2");
            session.saveChanges();
        }
        put("ranks/name", "Arosa", 0);
        assertEquals(List.of("Arosa"), names("from Cities where name = cmpxchg('ranks/name')"));
        IndexDefinition definition = new IndexDefinition();
        definition.setName("Cities/Ranks");
        definition.setMaps(Collections.singleton(
            "from c in docs.Cities select new { rank = LoadCompareExchangeValue(\"ranks/\" + c.name) }"));
        store.maintenance().send(new PutIndexesOperation(definition));
        String first = "from index 'Cities/Ranks' where rank = 'first'";
        assertEquals(List.of(), names(first));
        long index = put("ranks/Chur", "first", 0).getIndex();
        assertEquals(List.of("Chur"), names(first));
        put("ranks/Chur", "second", index);
        assertEquals(List.of(), names(first));
    }

    private List<String> names(String text) {
        try (IDocumentSession session = store.openSession()) {
            return session.advanced().rawQuery(City.class, text).waitForNonStaleResults().toList().stream()
                .map(City::getName).collect(Collectors.toList());
        }
    }
}
