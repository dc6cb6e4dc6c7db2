# A few books in a Corvus database: pip install ravendb==7.2.7 && python quickstart.py
import os

from ravendb import DocumentStore
from ravendb.serverwide.database_record import DatabaseRecord
from ravendb.serverwide.operations.common import CreateDatabaseOperation, GetDatabaseNamesOperation


class Book:
    def __init__(self, title=None, year=None):
        self.title = title
        self.year = year


store = DocumentStore(os.environ.get("SERVER_URL", "http://127.0.0.1:8080"), "library")
store.initialize()

# Create the database on the first run.
if "library" not in store.maintenance.server.send(GetDatabaseNamesOperation(0, 1024)):
    store.maintenance.server.send(CreateDatabaseOperation(DatabaseRecord("library")))

# A session collects changes; save_changes() sends them as one transaction.
with store.open_session() as session:
    session.store(Book("Frankenstein", 1818), "books/shelley/frankenstein")
    session.store(Book("The Last Man", 1825), "books/shelley/last-man")
    session.store(Book("Emma", 1815), "books/austen/emma")
    session.save_changes()

with store.open_session() as session:
    session.load("books/shelley/last-man", Book).year = 1826  # the session notices the change
    session.delete("books/austen/emma")
    session.save_changes()

# Load by id, load by the beginning of the id, and query the whole collection.
with store.open_session() as session:
    print("by id:     ", session.load("books/shelley/frankenstein", Book).title)
    print("deleted:   ", session.load("books/austen/emma", Book))
    for book in session.advanced.load_starting_with("books/shelley/", Book):
        print("by prefix: ", book.title, book.year)
    print("collection:", sorted(book.title for book in session.query_collection("Books", Book)))
store.close()
