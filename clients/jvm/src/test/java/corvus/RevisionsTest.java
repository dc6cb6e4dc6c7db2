package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.Collectors;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.operations.revisions.ConfigureRevisionsOperation;
import net.ravendb.client.documents.operations.revisions.RevisionsCollectionConfiguration;
import net.ravendb.client.documents.operations.revisions.RevisionsConfiguration;
import net.ravendb.client.documents.session.IDocumentSession;

/** Revisions of documents. */
class RevisionsTest extends DatabaseTest {
    @BeforeAll
    void keepFourVersions() {
        RevisionsCollectionConfiguration rule = new RevisionsCollectionConfiguration();
        rule.setMinimumRevisionsToKeep(4L);
        RevisionsConfiguration configuration = new RevisionsConfiguration();
        configuration.setDefaultConfig(rule);
        assertTrue(store.maintenance().send(new ConfigureRevisionsOperation(configuration)).getRaftCommandIndex() > 0);
    }

    private void save(String id, int... populations) {
        for (int population : populations) {
            try (IDocumentSession session = store.openSession()) {
                City city = new City();
                city.setPopulation(population);
                session.store(city, id);
                session.saveChanges();
            }
        }
    }

    private List<String> metadataOf(String id, String property) {
        try (IDocumentSession session = store.openSession()) {
            return session.advanced().revisions().getMetadataFor(id).stream()
                    .map(metadata -> (String) metadata.get(property))
                    .collect(Collectors.toList());
        }
    }

    @Test
    void revisionsAreListedNewestFirstUpToTheLimit() {
        save("cities/1", 1, 2, 3, 4, 5);
        try (IDocumentSession session = store.openSession()) {
            List<City> revisions = session.advanced().revisions().getFor(City.class, "cities/1");
            assertEquals(List.of(5L, 4L, 3L, 2L), populations(revisions));
            revisions = session.advanced().revisions().getFor(City.class, "cities/1", 1, 2);
            assertEquals(List.of(4L, 3L), populations(revisions));
            assertEquals(4, session.advanced().revisions().getCountFor("cities/1"));
        }
    }

    private static List<Long> populations(List<City> revisions) {
        return revisions.stream().map(City::getPopulation).collect(Collectors.toList());
    }

    @Test
    void aDeletionCreatesARevision() {
        save("cities/2", 1);
        try (IDocumentSession session = store.openSession()) {
            session.delete("cities/2");
            session.saveChanges();
            assertNull(session.load(City.class, "cities/2"));
        }
        assertEquals(List.of("HasRevisions, DeleteRevision", "HasRevisions, Revision"), metadataOf("cities/2", "@flags"));
    }

    @Test
    void aRevisionIsFoundByItsChangeVector() {
        save("cities/3", 1, 2);
        List<String> vectors = metadataOf("cities/3", "@change-vector");
        try (IDocumentSession session = store.openSession()) {
            assertEquals(1, session.advanced().revisions().get(City.class, vectors.get(1)).getPopulation());
            assertNull(session.advanced().revisions().get(City.class, "A:1-nobody"));
        }
    }

    @Test
    void aSessionForcesOneRevisionPerVersion() {
        save("cities/4", 1);
        for (int i = 0; i < 2; i++) {
            try (IDocumentSession session = store.openSession()) {
                session.advanced().revisions().forceRevisionCreationFor("cities/4");
                session.saveChanges();
            }
        }
        assertEquals(1, metadataOf("cities/4", "@flags").size());
    }
}
