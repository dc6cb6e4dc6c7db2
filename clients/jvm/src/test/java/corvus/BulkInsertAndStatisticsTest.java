package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import net.ravendb.client.documents.BulkInsertOperation;
import net.ravendb.client.documents.bulkInsert.BulkInsertOptions;
import net.ravendb.client.documents.operations.CollectionStatistics;
import net.ravendb.client.documents.operations.DatabaseStatistics;
import net.ravendb.client.documents.operations.GetCollectionStatisticsOperation;
import net.ravendb.client.documents.operations.GetStatisticsOperation;
import net.ravendb.client.exceptions.documents.bulkinsert.BulkInsertAbortedException;

/** Bulk insert, plain and compressed, and the statistics that count its documents. */
class BulkInsertAndStatisticsTest extends DatabaseTest {
    public static class Label {
        public String text = "label";
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void thousandsOfDocumentsArrive(boolean compressed) {
        long before = countOfCities();
        String prefix = "bulk-" + compressed + "/";
        BulkInsertOptions options = new BulkInsertOptions();
        options.setUseCompression(compressed);
        try (BulkInsertOperation insert = store.bulkInsert(options)) {
            for (int i = 0; i < 3000; i++) {
                insert.store(new City("æøå 🏔️ ".repeat(i % 40), i), prefix + i);
            }
        }
        assertEquals(before + 3000, countOfCities());
        City last = Server.load(store, City.class, prefix + 2999);
        assertEquals("æøå 🏔️ ".repeat(2999 % 40), last.getName());
    }

    @Test
    void hiloIdsAreAssignedByTheClient() {
        try (BulkInsertOperation insert = store.bulkInsert()) {
            String id = insert.store(new City("hilo", 1));
            assertTrue(id.matches("cities/\\d+-A"), id);
        }
    }

    @Test
    void aRefusedDocumentFailsTheBulkInsert() {
        Server.save(store, new Label(), "fixed/1");
        assertThrows(BulkInsertAbortedException.class, () -> {
            try (BulkInsertOperation insert = store.bulkInsert()) {
                insert.store(new City("other collection", 1), "fixed/1");
            }
        });
        assertEquals("label", Server.load(store, Label.class, "fixed/1").text);
    }

    @Test
    void statisticsChangeWithWrites() {
        DatabaseStatistics before = store.maintenance().send(new GetStatisticsOperation());
        Server.save(store, new City("one more", 1), "statistics/1");
        DatabaseStatistics after = store.maintenance().send(new GetStatisticsOperation());
        assertEquals(before.getCountOfDocuments() + 1, after.getCountOfDocuments());
        assertTrue(after.getLastDocEtag() > before.getLastDocEtag());
    }

    private long countOfCities() {
        CollectionStatistics statistics = store.maintenance().send(new GetCollectionStatisticsOperation());
        return statistics.getCollections().getOrDefault("Cities", 0L);
    }
}
