package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.junit.jupiter.api.Test;

import net.ravendb.client.Parameters;
import net.ravendb.client.documents.commands.batches.BatchPatchCommandData;
import net.ravendb.client.documents.commands.batches.PatchCommandData;
import net.ravendb.client.documents.operations.DeleteByQueryOperation;
import net.ravendb.client.documents.operations.PatchByQueryOperation;
import net.ravendb.client.documents.operations.PatchOperation;
import net.ravendb.client.documents.operations.PatchRequest;
import net.ravendb.client.documents.operations.PatchStatus;
import net.ravendb.client.documents.queries.IndexQuery;
import net.ravendb.client.documents.queries.QueryOperationOptions;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.exceptions.ConcurrencyException;
import net.ravendb.client.exceptions.documents.patching.JavaScriptException;

/** Patching documents by scripts: operations, sessions, and by query. */
class PatchingTest extends DatabaseTest {
    private static PatchRequest request(String script, Map<String, Object> values) {
        PatchRequest request = PatchRequest.forScript(script);
        request.setValues(values);
        return request;
    }

    private PatchStatus patch(String id, String version, String script, Map<String, Object> values) {
        return store.operations().send(new PatchOperation(id, version, request(script, values)));
    }

    private static QueryOperationOptions patient() {
        QueryOperationOptions options = new QueryOperationOptions();
        options.setStaleTimeout(Duration.ofMinutes(1));
        return options;
    }

    private void changeByQuery(String text, Parameters parameters) {
        IndexQuery query = new IndexQuery(text);
        query.setQueryParameters(parameters);
        store.operations().sendAsync(new PatchByQueryOperation(query, patient())).waitForCompletion();
    }

    private City city(String id) {
        return Server.load(store, City.class, id);
    }

    @Test
    void aPatchChangesADocumentAndReturnsItsStatus() {
        Server.save(store, new City("Ulm", 5), "patch/1");
        String script = "this.population += args.more; this.twins.push(args.twin)";
        assertEquals(PatchStatus.PATCHED, patch("patch/1", null, script, Map.of("more", 2, "twin", "Jena")));
        assertEquals(7, city("patch/1").getPopulation());
        assertEquals(List.of("Jena"), city("patch/1").getTwins());
        assertEquals(PatchStatus.NOT_MODIFIED, patch("patch/1", null, "this.population = 7", Map.of()));
        assertEquals(PatchStatus.DOCUMENT_DOES_NOT_EXIST, patch("nope", null, "this.a = 1", Map.of()));
    }

    @Test
    void aPatchAtAnotherVersionIsRejected() {
        Server.save(store, new City("Ulm", 0), "version/1");
        String stale = Server.changeVector(store, "version/1");
        patch("version/1", stale, "this.population = 1", Map.of());
        assertThrows(ConcurrencyException.class, () -> patch("version/1", stale, "this.population = 2", Map.of()));
        assertEquals(1, city("version/1").getPopulation());
    }

    @Test
    void aFailingScriptChangesNothing() {
        Server.save(store, new City("Ulm", 0), "failing/1");
        String leak = "this.population = 1; throw new Error('leak')";
        assertThrows(JavaScriptException.class, () -> patch("failing/1", null, leak, Map.of()));
        assertEquals(0, city("failing/1").getPopulation());
    }

    @Test
    void aSessionPatchesWithoutLoading() {
        City ulm = new City("Ulm", 5);
        ulm.setTwins(List.of("Wien", "Jena"));
        Server.save(store, ulm, "session/1");
        try (IDocumentSession session = store.openSession()) {
            session.advanced().patch("session/1", "name", "Neu-Ulm");
            session.advanced().increment("session/1", "population", 3);
            session.advanced().<City, String>patchArray("session/1", "twins", twins -> twins.add("Graz").removeAt(0));
            session.saveChanges();
        }
        City patched = city("session/1");
        assertEquals("Neu-Ulm", patched.getName());
        assertEquals(8, patched.getPopulation());
        assertEquals(List.of("Jena", "Graz"), patched.getTwins());
    }

    @Test
    void aSessionAddsADocumentOrPatchesIt() {
        for (long expected : new long[] {1, 6}) {
            try (IDocumentSession session = store.openSession()) {
                session.advanced().addOrIncrement("added/1", new City("Ulm", 1), "population", 5);
                session.saveChanges();
            }
            assertEquals(expected, city("added/1").getPopulation());
        }
    }

    @Test
    void deferredPatchesAreAppliedWithTheirBatchOrNotAtAll() {
        Server.save(store, new City("a", 0), "deferred/1");
        Server.save(store, new City("b", 0), "deferred/2");
        try (IDocumentSession session = store.openSession()) {
            PatchRequest script = request("this.population = args.n", Map.of("n", 4));
            session.advanced().defer(new BatchPatchCommandData(script, null, "deferred/1", "deferred/2"));
            session.saveChanges();
        }
        assertEquals(4, city("deferred/2").getPopulation());
        try (IDocumentSession session = store.openSession()) {
            PatchRequest works = PatchRequest.forScript("this.population = 9");
            PatchRequest fails = PatchRequest.forScript("throw 'no'");
            session.advanced().defer(new PatchCommandData("deferred/1", null, works, null));
            session.advanced().defer(new PatchCommandData("deferred/2", null, fails, null));
            assertThrows(JavaScriptException.class, session::saveChanges);
        }
        assertEquals(4, city("deferred/1").getPopulation());
    }

    @Test
    void documentsThatMatchAQueryArePatchedAndDeleted() {
        for (int n = 0; n < 4; n++) {
            Server.save(store, new City("set", n), "set/" + n);
        }
        String chosen = "from Cities where population > $least and name = 'set'";
        Parameters parameters = new Parameters();
        parameters.put("least", 1);
        parameters.put("by", 10);
        changeByQuery(chosen + " update { this.population += args.by }", parameters);
        assertEquals(List.of(0L, 1L, 12L, 13L),
                List.of(0, 1, 2, 3).stream().map(n -> city("set/" + n).getPopulation()).toList());
        IndexQuery query = new IndexQuery("from Cities where population > 12 and name = 'set'");
        store.operations().sendAsync(new DeleteByQueryOperation(query, patient())).waitForCompletion();
        assertNull(city("set/3"));
        assertEquals(12, city("set/2").getPopulation());
    }

    @Test
    void aFailingScriptIsReportedByTheOperation() {
        Server.save(store, new City("Vineta", 1), "sunk/1");
        Exception error = assertThrows(Exception.class,
                () -> changeByQuery("from Cities where name = 'Vineta' update { throw 'sunk' }", new Parameters()));
        assertTrue(error.getMessage().contains("sunk"), error.getMessage());
        assertEquals(1, city("sunk/1").getPopulation());
    }
}
