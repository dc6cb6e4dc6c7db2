package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.DocumentStore;
import net.ravendb.client.documents.IDocumentStore;
import net.ravendb.client.documents.operations.compareExchange.CompareExchangeResult;
import net.ravendb.client.documents.operations.compareExchange.CompareExchangeValue;
import net.ravendb.client.documents.operations.compareExchange.GetCompareExchangeValueOperation;
import net.ravendb.client.documents.operations.compareExchange.PutCompareExchangeValueOperation;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.session.SessionOptions;
import net.ravendb.client.documents.session.TransactionMode;
import net.ravendb.client.documents.subscriptions.SubscriptionCreationOptions;
import net.ravendb.client.documents.subscriptions.SubscriptionWorker;
import net.ravendb.client.documents.subscriptions.SubscriptionWorkerOptions;

/**
 * Works on a database of three nodes while clients/node/cluster/through_faults.mjs kills and pauses them. An application
 * sees no error, and the subscription sends every document. Run separately, by clients/run.
 */
class ThroughFaults {
    private static final int SECONDS_MAX = 60;
    private static final int WRITERS = 3;
    /** A node that does not answer for so long is taken for dead; without it a client waits for a paused node. */
    private static final Duration REQUEST_TIME_MAX = Duration.ofSeconds(2);

    private final List<String> kept = new CopyOnWriteArrayList<>();
    private final Set<String> received = ConcurrentHashMap.newKeySet();
    private final AtomicInteger exchanged = new AtomicInteger();
    private final AtomicInteger clusterWide = new AtomicInteger();

    private static boolean isOver() {
        return Files.exists(Path.of(System.getenv("CORVUS_TEST_FAULTS_OVER")));
    }

    private static IDocumentStore open() {
        String[] urls = System.getenv("CORVUS_TEST_URLS").split(",");
        DocumentStore store = new DocumentStore(urls, System.getenv("CORVUS_TEST_DATABASE"));
        store.getConventions().setRequestTimeout(REQUEST_TIME_MAX);
        return store.initialize();
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped);
        }
    }

    private static void until(BooleanSupplier condition, String what) {
        long deadline = System.currentTimeMillis() + SECONDS_MAX * 1000L;
        while (!condition.getAsBoolean()) {
            assertTrue(System.currentTimeMillis() < deadline, "it takes too long: " + what);
            pause(50);
        }
    }

    private synchronized void note(String id) {
        try {
            Path file = Path.of(System.getenv("CORVUS_TEST_ACKNOWLEDGED"));
            Files.writeString(file, id + "\n", StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        kept.add(id);
    }

    /** Documents that count as written once two of the three nodes have them. */
    private void write(int writer) {
        try (IDocumentStore store = open()) {
            for (int number = 0; !isOver(); number++) {
                String id = "kept/" + writer + "-" + number;
                try (IDocumentSession session = store.openSession()) {
                    session.advanced().waitForReplicationAfterSaveChanges(wait ->
                            wait.majority(true).throwOnTimeout(true).withTimeout(Duration.ofSeconds(15)));
                    session.store(new City("Bern", number), id);
                    session.saveChanges();
                }
                note(id);
                pause(5);
            }
        }
    }

    /** Adds 1 to a value, again and again: nobody else changes it, so no change is refused or lost. */
    private void exchange() {
        try (IDocumentStore store = open()) {
            long index = 0;
            for (int value = 1; !isOver(); value++) {
                CompareExchangeResult<Integer> put =
                        store.operations().send(new PutCompareExchangeValueOperation<>("value", value, index));
                assertTrue(put.isSuccessful(), "value " + value + " was refused");
                index = put.getIndex();
                CompareExchangeValue<Integer> found =
                        store.operations().send(new GetCompareExchangeValueOperation<>(Integer.class, "value"));
                assertEquals(value, found.getValue());
                exchanged.incrementAndGet();
                pause(20);
            }
        }
    }

    private void writeClusterWide() {
        try (IDocumentStore store = open()) {
            for (int number = 0; !isOver(); number++) {
                SessionOptions options = new SessionOptions();
                options.setTransactionMode(TransactionMode.CLUSTER_WIDE);
                try (IDocumentSession session = store.openSession(options)) {
                    session.advanced().clusterTransaction().createCompareExchangeValue("unique/" + number, number);
                    session.store(new City("Olten", number), "unique/" + number);
                    session.saveChanges();
                }
                clusterWide.incrementAndGet();
                pause(50);
            }
        }
    }

    @Test
    void noApplicationSeesAFault() {
        try (IDocumentStore store = open()) {
            SubscriptionCreationOptions creation = new SubscriptionCreationOptions();
            creation.setQuery("from Cities where startsWith(id(), 'kept/')");
            SubscriptionWorkerOptions options = new SubscriptionWorkerOptions(store.subscriptions().create(creation));
            options.setMaxDocsPerBatch(64);
            options.setTimeToWaitBeforeConnectionRetry(Duration.ofMillis(200));
            options.setMaxErroneousPeriod(Duration.ofSeconds(120));
            try (SubscriptionWorker<City> worker = store.subscriptions().getSubscriptionWorker(City.class, options)) {
                CompletableFuture<Void> task =
                        worker.run(batch -> batch.getItems().forEach(item -> received.add(item.getId())));
                List<CompletableFuture<Void>> work = new ArrayList<>();
                ExecutorService threads = Executors.newCachedThreadPool();
                for (int number = 0; number < WRITERS; number++) {
                    int writer = number;
                    work.add(CompletableFuture.runAsync(() -> write(writer), threads));
                }
                work.add(CompletableFuture.runAsync(this::exchange, threads));
                work.add(CompletableFuture.runAsync(this::writeClusterWide, threads));
                CompletableFuture<Void> all = CompletableFuture.allOf(work.toArray(new CompletableFuture<?>[0]));
                until(() -> all.isCompletedExceptionally()
                        || !kept.isEmpty() && 0 < exchanged.get() && 0 < clusterWide.get(), "all of them to work");
                System.out.println("working");
                all.join();
                threads.shutdown();
                until(() -> task.isDone() || received.containsAll(kept), "every document from the subscription");
                assertTrue(received.containsAll(kept), "the worker gave up");
            }
        }
        System.out.println(kept.size() + " written, " + exchanged + " exchanged, " + clusterWide + " cluster-wide");
    }
}
