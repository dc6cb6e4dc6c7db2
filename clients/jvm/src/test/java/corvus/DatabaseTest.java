package corvus;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;

import net.ravendb.client.documents.IDocumentStore;

/** Creates one database per test class and deletes it at the end. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class DatabaseTest {
    protected IDocumentStore store;

    @BeforeAll
    void createDatabase() {
        store = Server.open(Server.uniqueName(getClass().getSimpleName()));
        Server.create(store, store.getDatabase());
    }

    @AfterAll
    void deleteDatabase() {
        Server.delete(store, store.getDatabase());
        store.close();
    }
}
