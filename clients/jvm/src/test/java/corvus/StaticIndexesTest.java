package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.indexes.AbstractCommonApiForIndexes;
import net.ravendb.client.documents.indexes.AbstractIndexCreationTask;
import net.ravendb.client.documents.indexes.AbstractJavaScriptIndexCreationTask;
import net.ravendb.client.documents.indexes.AbstractMultiMapIndexCreationTask;
import net.ravendb.client.documents.indexes.FieldIndexing;
import net.ravendb.client.documents.indexes.FieldStorage;
import net.ravendb.client.documents.indexes.IndexFieldOptions;
import net.ravendb.client.documents.queries.ProjectionBehavior;
import net.ravendb.client.documents.session.IDocumentQuery;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.exceptions.RavenException;

/** Features of static indexes: load, compute, dynamic fields, several collections. */
class StaticIndexesTest extends HutsTest {
    public static class HutsInCSharp extends AbstractIndexCreationTask {
        public HutsInCSharp() {
            map = "from h in docs.Huts let club = LoadDocument(h.club, \"Clubs\") select new { h.name, "
                + "owner = club.name, size = h.beds > 100 ? \"large\" : \"small\", "
                + "label = h.name + \" in \" + (h.region ?? \"nowhere\"), "
                + "_ = h.tags.Select(t => CreateField(\"tag_\" + t, true)) }";
            index("name", FieldIndexing.EXACT);
            index("label", FieldIndexing.SEARCH);
            store("size", FieldStorage.YES);
        }
    }

    public static class HutsInJavaScript extends AbstractJavaScriptIndexCreationTask {
        public HutsInJavaScript() {
            setMaps(Set.of("map('Huts', function (h) { return { name: h.name, about: h.about, "
                + "owner: load(h.club, 'Clubs').name }; })"));
            IndexFieldOptions about = new IndexFieldOptions();
            about.setIndexing(FieldIndexing.SEARCH);
            setFields(Map.of("about", about));
        }
    }

    public static class Names extends AbstractMultiMapIndexCreationTask {
        public Names() {
            addMap("from h in docs.Huts select new { h.name, kind = \"hut\" }");
            addMap("from c in docs.Clubs select new { c.name, kind = \"club\" }");
        }
    }

    public static class Row {
        public String size;
        public Long beds;
    }

    @BeforeAll
    void storeIndexes() {
        new HutsInCSharp().execute(store);
        new HutsInJavaScript().execute(store);
        new Names().execute(store);
    }

    private <I extends AbstractCommonApiForIndexes> List<String> findIndexed(
            Class<I> index, Function<IDocumentQuery<Hut>, IDocumentQuery<Hut>> condition) {
        try (IDocumentSession session = store.openSession()) {
            return names(condition.apply(session.query(Hut.class, index)).orderBy("name"));
        }
    }

    @Test
    void aLoadedDocumentIsPartOfTheEntryAndUpdatesIt() {
        for (var index : List.of(HutsInCSharp.class, HutsInJavaScript.class)) {
            assertEquals(List.of("Blüemlisalp", "Britannia", "Coaz", "Finsteraar", "Monte Rosa"),
                findIndexed(index, q -> q.whereEquals("owner", "alpine club")));
            Server.save(store, Club.of("Renamed", 1), GUIDES);
            assertEquals(List.of("Hörnli"), findIndexed(index, q -> q.whereEquals("owner", "renamed")));
            Server.save(store, Club.of("Guides of Zermatt", 80), GUIDES);
            assertEquals(List.of(), findIndexed(index, q -> q.whereEquals("owner", "renamed")));
        }
    }

    /** Not cached: the client caches responses by query text, which does not include the behavior. */
    private Row project(ProjectionBehavior behavior) {
        try (IDocumentSession session = store.openSession()) {
            return session.query(Hut.class, HutsInCSharp.class).waitForNonStaleResults().whereEquals("name", "Coaz")
                .noCaching().selectFields(Row.class, behavior, "size", "beds").single();
        }
    }

    @Test
    void aProjectionTakesItsFieldsFromTheIndexOrTheDocument() {
        assertEquals("small", project(ProjectionBehavior.DEFAULT).size);
        assertEquals(80, project(ProjectionBehavior.DEFAULT).beds);
        assertEquals("small", project(ProjectionBehavior.FROM_INDEX).size);
        assertNull(project(ProjectionBehavior.FROM_INDEX).beds);
        assertNull(project(ProjectionBehavior.FROM_DOCUMENT).size);
        assertEquals(80, project(ProjectionBehavior.FROM_DOCUMENT).beds);
        assertThrows(RavenException.class, () -> project(ProjectionBehavior.FROM_INDEX_OR_THROW));
        assertThrows(RavenException.class, () -> project(ProjectionBehavior.FROM_DOCUMENT_OR_THROW));
    }

    @Test
    void anExactFieldKeepsItsCaseAndAnAnalyzedOneItsWords() {
        assertEquals(List.of(), findIndexed(HutsInCSharp.class, q -> q.whereEquals("name", "coaz")));
        assertEquals(List.of("Coaz"), findIndexed(HutsInCSharp.class, q -> q.whereEquals("name", "Coaz")));
        assertEquals(List.of("Tin Box"), findIndexed(HutsInCSharp.class, q -> q.search("label", "nowhere")));
        assertEquals(List.of("Hörnli", "Monte Rosa"),
            findIndexed(HutsInJavaScript.class, q -> q.search("about", "matterhorn")));
    }

    @Test
    void fieldNamesCanComeFromTheDocument() {
        assertEquals(List.of("Britannia", "Finsteraar"),
            findIndexed(HutsInCSharp.class, q -> q.whereEquals("tag_ski", true)));
    }

    @Test
    void anIndexOverTwoCollectionsReturnsBoth() {
        try (IDocumentSession session = store.openSession()) {
            List<Object> found = session.query(Object.class, Names.class).waitForNonStaleResults()
                .whereStartsWith("name", "b").orElse().whereEquals("kind", "club").orderBy("name").toList();
            assertEquals(List.of("Club", "Hut", "Hut", "Hut", "Club"),
                found.stream().map(one -> one.getClass().getSimpleName()).collect(Collectors.toList()));
        }
    }

    @Test
    void aFieldThatNoMapHasIsRejected() {
        assertThrows(RavenException.class, () -> findIndexed(Names.class, q -> q.whereEquals("beds", 1)));
    }
}
