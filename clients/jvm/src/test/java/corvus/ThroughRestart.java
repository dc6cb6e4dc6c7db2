package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.changes.IDatabaseChanges;
import net.ravendb.client.documents.changes.Observers;
import net.ravendb.client.documents.subscriptions.SubscriptionBatch;
import net.ravendb.client.documents.subscriptions.SubscriptionCreationOptions;
import net.ravendb.client.documents.subscriptions.SubscriptionWorker;
import net.ravendb.client.documents.subscriptions.SubscriptionWorkerOptions;

/**
 * Follows a database while the server is killed and started again: a subscription worker that is
 * processing a batch at that moment, and a listener to changes.
 *
 * <p>Prints "in mid-batch" when the server may be killed; the file CORVUS_TEST_RESTARTED appears when it
 * runs again. Run separately, by clients/run.
 */
class ThroughRestart extends DatabaseTest {
    private static final int SECONDS_MAX = 60;
    private static final int SHIPS_BEFORE = 20;
    private static final int SHIPS_AFTER = 10;
    private static final int BATCH_HELD = 3;
    private static final Path RESTARTED = Path.of(System.getenv("CORVUS_TEST_RESTARTED"));

    private final Map<String, Integer> received = new ConcurrentHashMap<>();
    private final Set<String> acknowledged = ConcurrentHashMap.newKeySet();
    private final CopyOnWriteArrayList<String> again = new CopyOnWriteArrayList<>();
    private final AtomicInteger batches = new AtomicInteger();

    private static boolean isBack() {
        return Files.exists(RESTARTED);
    }

    private static void until(BooleanSupplier condition, String what) {
        long deadline = System.currentTimeMillis() + SECONDS_MAX * 1000L;
        while (!condition.getAsBoolean()) {
            assertTrue(System.currentTimeMillis() < deadline, "it takes too long: " + what);
            try {
                Thread.sleep(50);
            } catch (InterruptedException stopped) {
                throw new IllegalStateException(stopped);
            }
        }
    }

    private void saveShips(int first, int count) {
        for (int number = first; number < first + count; number++) {
            Server.save(store, new City("ship", number), "ships/" + number);
        }
    }

    private void process(SubscriptionBatch<City> batch) {
        for (SubscriptionBatch.Item<City> item : batch.getItems()) {
            if (acknowledged.contains(item.getId())) {
                again.add(item.getId());
            }
            received.merge(item.getId(), 1, Integer::sum);
        }
        if (batches.incrementAndGet() == BATCH_HELD) {
            System.out.println("in mid-batch");
            until(ThroughRestart::isBack, "the restart");
        }
    }

    @Test
    void everythingIsSentAndNothingAcknowledgedIsSentAgain() {
        Set<String> heard = ConcurrentHashMap.newKeySet();
        IDatabaseChanges changes = store.changes();
        changes.ensureConnectedNow();
        changes.forDocumentsStartingWith("heard/").subscribe(Observers.create(change -> heard.add(change.getId())));
        Server.save(store, new City("heard", 0), "heard/0");
        until(() -> heard.contains("heard/0"), "the change before the restart");

        saveShips(0, SHIPS_BEFORE);
        SubscriptionCreationOptions creation = new SubscriptionCreationOptions();
        creation.setQuery("from Cities as c where c.name = 'ship'");
        SubscriptionWorkerOptions options = new SubscriptionWorkerOptions(store.subscriptions().create(creation));
        options.setMaxDocsPerBatch(4);
        options.setTimeToWaitBeforeConnectionRetry(Duration.ofMillis(200));
        options.setMaxErroneousPeriod(Duration.ofSeconds(SECONDS_MAX));
        try (SubscriptionWorker<City> worker = store.subscriptions().getSubscriptionWorker(City.class, options)) {
            worker.addAfterAcknowledgmentListener(
                    batch -> batch.getItems().forEach(item -> acknowledged.add(item.getId())));
            CompletableFuture<Void> task = worker.run(this::process);
            until(ThroughRestart::isBack, "the restart");
            saveShips(SHIPS_BEFORE, SHIPS_AFTER);
            until(() -> acknowledged.size() == SHIPS_BEFORE + SHIPS_AFTER || task.isDone(), "the acknowledgements");
            assertFalse(task.isDone(), "the worker gave up");
        }
        assertEquals(SHIPS_BEFORE + SHIPS_AFTER, received.size());
        assertEquals(0, again.size(), "acknowledged and sent again: " + again);

        AtomicInteger number = new AtomicInteger();
        until(() -> {
            Server.save(store, new City("heard", 0), "heard/" + number.incrementAndGet());
            return heard.size() > 1;
        }, "the listener receives nothing after the restart");
        changes.close();
    }
}
