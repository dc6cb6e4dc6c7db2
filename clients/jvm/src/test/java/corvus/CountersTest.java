package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.BulkInsertOperation;
import net.ravendb.client.documents.operations.counters.CounterBatch;
import net.ravendb.client.documents.operations.counters.CounterBatchOperation;
import net.ravendb.client.documents.operations.counters.CounterOperation;
import net.ravendb.client.documents.operations.counters.CounterOperationType;
import net.ravendb.client.documents.operations.counters.CountersDetail;
import net.ravendb.client.documents.operations.counters.DocumentCountersOperation;
import net.ravendb.client.documents.operations.counters.GetCountersOperation;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.exceptions.documents.DocumentDoesNotExistException;

/** Counters: incremented by sessions, operations and bulk inserts, included with documents and queries. */
class CountersTest extends DatabaseTest {
    @BeforeEach
    void store() {
        try (IDocumentSession session = store.openSession()) {
            if (session.load(City.class, "cities/1") == null) {
                session.store(new City("Chur", 1), "cities/1");
                session.store(new City("Brig", 2), "cities/2");
                session.saveChanges();
            }
        }
    }

    private void count(String id, String name, long by) {
        try (IDocumentSession session = store.openSession()) {
            session.countersFor(id).increment(name, by);
            session.saveChanges();
        }
    }

    private Map<String, Long> allOf(String id) {
        try (IDocumentSession session = store.openSession()) {
            return new TreeMap<>(session.countersFor(id).getAll());
        }
    }

    private static DocumentCountersOperation operations(String id, CounterOperation... operations) {
        DocumentCountersOperation all = new DocumentCountersOperation();
        all.setDocumentId(id);
        all.setOperations(new ArrayList<>(Arrays.asList(operations)));
        return all;
    }

    @Test
    void aSessionChangesCountersAndAnotherOneReadsThem() {
        count("cities/1", "guests", 40);
        count("cities/1", "guests", -5);
        count("cities/1", "nights", 1);
        assertEquals("{guests=35, nights=1}", allOf("cities/1").toString());
        try (IDocumentSession session = store.openSession()) {
            City city = session.load(City.class, "cities/1");
            assertEquals(Arrays.asList("guests", "nights"), session.advanced().getCountersFor(city));
            session.countersFor(city).delete("nights");
            session.saveChanges();
        }
        assertEquals("{guests=35}", allOf("cities/1").toString());
    }

    @Test
    void operationsIncrementCountersOfSeveralDocuments() {
        CounterBatch batch = new CounterBatch();
        batch.setDocuments(Arrays.asList(
                operations("cities/1", CounterOperation.create("views", CounterOperationType.INCREMENT, 5)),
                operations("cities/2", CounterOperation.create("views", CounterOperationType.INCREMENT, 7))));
        store.operations().send(new CounterBatchOperation(batch));
        CountersDetail details =
                store.operations().send(new GetCountersOperation("cities/2", new String[] {"views"}, true));
        assertEquals(7, details.getCounters().get(0).getTotalValue());
        List<Long> values = new ArrayList<>(details.getCounters().get(0).getCounterValues().values());
        assertEquals(Collections.singletonList(7L), values);
        assertNull(store.operations().send(new GetCountersOperation("cities/2", "nothing")).getCounters().get(0));
    }

    @Test
    void countersAreIncludedWithDocumentsAndQueries() {
        count("cities/1", "likes", 3);
        try (IDocumentSession session = store.openSession()) {
            City city = session.load(City.class, "cities/1", includes -> includes.includeCounter("likes"));
            int requests = session.advanced().getNumberOfRequests();
            assertEquals(3, session.countersFor(city).get("likes"));
            assertEquals(requests, session.advanced().getNumberOfRequests());
        }
        try (IDocumentSession session = store.openSession()) {
            session.query(City.class).include(includes -> includes.includeCounter("likes")).toList();
            int requests = session.advanced().getNumberOfRequests();
            assertEquals(3, session.countersFor("cities/1").get("likes"));
            assertNull(session.countersFor("cities/2").get("likes"));
            assertEquals(requests, session.advanced().getNumberOfRequests());
        }
    }

    @Test
    void bulkInsertsIncrementCounters() {
        try (BulkInsertOperation insert = store.bulkInsert()) {
            insert.store(new City("Sion", 3), "cities/3");
            for (int number = 0; number < 100; number++) {
                insert.countersFor("cities/3").increment("c" + number % 10, number);
            }
        }
        assertEquals(10, allOf("cities/3").size());
        assertEquals(7 + 17 + 27 + 37 + 47 + 57 + 67 + 77 + 87 + 97, allOf("cities/3").get("c7"));
    }

    @Test
    void aCounterOfAMissingDocumentIsRefused() {
        assertThrows(DocumentDoesNotExistException.class, () -> count("cities/none", "guests", 1));
    }
}
