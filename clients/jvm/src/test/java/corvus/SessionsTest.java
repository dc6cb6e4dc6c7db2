package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.stream.IntStream;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.session.IMetadataDictionary;
import net.ravendb.client.exceptions.RavenException;

/** Sessions: store, load, change, delete, metadata, ids, refresh, evict, exists, conditional load. */
class SessionsTest extends DatabaseTest {
    @Test
    void aStoredDocumentIsLoadedInAnotherSession() {
        City ulm = new City("Ulm – Grüße 🏔️", 9_007_199_254_740_993L);
        ulm.setLatitude(48.39841);
        ulm.setTwins(Arrays.asList("cities/a", null, ""));
        Server.save(store, ulm, "cities/ulm");
        City back = Server.load(store, City.class, "cities/ulm");
        assertEquals(ulm.getName(), back.getName());
        assertEquals(ulm.getPopulation(), back.getPopulation());
        assertEquals(ulm.getLatitude(), back.getLatitude());
        assertEquals(ulm.getTwins(), back.getTwins());
    }

    @Test
    void changesAndDeletionsAreSaved() {
        Server.save(store, new City("before", 1), "change/1");
        Server.save(store, new City("gone", 1), "change/2");
        try (IDocumentSession session = store.openSession()) {
            session.load(City.class, "change/1").setName("after");
            session.delete(session.load(City.class, "change/2"));
            session.delete("change/never-there");
            session.saveChanges();
        }
        assertEquals("after", Server.load(store, City.class, "change/1").getName());
        assertNull(Server.load(store, City.class, "change/2"));
    }

    @Test
    void aDocumentStoredAgainAfterItsDeletionIsNew() {
        Server.save(store, new City("old", 1), "again/1");
        String old = Server.changeVector(store, "again/1");
        Server.remove(store, "again/1");
        Server.save(store, new City("new", 2), "again/1");
        assertEquals("new", Server.load(store, City.class, "again/1").getName());
        assertNotEquals(old, Server.changeVector(store, "again/1"));
    }

    @Test
    void metadataContainsCollectionIdAndCustomKeys() {
        try (IDocumentSession session = store.openSession()) {
            City city = new City("Bern", 1);
            session.store(city, "meta/1");
            session.advanced().getMetadataFor(city).put("Reviewed-By", "Käthe");
            session.saveChanges();
        }
        try (IDocumentSession session = store.openSession()) {
            City city = session.load(City.class, "meta/1");
            IMetadataDictionary metadata = session.advanced().getMetadataFor(city);
            assertEquals("meta/1", metadata.getString("@id"));
            assertEquals("Cities", metadata.getString("@collection"));
            assertEquals("Käthe", metadata.getString("Reviewed-By"));
            assertEquals(session.advanced().getChangeVectorFor(city), metadata.getString("@change-vector"));
            long ageMs = Math.abs(System.currentTimeMillis() - session.advanced().getLastModifiedFor(city).getTime());
            assertTrue(ageMs < 60_000, "last modified " + ageMs + " ms ago");
        }
    }

    @Test
    void existsDistinguishesStoredAndMissingDocuments() {
        Server.save(store, new City("x", 1), "exists/1");
        try (IDocumentSession session = store.openSession()) {
            assertTrue(session.advanced().exists("exists/1"));
            assertFalse(session.advanced().exists("exists/2"));
        }
    }

    @Test
    void refreshFetchesAndEvictRemovesFromTheSession() {
        Server.save(store, new City("x", 1), "refresh/1");
        try (IDocumentSession session = store.openSession()) {
            City city = session.load(City.class, "refresh/1");
            Server.save(store, new City("x", 2), "refresh/1");
            session.advanced().refresh(city);
            assertEquals(2, city.getPopulation());
            Server.save(store, new City("x", 3), "refresh/1");
            session.advanced().evict(city);
            assertEquals(3, session.load(City.class, "refresh/1").getPopulation());
        }
    }

