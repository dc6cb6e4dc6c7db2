package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.CloseableIterator;
import net.ravendb.client.documents.commands.StreamResult;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.documents.session.IRawDocumentQuery;
import net.ravendb.client.documents.session.QueryStatistics;
import net.ravendb.client.primitives.Reference;

/** Loading many documents: includes, prefixes, lazy loads, collection queries and streams. */
class LoadingTest extends DatabaseTest {
    private static final int PAGES = 50;

    public static class Page {
        private int number;

        public int getNumber() {
            return number;
        }

        public void setNumber(int number) {
            this.number = number;
        }
    }

    private static String pageId(int number) {
        return String.format("page/%03d", number);
    }

    @BeforeAll
    void storeDocuments() {
        try (IDocumentSession session = store.openSession()) {
            for (int i = 0; i < PAGES; i++) {
                Page page = new Page();
                page.setNumber(i);
                session.store(page, pageId(i));
            }
            City bern = new City("Bern", 1);
            City berlin = new City("Berlin", 2);
            berlin.setCountry("cities/bern");
            berlin.setTwins(Arrays.asList("page/001", "cities/none"));
            session.store(bern, "cities/bern");
            session.store(berlin, "cities/berlin");
            session.saveChanges();
        }
    }

    private static List<Integer> numbers(List<Page> pages) {
        return pages.stream().map(Page::getNumber).collect(Collectors.toList());
    }

    private static List<Integer> range(int from, int to) {
        return IntStream.range(from, to).boxed().collect(Collectors.toList());
    }

    @Test
    void manyIdsAreReturnedByIdAndMissingOnesAsNull() {
        try (IDocumentSession session = store.openSession()) {
            var loaded = session.load(Page.class, "page/001", "page/none", "page/049");
            assertEquals(1, loaded.get("page/001").getNumber());
            assertNull(loaded.get("page/none"));
            assertEquals(49, loaded.get("page/049").getNumber());
        }
    }

    @Test
    void enoughIdsThatTheClientUsesPostAreLoaded() {
        try (IDocumentSession session = store.openSession()) {
            List<String> ids = IntStream.range(0, 1500).mapToObj(LoadingTest::pageId).collect(Collectors.toList());
            assertEquals(PAGES, session.load(Page.class, ids).values().stream().filter(page -> page != null).count());
        }
    }

    @Test
    void includesSaveTheSecondRequest() {
        try (IDocumentSession session = store.openSession()) {
            session.include("country").include("twins").load(City.class, "cities/berlin");
            assertEquals("Bern", session.load(City.class, "cities/bern").getName());
            assertEquals(1, session.load(Page.class, "page/001").getNumber());
            assertEquals(1, session.advanced().getNumberOfRequests());
        }
    }

    @Test
    void loadStartingWithIsOrderedPagedAndFiltered() {
        try (IDocumentSession session = store.openSession()) {
            var advanced = session.advanced();
            assertEquals(range(0, PAGES),
                numbers(List.of(advanced.loadStartingWith(Page.class, "page/", null, 0, 999))));
            assertEquals(range(10, 13), numbers(List.of(advanced.loadStartingWith(Page.class, "page/", null, 10, 3))));
            assertEquals(List.of(48, 49),
                numbers(List.of(advanced.loadStartingWith(Page.class, "page/", null, 0, 9, null, "page/047"))));
            assertEquals(List.of(5, 15, 25, 35, 45, 49),
                numbers(List.of(advanced.loadStartingWith(Page.class, "page/", "0?5|*49", 0, 99))));
            assertEquals(0, advanced.loadStartingWith(Page.class, "nowhere/").length);
        }
    }

    @Test
    void lazyLoadsAreSentInOneRequest() {
        try (IDocumentSession session = store.openSession()) {
            var bern = session.advanced().lazily().load(City.class, "cities/bern");
            var pages = session.advanced().lazily().load(Page.class, List.of("page/001", "page/none"));
            var prefix = session.advanced().lazily().loadStartingWith(Page.class, "page/00");
            var missing = session.advanced().lazily().load(City.class, "cities/none");
            session.advanced().eagerly().executeAllPendingLazyOperations();
            assertEquals("Bern", bern.getValue().getName());
            assertEquals(1, pages.getValue().get("page/001").getNumber());
            assertEquals(10, prefix.getValue().size());
            assertNull(missing.getValue());
            assertEquals(1, session.advanced().getNumberOfRequests());
        }
    }

    @Test
    void collectionQueriesPageThroughTheCollection() {
        try (IDocumentSession session = store.openSession()) {
            assertEquals(range(0, PAGES), numbers(session.query(Page.class).toList()));
            Reference<QueryStatistics> statistics = new Reference<>();
            List<Page> page = session.query(Page.class).statistics(statistics).skip(20).take(3).toList();
            assertEquals(range(20, 23), numbers(page));
            assertEquals(PAGES, statistics.value.getTotalResults());
            assertEquals(PAGES, session.query(Page.class).count());
        }
    }

    @Test
    void rawQueriesByIdPrefixAndOverAllDocuments() {
        assertEquals(List.of(7), numbers(raw("from Pages where id() = 'page/007'")));
        assertEquals(List.of(2, 30), numbers(raw("from Pages where id() in ('page/030', 'page/002')")));
        assertEquals(range(0, 10), numbers(raw("from Pages where startsWith(id(), 'page/00')")));
        assertEquals(range(10, 13), numbers(raw("from Pages limit 3 offset 10")));
        assertEquals(PAGES, raw("from @all_docs where startsWith(id(), 'page/')").size());
        assertTrue(raw("from Volcanoes").isEmpty());
    }

    private List<Page> raw(String text) {
        try (IDocumentSession session = store.openSession()) {
            return session.advanced().rawQuery(Page.class, text).toList();
        }
    }

    @Test
    void streamsByPrefixAndByQuery() {
        try (IDocumentSession session = store.openSession()) {
            assertEquals(range(0, PAGES), streamed(session.advanced().stream(Page.class, "page/")));
            assertEquals(range(0, PAGES), streamed(session.advanced().stream(session.query(Page.class))));
            IRawDocumentQuery<Page> raw = session.advanced().rawQuery(Page.class, "from Pages limit 4 offset 2");
            assertEquals(range(2, 6), streamed(session.advanced().stream(raw)));
            assertEquals(List.of(), streamed(session.advanced().stream(Page.class, "nowhere/")));
        }
    }

    private static List<Integer> streamed(CloseableIterator<StreamResult<Page>> stream) {
        List<Integer> numbers = new ArrayList<>();
        try (stream) {
            stream.forEachRemaining(row -> numbers.add(row.getDocument().getNumber()));
        }
        return numbers;
    }
}
