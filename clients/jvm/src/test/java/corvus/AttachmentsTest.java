package corvus;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;

import org.apache.commons.io.IOUtils;
import org.junit.jupiter.api.Test;

import net.ravendb.client.documents.BulkInsertOperation;
import net.ravendb.client.documents.operations.attachments.AttachmentDetails;
import net.ravendb.client.documents.operations.attachments.AttachmentName;
import net.ravendb.client.documents.operations.attachments.AttachmentRequest;
import net.ravendb.client.documents.operations.attachments.CloseableAttachmentResult;
import net.ravendb.client.documents.operations.attachments.CloseableAttachmentsResult;
import net.ravendb.client.documents.operations.attachments.DeleteAttachmentOperation;
import net.ravendb.client.documents.operations.attachments.PutAttachmentOperation;
import net.ravendb.client.documents.session.IDocumentSession;
import net.ravendb.client.exceptions.ConcurrencyException;

/** Attachments: stored and read by sessions and operations, in bulk, copied, moved, renamed. */
class AttachmentsTest extends DatabaseTest {
    private static final String HELLO = "Mk3PAn3UowqTLEQfNlol6GsXPe+kuOWJSCU0cbgbcs8=";

    private static InputStream stream(String content) {
        return new ByteArrayInputStream(content.getBytes(StandardCharsets.UTF_8));
    }

    private byte[] contentOf(String id, String name) throws IOException {
        try (IDocumentSession session = store.openSession();
                CloseableAttachmentResult found = session.advanced().attachments().get(id, name)) {
            return found == null ? null : IOUtils.toByteArray(found.getData());
        }
    }

    private List<String> namesOf(String id) {
        try (IDocumentSession session = store.openSession()) {
            City city = session.load(City.class, id);
            return Arrays.stream(session.advanced().attachments().getNames(city))
                    .map(AttachmentName::getName)
                    .collect(Collectors.toList());
        }
    }

    private void attach(String id, String name, String content) {
        try (IDocumentSession session = store.openSession()) {
            session.advanced().attachments().store(id, name, stream(content), "text/plain");
            session.saveChanges();
        }
    }

    @Test
    void aSessionStoresADocumentWithItsAttachments() throws IOException {
        byte[] large = new byte[3 << 20];
        new Random(7).nextBytes(large);
        try (IDocumentSession session = store.openSession()) {
            session.store(new City("Chur", 1), "attached/1");
            session.advanced().attachments().store("attached/1", "hello.txt", stream("hello"), "text/plain");
            session.advanced().attachments()
                    .store("attached/1", "large", new ByteArrayInputStream(large), "x/y");
            session.saveChanges();
        }
        assertEquals(List.of("hello.txt", "large"), namesOf("attached/1"));
        assertArrayEquals("hello".getBytes(StandardCharsets.UTF_8), contentOf("attached/1", "HELLO.txt"));
        assertArrayEquals(large, contentOf("attached/1", "large"));
        assertNull(contentOf("attached/1", "nothing"));
        try (IDocumentSession session = store.openSession()) {
            assertTrue(session.advanced().attachments().exists("attached/1", "large"));
            assertFalse(session.advanced().attachments().exists("attached/1", "nothing"));
        }
    }

    @Test
    void operationsPutAndDelete() {
        Server.save(store, new City("Basel", 1), "attached/2");
        AttachmentDetails stored = store.operations()
                .send(new PutAttachmentOperation("attached/2", "a", stream("hello"), "text/plain"));
        assertEquals(HELLO, stored.getHash());
        assertEquals(5, stored.getSize());
        assertThrows(ConcurrencyException.class, () -> store.operations()
                .send(new PutAttachmentOperation("attached/2", "a", stream("x"), "t/x", "A:1-wrong")));
        store.operations().send(new DeleteAttachmentOperation("attached/2", "a"));
        assertEquals(List.of(), namesOf("attached/2"));
    }

    @Test
    void attachmentsAreCopiedMovedAndRenamed() throws IOException {
        Server.save(store, new City("from", 1), "attached/4");
        Server.save(store, new City("to", 1), "attached/5");
        attach("attached/4", "a", "hello");
        try (IDocumentSession session = store.openSession()) {
            session.advanced().attachments().copy("attached/4", "a", "attached/5", "copied");
            session.saveChanges();
        }
        try (IDocumentSession session = store.openSession()) {
            session.advanced().attachments().rename("attached/4", "a", "b");
            session.saveChanges();
        }
        try (IDocumentSession session = store.openSession()) {
            session.advanced().attachments().move("attached/4", "b", "attached/5", "moved");
            session.saveChanges();
        }
        assertEquals(List.of(), namesOf("attached/4"));
        assertEquals(List.of("copied", "moved"), namesOf("attached/5"));
        assertArrayEquals("hello".getBytes(StandardCharsets.UTF_8), contentOf("attached/5", "moved"));
    }

    @Test
    void manyAttachmentsAreReadAtOnce() throws Exception {
        Server.save(store, new City("many", 1), "attached/6");
        attach("attached/6", "a", "first");
        attach("attached/6", "b", "second");
        List<AttachmentRequest> requests = List.of(
                new AttachmentRequest("attached/6", "a"),
                new AttachmentRequest("attached/6", "nothing"),
                new AttachmentRequest("attached/6", "b"));
        try (IDocumentSession session = store.openSession();
                CloseableAttachmentsResult found = session.advanced().attachments().get(requests)) {
            StringBuilder contents = new StringBuilder();
            while (found.hasNext()) {
                contents.append(IOUtils.toString(found.next().getStream(), StandardCharsets.UTF_8)).append(' ');
            }
            assertEquals("first second ", contents.toString());
        }
    }

    @Test
    void bulkInsertsCanContainAttachments() throws IOException {
        try (BulkInsertOperation insert = store.bulkInsert()) {
            insert.store(new City("bulk", 1), "attached/7");
            insert.attachmentsFor("attached/7").store("a", "],}".getBytes(StandardCharsets.UTF_8));
            insert.store(new City("other", 1), "attached/8");
        }
        assertArrayEquals("],}".getBytes(StandardCharsets.UTF_8), contentOf("attached/7", "a"));
    }
}
