package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.indexes.AbstractIndexCreationTask;
import net.ravendb.client.documents.queries.facets.Facet;
import net.ravendb.client.documents.queries.facets.FacetOptions;
import net.ravendb.client.documents.queries.facets.FacetResult;
import net.ravendb.client.documents.queries.facets.FacetSetup;
import net.ravendb.client.documents.queries.facets.FacetTermSortMode;
import net.ravendb.client.documents.queries.facets.FacetValue;
import net.ravendb.client.documents.queries.facets.IAggregationDocumentQuery;
import net.ravendb.client.documents.queries.facets.RangeBuilder;
import net.ravendb.client.documents.queries.facets.RangeFacet;
import net.ravendb.client.documents.session.IDocumentQuery;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.exceptions.InvalidQueryException;

/** Facets: values counted and aggregated by field, by range, and as defined by a document. */
class FacetsTest extends HutsTest {
    public static class HutsByFacets extends AbstractIndexCreationTask {
        public HutsByFacets() {
            map = "from h in docs.Huts select new { h.region, h.tags, h.beds, h.price, h.altitude }";
        }
    }

    @BeforeAll
    void storeIndex() {
        new HutsByFacets().execute(store);
    }

    private static IDocumentQuery<Hut> huts(IDocumentSession session) {
        return session.query(Hut.class, HutsByFacets.class).waitForNonStaleResults();
    }

    private Map<String, FacetResult> facets(Function<IDocumentQuery<Hut>, IAggregationDocumentQuery<Hut>> query) {
        try (IDocumentSession session = store.openSession()) {
            return query.apply(huts(session)).execute();
        }
    }

    private static Map<String, Integer> counts(FacetResult facet) {
        return facet.getValues().stream().collect(Collectors.toMap(FacetValue::getRange, FacetValue::getCount));
    }

    private static RangeBuilder<Integer> beds() {
        return RangeBuilder.forPath("beds");
    }

    private static FacetOptions options(FacetTermSortMode mode, int start, int pageSize) {
        FacetOptions options = new FacetOptions();
        options.setTermSortMode(mode);
        options.setStart(start);
        options.setPageSize(pageSize);
        options.setIncludeRemainingTerms(true);
        return options;
    }

    @Test
    void aFieldIsCountedByItsTermsAndNulls() {
        assertEquals(Map.of("valais", 3, "bern", 2, "grisons", 2, "NULL_VALUE", 1),
            counts(facets(q -> q.aggregateBy(b -> b.byField("region"))).get("region")));
        assertEquals(Map.of("glacier", 4, "climbing", 2, "ski", 2, "winter", 2, "NULL_VALUE", 1),
            counts(facets(q -> q.aggregateBy(b -> b.byField("tags").withDisplayName("kind"))).get("kind")));
    }

    @Test
    void numbersAreAggregatedByTermUnderGivenNames() {
        Map<String, FacetValue> bern = new HashMap<>();
        facets(q -> q.aggregateBy(
            b -> b.byField("region").sumOn("beds", "places").maxOn("altitude").minOn("altitude").averageOn("price")))
            .get("region").getValues().stream().filter(value -> value.getRange().equals("bern"))
            .forEach(value -> bern.put(value.getName(), value));
        assertEquals(253, bern.get("places").getSum());
        assertEquals(3048, bern.get("altitude").getMax());
        assertEquals(2840, bern.get("altitude").getMin());
        assertEquals(77.25, bern.get("price").getAverage());
    }

    @Test
    void rangesAreCountedAndAggregatedInTheOrderGiven() {
        List<FacetValue> values = facets(q -> q.aggregateBy(b -> b.byRanges(
            beds().isLessThan(100), beds().isGreaterThanOrEqualTo(100).isLessThan(130), beds().isGreaterThan(1000))
            .withDisplayName("size").sumOn("beds"))).get("size").getValues();
        assertEquals(List.of("beds < 100", "beds >= 100 and beds < 130", "beds > 1000"),
            values.stream().map(FacetValue::getRange).collect(Collectors.toList()));
        assertEquals(List.of(3, 2, 0), values.stream().map(FacetValue::getCount).collect(Collectors.toList()));
        assertEquals(176, values.get(0).getSum());
    }

    @Test
    void termsAreSortedAndPagedAndTheRemainingOnesListed() {
        FacetResult tags = facets(q -> q.aggregateBy(
            b -> b.byField("tags").withOptions(options(FacetTermSortMode.COUNT_DESC, 0, 1)))).get("tags");
        assertEquals(Map.of("glacier", 4), counts(tags));
        assertEquals(4, tags.getRemainingTermsCount());
        assertEquals(7, tags.getRemainingHits());
        assertEquals(4, tags.getRemainingTerms().size());
        FacetResult regions = facets(q -> q.whereNotEquals("region", (Object) null).aggregateBy(
            b -> b.byField("region").withOptions(options(FacetTermSortMode.VALUE_DESC, 1, 2)))).get("region");
        assertEquals(List.of("grisons", "bern"),
            regions.getValues().stream().map(FacetValue::getRange).collect(Collectors.toList()));
    }

    @Test
    void severalFacetsOfTheMatchingDocuments() {
        Map<String, FacetResult> found = facets(q -> q.whereEquals("region", "bern")
            .aggregateBy(b -> b.byField("tags")).andAggregateBy(b -> b.byRanges(beds().isLessThan(120)))
            .andAggregateBy(b -> b.allResults().sumOn("beds")));
        assertEquals(Map.of("glacier", 1, "ski", 1, "winter", 1), counts(found.get("tags")));
        assertEquals(Map.of("beds < 120", 1), counts(found.get("beds")));
        assertEquals(253, found.get("@AllResults").getValues().get(0).getSum());
    }

    @Test
    void aSetupDocumentDefinesFacets() {
        Facet region = new Facet();
        region.setFieldName("region");
        RangeFacet size = new RangeFacet();
        size.setRanges(Arrays.asList("beds < 100", "beds >= 100"));
        FacetSetup setup = new FacetSetup();
        setup.setFacets(List.of(region));
        setup.setRangeFacets(List.of(size));
        Server.save(store, setup, "facets/huts");
        Map<String, FacetResult> found = facets(q -> q.aggregateUsing("facets/huts"));
        assertEquals(3, counts(found.get("region")).get("valais"));
        assertEquals(Map.of("beds < 100", 3, "beds >= 100", 5), counts(found.get("beds")));
    }

    @Test
    void lazyFacetsAndALazyQueryAreSentInOneRequest() {
        try (IDocumentSession session = store.openSession()) {
            var tags = huts(session).whereEquals("region", "bern").aggregateBy(b -> b.byField("tags")).executeLazy();
            var everyone = huts(session).lazily();
            assertEquals(3, tags.getValue().get("tags").getValues().size());
            assertEquals(8, everyone.getValue().size());
            assertEquals(1, session.advanced().getNumberOfRequests());
        }
    }

    @Test
    void facetsOfACollectionAreRejected() {
        try (IDocumentSession session = store.openSession()) {
            assertThrows(InvalidQueryException.class,
                () -> session.query(Hut.class).aggregateBy(b -> b.byField("region")).execute());
        }
    }
}
