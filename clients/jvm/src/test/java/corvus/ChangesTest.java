package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Collections;
import java.util.Date;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Collectors;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.IDocumentStore;
import net.ravendb.client.documents.changes.CounterChange;
import net.ravendb.client.documents.changes.DocumentChange;
import net.ravendb.client.documents.changes.IChangesObservable;
import net.ravendb.client.documents.changes.IDatabaseChanges;
import net.ravendb.client.documents.changes.IndexChange;
import net.ravendb.client.documents.changes.IndexChangeTypes;
import net.ravendb.client.documents.changes.Observers;
import net.ravendb.client.documents.changes.OperationStatusChange;
import net.ravendb.client.documents.changes.TimeSeriesChange;
import net.ravendb.client.documents.indexes.IndexDefinition;
import net.ravendb.client.documents.operations.Operation;
import net.ravendb.client.documents.operations.PatchByQueryOperation;
import net.ravendb.client.documents.operations.indexes.DeleteIndexOperation;
import net.ravendb.client.documents.operations.indexes.PutIndexesOperation;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.primitives.CleanCloseable;

/** The Changes API and its users: documents, indexes, operations, and aggressive caching. */
class ChangesTest extends DatabaseTest {
    private static final long MILLISECONDS_MAX = 15_000;
    private static final int OPERATIONS_MAX = 20;

    private IDatabaseChanges changes;

    @BeforeAll
    void connect() {
        changes = store.changes();
        changes.ensureConnectedNow();
    }

    @AfterAll
    void disconnect() {
        changes.close();
    }

    /** What an observable reports, once its watch has started. */
    private static final class Listener<T> implements AutoCloseable {
        private final List<T> received = new CopyOnWriteArrayList<>();
        private final CleanCloseable subscription;

        Listener(IChangesObservable<T> observable) {
            subscription = observable.subscribe(Observers.create(received::add));
        }

        List<T> until(Predicate<List<T>> done) throws InterruptedException {
            assertTrue(comesTo(done, MILLISECONDS_MAX), () -> "received so far: " + received.size());
            return received;
        }

        boolean comesTo(Predicate<List<T>> done, long millisecondsMax) throws InterruptedException {
            long deadline = System.currentTimeMillis() + millisecondsMax;
            while (!done.test(received)) {
                if (deadline <= System.currentTimeMillis()) return false;
                Thread.sleep(20);
            }
            return true;
        }

        <R> List<R> each(Function<T, R> shown) {
            return received.stream().map(shown).collect(Collectors.toList());
        }

        @Override
        public void close() {
            subscription.close();
        }
    }

    @Test
    void oneDocumentIsWatchedInAnyCaseOfItsId() throws InterruptedException {
        try (Listener<DocumentChange> listener = new Listener<>(changes.forDocument("CITIES/1"))) {
            Server.save(store, new City("Chur", 1), "cities/1");
            Server.save(store, new City("Bern", 2), "cities/2");
            Server.remove(store, "cities/1");
            listener.until(received -> received.size() >= 2);
            List<String> shown = listener.each(
                    change -> change.getType() + " " + change.getId() + " " + change.getCollectionName());
            assertEquals(List.of("PUT cities/1 Cities", "DELETE cities/1 Cities"), shown);
        }
    }

    @Test
    void documentsAreWatchedByPrefixByCollectionAndAll() throws InterruptedException {
        try (Listener<DocumentChange> byPrefix = new Listener<>(changes.forDocumentsStartingWith("Towns/"));
                Listener<DocumentChange> byCollection = new Listener<>(changes.forDocumentsInCollection("cities"));
                Listener<DocumentChange> all = new Listener<>(changes.forAllDocuments())) {
            Server.save(store, new City("Thusis", 3), "towns/1");
            Server.save(store, new City("Ilanz", 4), "others/1");
            Server.save(store, new City("End", 0), "end/1");
            all.until(received -> all.each(DocumentChange::getId).contains("end/1"));
            assertEquals(List.of("towns/1"), byPrefix.each(DocumentChange::getId));
            assertEquals(List.of("towns/1", "others/1", "end/1"), byCollection.each(DocumentChange::getId));
            assertEquals(List.of("towns/1", "others/1", "end/1"), all.each(DocumentChange::getId));
        }
    }

    @Test
    void changesOfAnIndexAreReported() throws InterruptedException {
        try (Listener<IndexChange> listener = new Listener<>(changes.forIndex("Cities/ByName"))) {
            IndexDefinition definition = new IndexDefinition();
            definition.setName("Cities/ByName");
            definition.setMaps(Collections.singleton("from c in docs.Cities select new { c.name }"));
            store.maintenance().send(new PutIndexesOperation(definition));
            listener.until(received -> listener.each(IndexChange::getType).contains(IndexChangeTypes.BATCH_COMPLETED));
            store.maintenance().send(new DeleteIndexOperation("Cities/ByName"));
            listener.until(received -> listener.each(IndexChange::getType).contains(IndexChangeTypes.INDEX_REMOVED));
            assertEquals(IndexChangeTypes.INDEX_ADDED, listener.each(IndexChange::getType).get(0));
        }
    }

    @Test
    void anOperationIsReportedUntilItCompletes() throws InterruptedException {
        Server.save(store, new City("Arosa", 5), "patched/1");
        try (Listener<OperationStatusChange> listener = new Listener<>(changes.forAllOperations())) {
            Operation operation =
                    store.operations().sendAsync(new PatchByQueryOperation("from Cities update { this.seen = true }"));
            operation.waitForCompletion();
            listener.until(received -> received.stream()
                    .anyMatch(change -> change.getState().get("Status").asText().equals("Completed")));
        }
    }

