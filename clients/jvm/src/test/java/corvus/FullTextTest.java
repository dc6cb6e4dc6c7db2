package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.indexes.AbstractIndexCreationTask;
import net.ravendb.client.documents.indexes.FieldIndexing;
import net.ravendb.client.documents.indexes.FieldStorage;
import net.ravendb.client.documents.indexes.FieldTermVector;
import net.ravendb.client.documents.queries.explanation.Explanations;
import net.ravendb.client.documents.queries.highlighting.HighlightingOptions;
import net.ravendb.client.documents.queries.highlighting.Highlightings;
import net.ravendb.client.documents.queries.moreLikeThis.MoreLikeThisOptions;
import net.ravendb.client.documents.queries.moreLikeThis.MoreLikeThisStopWords;
import net.ravendb.client.documents.queries.suggestions.ISuggestionBuilder;
import net.ravendb.client.documents.queries.suggestions.StringDistanceTypes;
import net.ravendb.client.documents.queries.suggestions.SuggestionOptions;
import net.ravendb.client.documents.queries.suggestions.SuggestionSortMode;
import net.ravendb.client.documents.session.IDocumentQuery;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.exceptions.RavenException;
import net.ravendb.client.primitives.Reference;

/** Full text: scores, boosts, proximity, fuzzy search, highlights, suggestions, similar documents, explanations. */
class FullTextTest extends HutsTest {
    public static class HutsByWords extends AbstractIndexCreationTask {
        public HutsByWords() {
            map = "from h in docs.Huts select new { h.name, h.region, h.tags, h.about }";
            index("about", FieldIndexing.SEARCH);
            store("about", FieldStorage.YES);
            termVector("about", FieldTermVector.WITH_POSITIONS_AND_OFFSETS);
            suggestion("about");
            suggestion("name");
        }
    }

    @BeforeAll
    void storeIndexAndStopWords() {
        MoreLikeThisStopWords stops = new MoreLikeThisStopWords();
        stops.setStopWords(List.of("hut", "glacier", "view"));
        Server.save(store, stops, "stops/hut");
        new HutsByWords().execute(store);
    }

    private static IDocumentQuery<Hut> huts(IDocumentSession session) {
        return session.query(Hut.class, HutsByWords.class).waitForNonStaleResults();
    }

    private List<String> search(Function<IDocumentQuery<Hut>, IDocumentQuery<Hut>> condition) {
        try (IDocumentSession session = store.openSession()) {
            return names(condition.apply(huts(session)));
        }
    }

    @Test
    void twoMatchingWordsScoreHigherThanOne() {
        try (IDocumentSession session = store.openSession()) {
            List<Hut> found = huts(session).search("about", "glacier stone").orderByScore().toList();
            List<Double> scores = found.stream().map(hut -> ((Number) session.advanced().getMetadataFor(hut)
                .get("@index-score")).doubleValue()).collect(Collectors.toList());
            assertEquals("Coaz", found.get(0).name);
            assertEquals(5, scores.size());
            assertTrue(scores.get(0) > 1.5 * scores.get(1), scores.toString());
        }
    }

    @Test
    void aBoostDecidesTheOrder() {
        assertEquals(List.of("Finsteraar", "Blüemlisalp"),
            search(q -> q.search("about", "lake").orElse().search("about", "road").boost(10).orderByScore()));
        assertEquals(List.of("Finsteraar", "Blüemlisalp"), search(q -> q.search("about", "lake").boost(10).orElse()
            .search("about", "road").orderByScoreDescending()));
        assertEquals("Finsteraar", search(q -> q.openSubclause().whereEquals("region", "bern").andAlso()
            .whereEquals("tags", "ski").closeSubclause().boost(9).orElse().whereEquals("region", "grisons")
            .orderByScore()).get(0));
    }

    @Test
    void proximityBoundsTheWordsBetween() {
        assertEquals(List.of(), search(q -> q.search("about", "stone matterhorn").proximity(1)));
        assertEquals(List.of("Hörnli"), search(q -> q.search("about", "stone matterhorn").proximity(2)));
    }

    @Test
    void fuzzyFindsAMisspeltName() {
        assertEquals(List.of("Britannia"), search(q -> q.whereEquals("name", "brittania").fuzzy(0.5)));
        assertEquals(List.of(), search(q -> q.whereEquals("name", "brittania").fuzzy(0.9)));
    }

    @Test
    void explanationsShowHowAScoreIsComputed() {
        try (IDocumentSession session = store.openSession()) {
            Reference<Explanations> explanations = new Reference<>();
            huts(session).search("about", "lake").includeExplanations(explanations).toList();
            assertTrue(explanations.value.getExplanations("huts/lake")[0].contains("about:lake"));
        }
    }

