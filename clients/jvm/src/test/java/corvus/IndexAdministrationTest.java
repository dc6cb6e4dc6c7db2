package corvus;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.function.BooleanSupplier;

import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.indexes.IndexDefinition;
import net.ravendb.client.documents.indexes.IndexLockMode;
import net.ravendb.client.documents.indexes.IndexPriority;
import net.ravendb.client.documents.indexes.IndexRunningStatus;
import net.ravendb.client.documents.indexes.IndexingError;
import net.ravendb.client.documents.operations.indexes.DeleteIndexErrorsOperation;
import net.ravendb.client.documents.operations.indexes.DisableIndexOperation;
import net.ravendb.client.documents.operations.indexes.EnableIndexOperation;
import net.ravendb.client.documents.operations.indexes.GetIndexErrorsOperation;
import net.ravendb.client.documents.operations.indexes.GetIndexOperation;
import net.ravendb.client.documents.operations.indexes.GetIndexStatisticsOperation;
import net.ravendb.client.documents.operations.indexes.GetIndexingStatusOperation;
import net.ravendb.client.documents.operations.indexes.GetTermsOperation;
import net.ravendb.client.documents.operations.indexes.IndexHasChangedOperation;
import net.ravendb.client.documents.operations.indexes.PutIndexesOperation;
import net.ravendb.client.documents.operations.indexes.ResetIndexOperation;
import net.ravendb.client.documents.operations.indexes.SetIndexesLockOperation;
import net.ravendb.client.documents.operations.indexes.SetIndexesPriorityOperation;
import net.ravendb.client.documents.operations.indexes.StartIndexOperation;
import net.ravendb.client.documents.operations.indexes.StopIndexOperation;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.exceptions.RavenException;

/** Administration of indexes: terms, errors, stop, disable, reset, lock, side-by-side replacement. */
class IndexAdministrationTest extends HutsTest {
    private static final String BY_NAME = "from h in docs.Huts select new { h.name, h.region }";
    private static final String BY_BEDS = "from h in docs.Huts select new { h.beds }";

    private static IndexDefinition definition(String name, String map) {
        IndexDefinition definition = new IndexDefinition();
        definition.setName(name);
        definition.setMaps(Set.of(map));
        return definition;
    }

    private void put(String name, String map) {
        store.maintenance().send(new PutIndexesOperation(definition(name, map)));
    }

    private List<String> find(String index, String field, Object value) {
        try (IDocumentSession session = store.openSession()) {
            return names(session.advanced().documentQuery(Hut.class, index, null, false).whereEquals(field, value));
        }
    }

    private IndexRunningStatus status(String name) {
        return Arrays.stream(store.maintenance().send(new GetIndexingStatusOperation()).getIndexes())
            .filter(index -> index.getName().equals(name)).findFirst().orElseThrow().getStatus();
    }

    private static void waitFor(BooleanSupplier condition) throws InterruptedException {
        Instant deadline = Instant.now().plus(Duration.ofSeconds(15));
        while (!condition.getAsBoolean()) {
            assertTrue(Instant.now().isBefore(deadline), "waited for 15 seconds");
            Thread.sleep(50);
        }
    }

    @Test
    void theTermsOfAFieldAreReadPageByPage() {
        put("Terms", BY_NAME);
        find("Terms", "name", "coaz");
        assertArrayEquals(new String[] {"blüemlisalp", "boval", "britannia"},
            store.maintenance().send(new GetTermsOperation("Terms", "name", null, 3)));
        assertArrayEquals(new String[] {"coaz", "finsteraar"},
            store.maintenance().send(new GetTermsOperation("Terms", "name", "britannia", 2)));
    }

    @Test
    void statisticsCountEntriesAndAResetStartsAgain() {
        put("Counted", BY_NAME);
        assertEquals(List.of("Coaz"), find("Counted", "name", "coaz"));
        store.maintenance().send(new ResetIndexOperation("Counted"));
        assertEquals(List.of("Coaz"), find("Counted", "name", "coaz"));
        assertEquals(8, store.maintenance().send(new GetIndexStatisticsOperation("Counted")).getEntriesCount());
    }