    @Test
    void aConditionalLoadReturnsADocumentOnlyAfterAChange() {
        Server.save(store, new City("x", 1), "conditional/1");
        String known = Server.changeVector(store, "conditional/1");
        try (IDocumentSession session = store.openSession()) {
            assertNull(session.advanced().conditionalLoad(City.class, "conditional/1", known).getEntity());
        }
        Server.save(store, new City("x", 2), "conditional/1");
        try (IDocumentSession session = store.openSession()) {
            var changed = session.advanced().conditionalLoad(City.class, "conditional/1", known);
            assertEquals(2, changed.getEntity().getPopulation());
            assertNull(session.advanced().conditionalLoad(City.class, "conditional/2", known).getChangeVector());
        }
    }

    @Test
    void idsIgnoreCaseAndKeepTheirFirstSpelling() {
        Server.save(store, new City("x", 1), "Mixed/Case-Ä");
        try (IDocumentSession session = store.openSession()) {
            City city = session.load(City.class, "mixed/CASE-ä");
            assertEquals("Mixed/Case-Ä", session.advanced().getMetadataFor(city).getString("@id"));
        }
        Server.remove(store, "MIXED/CASE-Ä");
        assertNull(Server.load(store, City.class, "Mixed/Case-Ä"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"a b/c d", "percent/100%25", "plus+and&and=and?and#", "emoji/🏔️/日本", "quotes/\"'"})
    void unusualIdsSurviveTheUrl(String id) {
        Server.save(store, new City(id, 1), id);
        assertEquals(id, Server.load(store, City.class, id).getName());
    }

    @Test
    void anIdOver512BytesIsRefused() {
        Server.save(store, new City("longest", 1), "l".repeat(512));
        assertThrows(RavenException.class, () -> Server.save(store, new City("longer", 1), "l".repeat(513)));
    }

    @Test
    void hiloIdsAscendAndAreUniqueAcrossStores() {
        List<String> ids = new ArrayList<>();
        try (var other = Server.open(store.getDatabase())) {
            for (var owner : List.of(store, other)) {
                try (IDocumentSession session = owner.openSession()) {
                    IntStream.range(0, 70).forEach(i -> {
                        City city = new City("city " + i, i);
                        session.store(city);
                        ids.add(session.advanced().getDocumentId(city));
                    });
                    session.saveChanges();
                }
            }
        }
        assertTrue(ids.stream().allMatch(id -> id.matches("cities/\\d+-A")), ids.toString());
        assertEquals(140, new HashSet<>(ids).size());
    }

    @Test
    void anIdThatEndsInASlashIsCompletedByTheServer() {
        try (IDocumentSession session = store.openSession()) {
            City city = new City("x", 7);
            session.store(city, "tickets/");
            session.saveChanges();
            String id = session.advanced().getDocumentId(city);
            assertTrue(id.matches("tickets/\\d{19}-A"), id);
            assertEquals(7, Server.load(store, City.class, id).getPopulation());
        }
    }

    @Test
    void aDocumentOfAMegabyteSurvives() {
        String text = "0123456789abcdef".repeat(65_536) + "🙂";
        Server.save(store, new City(text, 1), "big/1");
        assertEquals(text, Server.load(store, City.class, "big/1").getName());
    }

    @ParameterizedTest
    @ValueSource(longs = {0, -1, Integer.MAX_VALUE, Long.MAX_VALUE, Long.MIN_VALUE})
    void wholeNumbersKeepTheirValue(long value) {
        Server.save(store, new City("x", value), "long/1");
        assertEquals(value, Server.load(store, City.class, "long/1").getPopulation());
    }

    @ParameterizedTest
    @ValueSource(doubles = {0.1, -0.5, 1.5e-7, Math.PI, 1.0 / 3, Double.MAX_VALUE, Double.MIN_VALUE})
    void fractionsKeepTheirValue(double value) {
        City city = new City("x", 1);
        city.setLatitude(value);
        Server.save(store, city, "double/1");
        assertEquals(value, Server.load(store, City.class, "double/1").getLatitude());
    }
}