    @Test
    void highlightsMarkTheWordWithGivenTags() {
        try (IDocumentSession session = store.openSession()) {
            HighlightingOptions options = new HighlightingOptions();
            options.setPreTags(new String[] {"["});
            options.setPostTags(new String[] {"]"});
            Reference<Highlightings> found = new Reference<>();
            huts(session).search("about", "glacier").highlight("about", 40, 2, options, found).toList();
            assertEquals(Set.of("huts/rosa", "huts/round", "huts/valley"), found.value.getResultIndents());
            assertEquals("the Morteratsch [glacier]", found.value.getFragments("huts/valley")[0].strip());
        }
    }

    private Map<String, Set<String>> suggestions(Consumer<ISuggestionBuilder<Hut>> builder) {
        try (IDocumentSession session = store.openSession()) {
            var results = huts(session).suggestUsing(builder).execute();
            return results.entrySet().stream().collect(Collectors.toMap(
                Map.Entry::getKey, entry -> Set.copyOf(entry.getValue().getSuggestions())));
        }
    }

    @Test
    void suggestionsComeFromTheTermsOfTheField() {
        assertEquals(Map.of("name", Set.of("britannia")), suggestions(b -> b.byField("name", "brittania")));
        assertTrue(suggestions(b -> b.byField("about", new String[] {"glacir", "stoen"})).get("about")
            .containsAll(Set.of("glacier", "glaciers", "stone")));
    }

    @Test
    void suggestionsApplyTheirOptionsAndNames() {
        SuggestionOptions options = new SuggestionOptions();
        options.setPageSize(1);
        options.setDistance(StringDistanceTypes.JARO_WINKLER);
        options.setAccuracy(0.4f);
        options.setSortMode(SuggestionSortMode.NONE);
        assertEquals(Map.of("words", Set.of("glacier")),
            suggestions(b -> b.byField("about", "glacir").withDisplayName("words").withOptions(options)));
    }

    @Test
    void suggestionsForTwoFieldsAreSentTogetherAndLazily() {
        try (IDocumentSession session = store.openSession()) {
            var lazy = huts(session).suggestUsing(b -> b.byField("name", "cozz"))
                .andSuggestUsing(b -> b.byField("about", "rood")).executeLazy();
            assertEquals(List.of("coaz"), lazy.getValue().get("name").getSuggestions());
            assertTrue(lazy.getValue().get("about").getSuggestions().contains("road"));
            assertEquals(1, session.advanced().getNumberOfRequests());
        }
    }

    @Test
    void suggestionsOnAFieldWithoutThemAreRejected() {
        assertThrows(RavenException.class, () -> suggestions(b -> b.byField("region", "bren")));
    }

    private static MoreLikeThisOptions options(int documentFrequency) {
        MoreLikeThisOptions options = new MoreLikeThisOptions();
        options.setMinimumTermFrequency(1);
        options.setMinimumDocumentFrequency(documentFrequency);
        options.setFields(new String[] {"about"});
        return options;
    }

    private List<String> likeRosa(MoreLikeThisOptions options) {
        return search(q -> q.moreLikeThis(
            b -> b.usingDocument(d -> d.whereEquals("id()", "huts/rosa")).withOptions(options)));
    }

    @Test
    void similarDocumentsShareWordsWithTheBase() {
        List<String> found = likeRosa(options(2));
        assertTrue(found.contains("Coaz") && found.contains("Hörnli"), found.toString());
        assertFalse(found.contains("Monte Rosa") || found.contains("Tin Box"), found.toString());
    }

    @Test
    void optionsLimitSimilarityToRareLongOrUnstoppedWords() {
        MoreLikeThisOptions rare = options(1);
        rare.setMaximumDocumentFrequency(2);
        MoreLikeThisOptions longWords = options(2);
        longWords.setMinimumWordLength(8);
        MoreLikeThisOptions stopped = options(2);
        stopped.setStopWordsDocumentId("stops/hut");
        for (MoreLikeThisOptions options : List.of(rare, longWords, stopped)) {
            assertEquals(List.of("Hörnli"), likeRosa(options));
        }
    }

    @Test
    void aTextCanBeTheBase() {
        assertEquals("Finsteraar", search(q -> q.moreLikeThis(
            b -> b.usingDocument("{\"about\": \"a hut far from a road\"}").withOptions(options(1)))).get(0));
    }

    @Test
    void similarDocumentsMeetTheOtherConditionsToo() {
        assertEquals(Set.of("Coaz", "Boval"), Set.copyOf(search(q -> q.whereEquals("region", "grisons").andAlso()
            .moreLikeThis(b -> b.usingDocument(d -> d.whereEquals("id()", "huts/rosa")).withOptions(options(2))))));
    }
}
