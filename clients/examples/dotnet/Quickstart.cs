// A few books in a Corvus database, with the package RavenDB.Client.
using System;
using System.Linq;
using Raven.Client.Documents;
using Raven.Client.ServerWide;
using Raven.Client.ServerWide.Operations;

var url = Environment.GetEnvironmentVariable("SERVER_URL") ?? "http://127.0.0.1:8080";
using var store = new DocumentStore { Urls = new[] { url }, Database = "shelf" };
store.Initialize();

// Create the database on the first run.
var server = store.Maintenance.Server;
if (!server.Send(new GetDatabaseNamesOperation(0, 1024)).Contains(store.Database))
    server.Send(new CreateDatabaseOperation(new DatabaseRecord(store.Database)));

// A session collects changes; SaveChanges() sends them as one transaction.
using (var session = store.OpenSession())
{
    session.Store(new Book { Title = "Frankenstein", Year = 1818 }, "books/shelley/frankenstein");
    session.Store(new Book { Title = "The Last Man", Year = 1826 }, "books/shelley/last-man");
    session.Store(new Book { Title = "Emma", Year = 1815 }, "books/austen/emma");
    session.SaveChanges();
}

// Load by id, and query with LINQ. The query creates the index that it needs.
using (var session = store.OpenSession())
{
    Console.WriteLine("by id:    " + session.Load<Book>("books/austen/emma").Title);
    var old = session.Query<Book>()
        .Customize(query => query.WaitForNonStaleResults())
        .Where(book => book.Year < 1820)
        .OrderBy(book => book.Year)
        .Select(book => book.Title);
    Console.WriteLine("by query: " + string.Join(", ", old));
}

class Book
{
    public string Title { get; set; }
    public int Year { get; set; }
}
