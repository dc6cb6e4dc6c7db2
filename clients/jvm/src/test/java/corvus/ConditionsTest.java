package corvus;

import static java.util.Arrays.asList;

import java.util.HashSet;
import java.util.List;
import java.util.Set;

import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.queries.QueryOperator;
import net.ravendb.client.documents.queries.SearchOperator;

/** Every condition that the client can build, through automatic indexes. */
class ConditionsTest extends HutsTest {
    private static final Set<String> ALL = Set.of(
        "Monte Rosa", "Hörnli", "Britannia", "Blüemlisalp", "Finsteraar", "Coaz", "Boval", "Tin Box");
    private static final Set<String> BERN = Set.of("Blüemlisalp", "Finsteraar");
    private static final Set<String> GRISONS = Set.of("Coaz", "Boval");
    private static final Set<String> VALAIS = Set.of("Monte Rosa", "Hörnli", "Britannia");

    private static Set<String> without(Set<String> all, Set<String> some) {
        Set<String> rest = new HashSet<>(all);
        rest.removeAll(some);
        return rest;
    }

    private static Set<String> both(Set<String> one, Set<String> other) {
        Set<String> all = new HashSet<>(one);
        all.addAll(other);
        return all;
    }

    @Test
    void equalityIgnoresCaseUnlessItIsExact() {
        assertFinds(VALAIS, q -> q.whereEquals("region", "VALAIS"));
        assertFinds(Set.of("Monte Rosa", "Hörnli"), q -> q.whereEquals("region", "Valais", true));
        assertFinds(without(ALL, VALAIS), q -> q.whereNotEquals("region", "valais"));
    }

    @Test
    void equalityOfNumbersItemsOfListsNullsAndIds() {
        assertFinds(Set.of("Monte Rosa"), q -> q.whereEquals("beds", 120));
        assertFinds(Set.of("Blüemlisalp"), q -> q.whereEquals("price", 75.5));
        assertFinds(Set.of("Britannia", "Finsteraar"), q -> q.whereEquals("tags", "ski"));
        assertFinds(Set.of("Tin Box"), q -> q.whereEquals("region", (Object) null));
        assertFinds(without(ALL, Set.of("Tin Box")), q -> q.whereNotEquals("region", (Object) null));
        assertFinds(Set.of("Monte Rosa"), q -> q.whereEquals("id()", "huts/rosa"));
        assertFinds(ALL, q -> q.whereExists("price"));
    }

    @Test
    void rangesOfNumbersAndStrings() {
        assertFinds(Set.of("Finsteraar", "Hörnli", "Tin Box"), q -> q.whereGreaterThan("altitude", 3030));
        assertFinds(Set.of("Finsteraar", "Hörnli", "Tin Box"), q -> q.whereGreaterThanOrEqual("altitude", 3048));
        assertFinds(Set.of("Boval"), q -> q.whereLessThan("altitude", 2610));
        assertFinds(GRISONS, q -> q.whereLessThanOrEqual("altitude", 2610));
        assertFinds(Set.of("Blüemlisalp", "Monte Rosa", "Britannia"), q -> q.whereBetween("altitude", 2840, 3030));
        assertFinds(Set.of("Coaz", "Blüemlisalp", "Finsteraar"), q -> q.whereBetween("price", 70.0, 80.0));
        assertFinds(Set.of("Monte Rosa", "Tin Box"), q -> q.whereGreaterThan("name", "HÖRNLI"));
    }

    @Test
    void listsOfValues() {
        assertFinds(both(BERN, GRISONS), q -> q.whereIn("region", List.of("bern", "GRISONS")));
        assertFinds(both(BERN, Set.of("Tin Box")), q -> q.whereIn("region", asList("bern", null)));
        assertFinds(Set.of(), q -> q.whereIn("region", List.of()));
        assertFinds(Set.of("Britannia", "Finsteraar", "Hörnli", "Coaz"),
            q -> q.containsAny("tags", List.of("ski", "climbing")));
        assertFinds(Set.of("Coaz"), q -> q.containsAll("tags", List.of("glacier", "climbing")));
    }

    @Test
    void partsOfStrings() {
        assertFinds(Set.of("Blüemlisalp", "Boval", "Britannia"), q -> q.whereStartsWith("name", "b"));
        assertFinds(Set.of(), q -> q.whereStartsWith("name", "b", true));
        assertFinds(Set.of("Britannia", "Monte Rosa"), q -> q.whereEndsWith("name", "A"));
        assertFinds(Set.of("Boval"), q -> q.whereRegex("name", "^b.*l$"));
        assertFinds(GRISONS, q -> q.whereLucene("region", "gr*"));
        assertFinds(Set.of("Monte Rosa", "Hörnli", "Blüemlisalp"), q -> q.search("about", "matterhorn lake"));
        assertFinds(Set.of("Hörnli"), q -> q.search("about", "matterhorn stone", SearchOperator.AND));
        assertFinds(Set.of("Monte Rosa", "Britannia", "Coaz", "Boval"), q -> q.search("about", "glac*"));
    }

    @Test
    void conditionsAreNegated() {
        assertFinds(without(ALL, BERN), q -> q.not().whereEquals("region", "bern"));
        assertFinds(Set.of("Blüemlisalp", "Finsteraar", "Hörnli", "Tin Box"), q -> q.not().search("about", "glac*"));
        assertFinds(Set.of("Britannia", "Hörnli", "Tin Box"),
            q -> q.whereGreaterThan("altitude", 3000).andAlso().not().whereIn("region", List.of("bern")));
        assertFinds(both(VALAIS, Set.of("Tin Box")), q -> q.not().openSubclause().whereEquals("region", "bern")
            .orElse().whereEquals("region", "grisons").closeSubclause());
    }

    @Test
    void conditionsAreNestedAndCombined() {
        assertFinds(BERN, q -> q.openSubclause().whereEquals("region", "bern").orElse()
            .whereEquals("region", "grisons").closeSubclause().andAlso().whereGreaterThan("altitude", 2800));
        assertFinds(GRISONS, q -> q.whereEquals("region", "bern").orElse().whereEquals("region", "grisons")
            .andAlso(true).whereLessThan("beds", 100));
        assertFinds(both(BERN, Set.of("Coaz")), q -> q.usingDefaultOperator(QueryOperator.OR)
            .whereEquals("region", "bern").whereEquals("name", "coaz"));
        assertFinds(Set.of("Finsteraar"),
            q -> q.whereEquals("region", "bern").intersect().whereEquals("tags", "ski"));
    }

    @Test
    void aFilterScansTheMatchingDocuments() {
        assertFinds(Set.of("Blüemlisalp"),
            q -> q.whereEquals("region", "bern").filter(f -> f.greaterThan("beds", 120)));
        assertFinds(Set.of("Coaz", "Boval", "Tin Box"), q -> q.filter(f -> f.lessThan("beds", 100)));
    }
}
