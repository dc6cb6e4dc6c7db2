package corvus;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;

import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.IDocumentStore;
import net.ravendb.client.documents.operations.ToggleDatabasesStateOperation;
import net.ravendb.client.exceptions.ConcurrencyException;
import net.ravendb.client.exceptions.database.DatabaseDisabledException;
import net.ravendb.client.exceptions.database.DatabaseDoesNotExistException;
import net.ravendb.client.serverwide.operations.BuildNumber;
import net.ravendb.client.serverwide.operations.GetBuildNumberOperation;
import net.ravendb.client.serverwide.operations.GetDatabaseNamesOperation;
import net.ravendb.client.serverwide.operations.GetDatabaseRecordOperation;

/** Databases: create, list, disable, enable, delete, and the errors for a missing one. */
class DatabasesTest extends DatabaseTest {
    private List<String> names() {
        return Arrays.asList(store.maintenance().server().send(new GetDatabaseNamesOperation(0, 1024)));
    }

    @Test
    void aCreatedDatabaseIsListedAndHasARecord() {
        assertTrue(names().contains(store.getDatabase()));
        var record = store.maintenance().server().send(new GetDatabaseRecordOperation(store.getDatabase()));
        assertEquals(store.getDatabase(), record.getDatabaseName());
        assertFalse(record.isDisabled());
    }

    @Test
    void creatingADatabaseTwiceIsAConcurrencyError() {
        assertThrows(ConcurrencyException.class, () -> Server.create(store, store.getDatabase()));
    }

    @Test
    void aDeletedDatabaseIsRemovedAndEmptyWhenCreatedAgain() {
        String name = Server.uniqueName("again");
        Server.create(store, name);
        try (IDocumentStore other = Server.open(name)) {
            Server.save(other, new City("old", 1), "cities/1");
        }
        Server.delete(store, name);
        assertFalse(names().contains(name));
        assertNull(store.maintenance().server().send(new GetDatabaseRecordOperation(name)));
        Server.create(store, name);
        try (IDocumentStore other = Server.open(name)) {
            assertNull(Server.load(other, City.class, "cities/1"));
        }
        Server.delete(store, name);
    }

    @Test
    void aDisabledDatabaseRefusesWorkUntilItIsEnabled() {
        String name = Server.uniqueName("disabled");
        Server.create(store, name);
        try (IDocumentStore other = Server.open(name)) {
            Server.save(other, new City("stays", 1), "cities/1");
        }
        store.maintenance().server().send(new ToggleDatabasesStateOperation(name, true));
        try (IDocumentStore other = Server.open(name)) {
            assertThrows(DatabaseDisabledException.class, () -> Server.load(other, City.class, "cities/1"));
        }
        store.maintenance().server().send(new ToggleDatabasesStateOperation(name, false));
        try (IDocumentStore other = Server.open(name)) {
            assertEquals("stays", Server.load(other, City.class, "cities/1").getName());
        }
        Server.delete(store, name);
    }

    @Test
    void anUnknownDatabaseIsReported() {
        try (IDocumentStore other = Server.open("jvm-never-created")) {
            assertThrows(DatabaseDoesNotExistException.class, () -> Server.load(other, City.class, "cities/1"));
            assertThrows(DatabaseDoesNotExistException.class, () -> Server.save(other, new City("x", 1), "cities/1"));
        }
    }

    @Test
    void theBuildNumberNamesTheProductVersion() {
        BuildNumber build = store.maintenance().server().send(new GetBuildNumberOperation());
        assertTrue(build.getBuildVersion() > 0);
        assertTrue(build.getFullVersion().startsWith(build.getProductVersion()));
    }
}
