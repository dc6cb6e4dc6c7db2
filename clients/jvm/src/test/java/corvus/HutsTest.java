package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;

import org.junit.jupiter.api.BeforeAll;

import net.ravendb.client.documents.session.IDocumentQuery;
import net.ravendb.client.documents.session.IDocumentSession;

/**
 * Stores eight huts and two clubs for each class of query tests: few enough to check every result by eye. Two
 * regions differ only in case, one hut has no region, no tags and no place, and one names a missing club.
 */
abstract class HutsTest extends DatabaseTest {
    static final String ALPINE = "clubs/alpine";
    static final String GUIDES = "clubs/guides";

    @BeforeAll
    void storeHuts() {
        try (IDocumentSession session = store.openSession()) {
            session.store(Club.of("Alpine Club", 170_000), ALPINE);
            session.store(Club.of("Guides of Zermatt", 80), GUIDES);
            session.store(Hut.of("Monte Rosa", "Valais", 2883, 120, 89.5, ALPINE, "glacier", "winter")
                .at(45.9568, 7.8153).about("A modern hut above the glacier with a view of the Matterhorn"),
                "huts/rosa");
            session.store(Hut.of("Hörnli", "Valais", 3260, 130, 150.0, GUIDES, "climbing")
                .at(45.9819, 7.6770).about("A stone hut on the ridge of the Matterhorn for climbers"),
                "huts/ridge");
            session.store(Hut.of("Britannia", "valais", 3030, 134, 82.0, ALPINE, "glacier", "ski")
                .at(46.0597, 7.9397).about("A wooden hut between two glaciers with quiet rooms"), "huts/saas");
            session.store(Hut.of("Blüemlisalp", "Bern", 2840, 138, 75.5, ALPINE, "glacier")
                .at(46.5008, 7.7697).about("A wooden hut with a wide view of the lake"), "huts/lake");
            session.store(Hut.of("Finsteraar", "Bern", 3048, 115, 79.0, ALPINE, "ski", "winter")
                .at(46.5236, 8.1230).about("A stone hut deep in the ice, far from every road"), "huts/ice");
            session.store(Hut.of("Coaz", "Grisons", 2610, 80, 70.0, ALPINE, "glacier", "climbing")
                .at(46.3667, 9.8667).about("A round stone hut with a view of the Roseg glacier"), "huts/round");
            session.store(Hut.of("Boval", "Grisons", 2495, 90, null, "clubs/nobody")
                .at(46.4100, 9.9500).about("A family hut beside the Morteratsch glacier"), "huts/valley");
            Hut tin = Hut.of("Tin Box", null, 3800, 6, 0.0, null);
            tin.tags = null;
            session.store(tin, "huts/tin");
            session.saveChanges();
        }
    }

    /** The names of the huts that the query finds once its index is up to date, in result order. */
    static List<String> names(IDocumentQuery<Hut> query) {
        return query.waitForNonStaleResults().toList().stream().map(hut -> hut.name).collect(Collectors.toList());
    }

    /** Queries the collection, through an automatic index. */
    List<String> find(Function<IDocumentQuery<Hut>, IDocumentQuery<Hut>> condition) {
        try (IDocumentSession session = store.openSession()) {
            return names(condition.apply(session.query(Hut.class)));
        }
    }

    void assertFinds(Set<String> expected, Function<IDocumentQuery<Hut>, IDocumentQuery<Hut>> condition) {
        assertEquals(new TreeSet<>(expected), new TreeSet<>(find(condition)));
    }
}
