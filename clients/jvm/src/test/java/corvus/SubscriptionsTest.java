package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.operations.revisions.ConfigureRevisionsOperation;
import net.ravendb.client.documents.operations.revisions.RevisionsCollectionConfiguration;
import net.ravendb.client.documents.operations.revisions.RevisionsConfiguration;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.subscriptions.Revision;
import net.ravendb.client.documents.subscriptions.SubscriptionBatch;
import net.ravendb.client.documents.subscriptions.SubscriptionCreationOptions;
import net.ravendb.client.documents.subscriptions.SubscriptionOpeningStrategy;
import net.ravendb.client.documents.subscriptions.SubscriptionWorker;
import net.ravendb.client.documents.subscriptions.SubscriptionWorkerOptions;
import net.ravendb.client.exceptions.documents.subscriptions.SubscriptionClosedException;
import net.ravendb.client.exceptions.documents.subscriptions.SubscriptionInUseException;

/** Data subscriptions: workers that receive changed documents. */
class SubscriptionsTest extends DatabaseTest {
    private static final int PATIENCE_SECONDS = 30;

    private String create(String query) {
        SubscriptionCreationOptions options = new SubscriptionCreationOptions();
        options.setQuery(query);
        return store.subscriptions().create(options);
    }

    private void save(String prefix, int first, int count) {
        try (IDocumentSession session = store.openSession()) {
            for (int number = first; number < first + count; number++) {
                City city = new City(prefix, number);
                session.store(city, prefix + "/" + number);
                session.advanced().getMetadataFor(city).put("@collection", prefix);
            }
            session.saveChanges();
        }
    }

    private static SubscriptionWorkerOptions options(String name) {
        return new SubscriptionWorkerOptions(name);
    }