    @Test
    void aStoppedIndexIsNotUpdatedUntilItIsStarted() {
        put("Stopped", BY_NAME);
        find("Stopped", "name", "coaz");
        store.maintenance().send(new StopIndexOperation("Stopped"));
        assertEquals(IndexRunningStatus.PAUSED, status("Stopped"));
        Server.save(store, Hut.of("Late", "Uri", 1, 1, null, null), "huts/late");
        try (IDocumentSession session = store.openSession()) {
            assertTrue(session.advanced().documentQuery(Hut.class, "Stopped", null, false)
                .whereEquals("name", "late").toList().isEmpty());
        }
        store.maintenance().send(new StartIndexOperation("Stopped"));
        assertEquals(List.of("Late"), find("Stopped", "name", "late"));
        Server.remove(store, "huts/late");
    }

    @Test
    void aDisabledIndexIsListedAsDisabledUntilItIsEnabled() throws InterruptedException {
        put("Disabled", BY_NAME);
        store.maintenance().send(new DisableIndexOperation("Disabled"));
        waitFor(() -> status("Disabled") == IndexRunningStatus.DISABLED);
        store.maintenance().send(new EnableIndexOperation("Disabled"));
        waitFor(() -> status("Disabled") == IndexRunningStatus.RUNNING);
        assertEquals(List.of("Coaz"), find("Disabled", "name", "coaz"));
    }

    private IndexingError[] errors(String index) {
        return store.maintenance().send(new GetIndexErrorsOperation(new String[] {index}))[0].getErrors();
    }

    @Test
    void mapErrorsAreKeptByDocumentAndDeleted() throws InterruptedException {
        put("Faulty", "from h in docs.Huts select new { h.name, share = 100 / (h.beds - 6) }");
        assertEquals(List.of("Coaz"), find("Faulty", "name", "coaz"));
        waitFor(() -> errors("Faulty").length > 0);
        assertEquals("huts/tin", errors("Faulty")[0].getDocument());
        store.maintenance().send(new DeleteIndexErrorsOperation(new String[] {"Faulty"}));
        assertEquals(0, errors("Faulty").length);
    }

    @Test
    void lockAndPriorityAreChanged() {
        put("Locked", BY_NAME);
        store.maintenance().send(new SetIndexesPriorityOperation("Locked", IndexPriority.HIGH));
        store.maintenance().send(new SetIndexesLockOperation("Locked", IndexLockMode.LOCKED_IGNORE));
        put("Locked", BY_BEDS);
        IndexDefinition stored = store.maintenance().send(new GetIndexOperation("Locked"));
        assertEquals(IndexPriority.HIGH, stored.getPriority());
        assertTrue(stored.getMaps().iterator().next().contains("h.name"));
        store.maintenance().send(new SetIndexesLockOperation("Locked", IndexLockMode.LOCKED_ERROR));
        assertThrows(RavenException.class, () -> put("Locked", BY_BEDS));
    }

    @Test
    void aDefinitionIsComparedWithTheStoredOne() {
        put("Compared", BY_NAME);
        assertFalse(store.maintenance().send(new IndexHasChangedOperation(definition("Compared", BY_NAME))));
        assertTrue(store.maintenance().send(new IndexHasChangedOperation(definition("Compared", BY_BEDS))));
    }

    @Test
    void aChangedDefinitionReplacesTheOldOneWhenItHasCaughtUp() throws InterruptedException {
        put("Replaced", BY_NAME);
        find("Replaced", "name", "coaz");
        put("Replaced", BY_BEDS);
        waitFor(() -> store.maintenance().send(new GetIndexOperation("Replaced")).getMaps().contains(BY_BEDS));
        assertEquals(List.of("Coaz"), find("Replaced", "beds", 80));
    }
}
