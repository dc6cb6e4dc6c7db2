package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.exceptions.ConcurrencyException;

/** Optimistic concurrency, all-or-nothing batches, and 32 threads at once. */
class ConcurrencyTest extends DatabaseTest {
    private static final int THREADS = 32;

    private IDocumentSession optimistic() {
        IDocumentSession session = store.openSession();
        session.advanced().setUseOptimisticConcurrency(true);
        return session;
    }

    @Test
    void withoutOptimisticConcurrencyTheLastWriterWins() {
        Server.save(store, new City("x", 0), "last/1");
        try (IDocumentSession a = store.openSession(); IDocumentSession b = store.openSession()) {
            a.load(City.class, "last/1").setPopulation(1);
            b.load(City.class, "last/1").setPopulation(2);
            a.saveChanges();
            b.saveChanges();
        }
        assertEquals(2, Server.load(store, City.class, "last/1").getPopulation());
    }

    @Test
    void withOptimisticConcurrencyTheSecondWriterIsRefused() {
        Server.save(store, new City("x", 0), "optimistic/1");
        try (IDocumentSession a = optimistic(); IDocumentSession b = optimistic()) {
            a.load(City.class, "optimistic/1").setPopulation(1);
            b.load(City.class, "optimistic/1").setPopulation(2);
            a.saveChanges();
            assertThrows(ConcurrencyException.class, b::saveChanges);
        }
        assertEquals(1, Server.load(store, City.class, "optimistic/1").getPopulation());
    }

    @Test
    void aTakenIdIsRefusedForANewDocument() {
        Server.save(store, new City("first", 0), "taken/1");
        try (IDocumentSession session = optimistic()) {
            session.store(new City("second", 0), "taken/1");
            assertThrows(ConcurrencyException.class, session::saveChanges);
        }
        assertEquals("first", Server.load(store, City.class, "taken/1").getName());
    }

    @Test
    void aDeleteWithAStaleChangeVectorIsRefused() {
        Server.save(store, new City("x", 1), "delete/1");
        String stale = Server.changeVector(store, "delete/1");
        Server.save(store, new City("x", 2), "delete/1");
        try (IDocumentSession session = store.openSession()) {
            session.delete("delete/1", stale);
            assertThrows(ConcurrencyException.class, session::saveChanges);
        }
        assertEquals(2, Server.load(store, City.class, "delete/1").getPopulation());
    }

    @Test
    void oneStaleCommandUndoesTheWholeBatch() {
        Server.save(store, new City("x", 0), "batch/stale");
        Server.save(store, new City("x", 0), "batch/deleted");
        try (IDocumentSession session = optimistic()) {
            City stale = session.load(City.class, "batch/stale");
            Server.save(store, new City("x", 7), "batch/stale");
            session.store(new City("x", 1), "batch/new");
            session.delete("batch/deleted");
            stale.setPopulation(1);
            assertThrows(ConcurrencyException.class, session::saveChanges);
        }
        assertNull(Server.load(store, City.class, "batch/new"));
        assertEquals(0, Server.load(store, City.class, "batch/deleted").getPopulation());
        assertEquals(7, Server.load(store, City.class, "batch/stale").getPopulation());
    }

    @Test
    void threadsThatIncrementOneDocumentLoseNoUpdate() throws Exception {
        Server.save(store, new City("counter", 0), "counter/1");
        inThreads(() -> {
            while (true) {
                try (IDocumentSession session = optimistic()) {
                    City city = session.load(City.class, "counter/1");
                    city.setPopulation(city.getPopulation() + 1);
                    session.saveChanges();
                    return null;
                } catch (ConcurrencyException lostTheRace) {
                    continue;
                }
            }
        });
        assertEquals(THREADS, Server.load(store, City.class, "counter/1").getPopulation());
    }

    @Test
    void threadsReadBackWhatTheyHaveJustWritten() throws Exception {
        inThreads(() -> {
            for (int i = 0; i < 10; i++) {
                String id = "parts/" + Thread.currentThread().getId() + "-" + i;
                Server.save(store, new City(id, i), id);
                assertEquals(id, Server.load(store, City.class, id).getName());
            }
            return null;
        });
    }

    /** Runs {@code work} once in each of THREADS threads and rethrows the first failure. */
    private static void inThreads(Callable<Void> work) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        try {
            List<Future<Void>> running = new ArrayList<>();
            for (int i = 0; i < THREADS; i++) {
                running.add(pool.submit(work));
            }
            for (Future<Void> one : running) {
                one.get();
            }
        } finally {
            pool.shutdownNow();
        }
    }
}