    private static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
        T found = queue.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
        assertTrue(found != null, "nothing comes");
        return found;
    }

    private static Throwable failure(CompletableFuture<Void> task) {
        return assertThrows(ExecutionException.class, () -> task.get(PATIENCE_SECONDS, TimeUnit.SECONDS)).getCause();
    }

    @Test
    void documentsAreSentInOrder() throws Exception {
        save("Lakes", 0, 5);
        SubscriptionWorkerOptions options = options(create("from Lakes"));
        options.setMaxDocsPerBatch(3);
        BlockingQueue<String> ids = new LinkedBlockingQueue<>();
        BlockingQueue<Integer> sizes = new LinkedBlockingQueue<>();
        try (SubscriptionWorker<City> worker = store.subscriptions().getSubscriptionWorker(City.class, options)) {
            worker.run(batch -> {
                sizes.add(batch.getNumberOfItemsInBatch());
                batch.getItems().forEach(item -> ids.add(item.getId()));
            });
            for (int number = 0; number < 5; number++) {
                assertEquals("Lakes/" + number, next(ids));
            }
            assertEquals(3, next(sizes));
            assertEquals(2, next(sizes));
            save("Lakes", 5, 1);
            assertEquals("Lakes/5", next(ids));
        }
    }

    @Test
    void aConditionAProjectionAndIncludes() throws Exception {
        save("Rivers", 0, 4);
        String name = create("from Rivers as r where r.population > 2 select { population: r.population * 2, name: r.name }");
        BlockingQueue<Long> populations = new LinkedBlockingQueue<>();
        try (SubscriptionWorker<City> worker = store.subscriptions().getSubscriptionWorker(City.class, options(name))) {
            worker.run(batch -> batch.getItems().forEach(item -> populations.add(item.getResult().getPopulation())));
            assertEquals(6L, next(populations));
        }
    }

    @Test
    void strategies() throws Exception {
        save("Peaks", 0, 1);
        String name = create("from Peaks");
        BlockingQueue<String> ids = new LinkedBlockingQueue<>();
        try (SubscriptionWorker<City> first = store.subscriptions().getSubscriptionWorker(City.class, options(name));
             SubscriptionWorker<City> refused = store.subscriptions().getSubscriptionWorker(City.class, options(name))) {
            CompletableFuture<Void> firstTask = first.run(batch -> batch.getItems().forEach(item -> ids.add(item.getId())));
            assertEquals("Peaks/0", next(ids));
            assertInstanceOf(SubscriptionInUseException.class, failure(refused.run(batch -> { })));
            SubscriptionWorkerOptions takeOver = options(name);
            takeOver.setStrategy(SubscriptionOpeningStrategy.TAKE_OVER);
            try (SubscriptionWorker<City> taking = store.subscriptions().getSubscriptionWorker(City.class, takeOver)) {
                taking.run(batch -> batch.getItems().forEach(item -> ids.add("taken " + item.getId())));
                assertInstanceOf(SubscriptionInUseException.class, failure(firstTask));
                save("Peaks", 1, 1);
                assertEquals("taken Peaks/1", next(ids));
            }
        }
    }

    @Test
    void concurrentWorkersShareTheWork() throws Exception {
        save("Passes", 0, 40);
        String name = create("from Passes");
        BlockingQueue<String> ids = new LinkedBlockingQueue<>();
        List<SubscriptionWorker<City>> workers = new ArrayList<>();
        List<AtomicInteger> shares = new ArrayList<>();
        try {
            for (int number = 0; number < 3; number++) {
                SubscriptionWorkerOptions options = options(name);
                options.setStrategy(SubscriptionOpeningStrategy.CONCURRENT);
                options.setMaxDocsPerBatch(4);
                SubscriptionWorker<City> worker = store.subscriptions().getSubscriptionWorker(City.class, options);
                AtomicInteger share = new AtomicInteger();
                workers.add(worker);
                shares.add(share);
                worker.run(batch -> {
                    share.addAndGet(batch.getNumberOfItemsInBatch());
                    batch.getItems().forEach(item -> ids.add(item.getId()));
                    pause();
                });
            }
            Set<String> distinct = new HashSet<>();
            for (int number = 0; number < 40; number++) {
                assertTrue(distinct.add(next(ids)), "no document comes twice");
            }
            assertTrue(shares.stream().allMatch(share -> share.get() > 0), "everybody has something to do");
        } finally {
            workers.forEach(SubscriptionWorker::close);
        }
    }

    private static void pause() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped);
        }
    }

    @Test
    void aWorkerCanEndWhenNoDocumentsAreLeft() throws Exception {
        save("Caves", 0, 2);
        SubscriptionWorkerOptions options = options(create("from Caves"));
        options.setCloseWhenNoDocsLeft(true);
        BlockingQueue<SubscriptionBatch.Item<City>> items = new LinkedBlockingQueue<>();
        try (SubscriptionWorker<City> worker = store.subscriptions().getSubscriptionWorker(City.class, options)) {
            assertInstanceOf(SubscriptionClosedException.class, failure(worker.run(batch -> items.addAll(batch.getItems()))));
            assertEquals(2, items.size());
        }
    }

    @Test
    void revisionsAreSentWithThePreviousVersion() throws Exception {
        RevisionsConfiguration configuration = new RevisionsConfiguration();
        configuration.setDefaultConfig(new RevisionsCollectionConfiguration());
        store.maintenance().send(new ConfigureRevisionsOperation(configuration));
        save("Glaciers", 1, 1);
        try (IDocumentSession session = store.openSession()) {
            session.load(City.class, "Glaciers/1").setPopulation(7);
            session.saveChanges();
        }
        String name = create("from Glaciers (Revisions = true)");
        BlockingQueue<Revision<City>> revisions = new LinkedBlockingQueue<>();
        try (SubscriptionWorker<Revision<City>> worker = store.subscriptions()
                .getSubscriptionWorkerForRevisions(City.class, options(name))) {
            worker.run(batch -> batch.getItems().forEach(item -> revisions.add(item.getResult())));
            assertNull(next(revisions).getPrevious());
            Revision<City> second = next(revisions);
            assertEquals(List.of(1L, 7L), List.of(second.getPrevious().getPopulation(), second.getCurrent().getPopulation()));
        }
    }

    @Test
    void subscriptionsAreListedDisabledAndDeleted() throws Exception {
        String name = create("from Islands");
        assertTrue(store.subscriptions().getSubscriptions(0, 100).stream()
                .anyMatch(state -> state.getSubscriptionName().equals(name)));
        store.subscriptions().disable(name);
        try (SubscriptionWorker<City> worker = store.subscriptions().getSubscriptionWorker(City.class, options(name))) {
            assertInstanceOf(SubscriptionClosedException.class, failure(worker.run(batch -> { })));
        }
        store.subscriptions().enable(name);
        store.subscriptions().delete(name);
        assertThrows(Exception.class, () -> store.subscriptions().getSubscriptionState(name));
    }
}
