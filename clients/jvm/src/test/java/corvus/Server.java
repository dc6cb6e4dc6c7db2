package corvus;

import java.util.UUID;

import net.ravendb.client.documents.DocumentStore;
import net.ravendb.client.documents.IDocumentStore;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.serverwide.DatabaseRecord;
import net.ravendb.client.serverwide.operations.CreateDatabaseOperation;
import net.ravendb.client.serverwide.operations.DeleteDatabasesOperation;

/** The server under test (CORVUS_TEST_URL), databases on it, and short ways to save and load. */
final class Server {
    private Server() {
    }

    static String url() {
        String url = System.getenv("CORVUS_TEST_URL");
        if (url == null || url.isEmpty()) {
            throw new IllegalStateException("CORVUS_TEST_URL is not set; start the tests through clients/run");
        }
        return url;
    }

    /** A store on {@code database}, which may be null for server-wide operations. */
    static IDocumentStore open(String database) {
        return new DocumentStore(url(), database).initialize();
    }

    static String uniqueName(String label) {
        return "jvm-" + label + "-" + UUID.randomUUID().toString().substring(0, 10);
    }

    static void create(IDocumentStore store, String name) {
        DatabaseRecord record = new DatabaseRecord();
        record.setDatabaseName(name);
        store.maintenance().server().send(new CreateDatabaseOperation(record));
    }

    static void delete(IDocumentStore store, String name) {
        store.maintenance().server().send(new DeleteDatabasesOperation(name, true));
    }

    static void save(IDocumentStore store, Object entity, String id) {
        try (IDocumentSession session = store.openSession()) {
            session.store(entity, id);
            session.saveChanges();
        }
    }

    static void remove(IDocumentStore store, String id) {
        try (IDocumentSession session = store.openSession()) {
            session.delete(id);
            session.saveChanges();
        }
    }

    static <T> T load(IDocumentStore store, Class<T> type, String id) {
        try (IDocumentSession session = store.openSession()) {
            return session.load(type, id);
        }
    }

    static String changeVector(IDocumentStore store, String id) {
        try (IDocumentSession session = store.openSession()) {
            return session.advanced().getChangeVectorFor(session.load(Object.class, id));
        }
    }
}