    @Test
    void oneOperationIsReportedUntilItCompletes() throws InterruptedException {
        Server.save(store, new City("Aarau", 5), "patched/2");
        // The end of an operation is sent only to its current watchers. A short operation may end before
        // its id is known here; then the test follows another one.
        boolean isFollowed = false;
        for (int attempt = 0; attempt < OPERATIONS_MAX && !isFollowed; attempt++) {
            Operation operation = store.operations()
                    .sendAsync(new PatchByQueryOperation("from Cities update { this.again = " + attempt + " }"));
            try (Listener<OperationStatusChange> listener =
                    new Listener<>(changes.forOperationId(operation.getId()))) {
                isFollowed = listener.comesTo(
                        received -> received.stream()
                                .anyMatch(change -> change.getState().get("Status").asText().equals("Completed")),
                        1000);
                assertTrue(listener.received.stream().allMatch(change -> change.getOperationId() == operation.getId()));
            }
        }
        assertTrue(isFollowed);
    }

    private void count(String id, String name) {
        try (IDocumentSession session = store.openSession()) {
            session.countersFor(id).increment(name, 1);
            session.saveChanges();
        }
    }

    @Test
    void countersAreWatched() throws InterruptedException {
        Server.save(store, new City("Chur", 1), "counted/1");
        Server.save(store, new City("Bern", 2), "counted/2");
        try (Listener<CounterChange> one = new Listener<>(changes.forCounterOfDocument("counted/1", "Guests"));
                Listener<CounterChange> named = new Listener<>(changes.forCounter("Guests"));
                Listener<CounterChange> ofDocument = new Listener<>(changes.forCountersOfDocument("counted/1"));
                Listener<CounterChange> all = new Listener<>(changes.forAllCounters())) {
            count("counted/1", "Guests");
            count("counted/1", "Guests");
            count("counted/2", "Guests");
            count("counted/1", "Beds");
            all.until(received -> received.size() >= 4);
            Function<CounterChange, String> shown =
                    change -> change.getDocumentId() + " " + change.getName() + " " + change.getType() + " " + change.getValue();
            assertEquals(List.of("counted/1 Guests PUT 1", "counted/1 Guests INCREMENT 2", "counted/2 Guests PUT 1",
                    "counted/1 Beds PUT 1"), all.each(shown));
            assertEquals(all.each(shown).subList(0, 2), one.each(shown));
            assertEquals(all.each(shown).subList(0, 3), named.each(shown));
            assertEquals(List.of("counted/1 Guests PUT 1", "counted/1 Guests INCREMENT 2", "counted/1 Beds PUT 1"),
                    ofDocument.each(shown));
        }
    }

    private void append(String id, String name, int day) {
        try (IDocumentSession session = store.openSession()) {
            session.timeSeriesFor(id, name).append(new Date(1_767_225_600_000L + day * 86_400_000L), day);
            session.saveChanges();
        }
    }

    @Test
    void timeSeriesAreWatched() throws InterruptedException {
        Server.save(store, new City("Chur", 1), "measured/1");
        Server.save(store, new City("Bern", 2), "measured/2");
        try (Listener<TimeSeriesChange> one = new Listener<>(changes.forTimeSeriesOfDocument("measured/1", "Snow"));
                Listener<TimeSeriesChange> named = new Listener<>(changes.forTimeSeries("Snow"));
                Listener<TimeSeriesChange> ofDocument = new Listener<>(changes.forTimeSeriesOfDocument("measured/1"));
                Listener<TimeSeriesChange> all = new Listener<>(changes.forAllTimeSeries())) {
            append("measured/1", "Snow", 1);
            append("measured/2", "Snow", 2);
            append("measured/1", "Wind", 3);
            all.until(received -> received.size() >= 3);
            Function<TimeSeriesChange, String> shown =
                    change -> change.getDocumentId() + " " + change.getName() + " " + change.getType();
            assertEquals(List.of("measured/1 Snow PUT", "measured/2 Snow PUT", "measured/1 Wind PUT"), all.each(shown));
            assertEquals(List.of("measured/1 Snow PUT"), one.each(shown));
            assertEquals(List.of("measured/1 Snow PUT", "measured/2 Snow PUT"), named.each(shown));
            assertEquals(List.of("measured/1 Snow PUT", "measured/1 Wind PUT"), ofDocument.each(shown));
        }
    }

    @Test
    void cachedResponsesAreInvalidatedByChangesOfOtherClients() throws InterruptedException {
        Server.save(store, new City("Davos", 1), "kept/1");
        try (IDocumentStore reader = Server.open(store.getDatabase())) {
            assertEquals(1, populationKept(reader));
            long before = reader.getRequestExecutor().numberOfServerRequests.get();
            assertEquals(1, populationKept(reader));
            assertEquals(before, reader.getRequestExecutor().numberOfServerRequests.get(), "it is kept");
            try (IDocumentSession session = store.openSession()) {
                session.load(City.class, "kept/1").setPopulation(2);
                session.saveChanges();
            }
            long deadline = System.currentTimeMillis() + MILLISECONDS_MAX;
            while (populationKept(reader) != 2) {
                assertTrue(System.currentTimeMillis() < deadline, "the change was not reported");
                Thread.sleep(20);
            }
        }
    }

    private static long populationKept(IDocumentStore reader) {
        try (CleanCloseable kept = reader.aggressivelyCacheFor(Duration.ofHours(1));
                IDocumentSession session = reader.openSession()) {
            return session.load(City.class, "kept/1").getPopulation();
        }
    }
}
