using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using Raven.Client.Documents;
using Raven.Client.Documents.Commands.Batches;
using Raven.Client.Documents.Operations;
using Raven.Client.Documents.Operations.CompareExchange;
using Raven.Client.Documents.Session;
using Raven.Client.Exceptions;
using static Checks;

static class Sessions
{
    public static void Run()
    {
        Check("documents are stored, changed, loaded and deleted", store =>
        {
            People.Store(store);
            using (var session = store.OpenSession())
            {
                var ada = session.Load<Employee>("employees/1");
                Equal(1234.50m, ada.Salary);
                Equal(People.Day, ada.HiredAt);
                ada.Age++;
                session.Delete("employees/2");
                Equal(1, session.Advanced.WhatChanged()["employees/1"].Length);
                session.SaveChanges();
            }
            using (var session = store.OpenSession())
            {
                var loaded = session.Load<Employee>(new[] { "employees/1", "employees/2", "employees/3" });
                Equal(37, loaded["employees/1"].Age);
                Equal(null, loaded["employees/2"]);
                True(session.Advanced.Exists("employees/3"), "it exists");
                Equal("Employees", session.Advanced.GetMetadataFor(loaded["employees/1"])["@collection"].ToString());
            }
        });
        Check("ids are made by HiLo, by the server and by identities", store =>
        {
            using var session = store.OpenSession();
            var first = new Company { Name = "HiLo" };
            session.Store(first);
            Equal("companies/1-A", first.Id);
            var server = new Company { Name = "Server" };
            session.Store(server, "companies/");
            var identity = new Company { Name = "Identity" };
            session.Store(identity, "companies|");
            session.SaveChanges();
            True(session.Advanced.GetDocumentId(server).StartsWith("companies/00000"), "the server made an id");
            Equal("companies/1", session.Advanced.GetDocumentId(identity));
        });
        Check("a change of somebody else is a conflict that names the document", store =>
        {
            People.Store(store);
            using var session = store.OpenSession();
            session.Advanced.UseOptimisticConcurrency = true;
            var ada = session.Load<Employee>("employees/1");
            using (var other = store.OpenSession())
            {
                other.Load<Employee>("employees/1").Age = 1;
                other.SaveChanges();
            }
            session.Delete(ada);
            var error = Throws<ConcurrencyException>(() => session.SaveChanges());
#if !RAVEN54
            Equal("employees/1", error.Id);
#endif
        });
        Check("includes and lazy loads take one request", store =>
        {
            People.Store(store);
            using var session = store.OpenSession();
            var grace = session.Include<Employee>(e => e.Manager).Load("employees/2");
            Equal("Ada", session.Load<Employee>(grace.Manager).FirstName);
            Equal(1, session.Advanced.NumberOfRequests);
            var lazy = session.Advanced.Lazily.Load<Employee>("employees/3");
            var query = session.Query<Employee>().Where(e => e.Age > 40).Lazily();
            session.Advanced.Eagerly.ExecuteAllPendingLazyOperations();
            Equal("Alan", lazy.Value.FirstName);
            Equal(2, query.Value.Count());
            Equal(2, session.Advanced.NumberOfRequests);
        });
        Check("patches change in place", store =>
        {
            People.Store(store);
            using (var session = store.OpenSession())
            {
                session.Advanced.Increment<Employee, int>("employees/1", e => e.Age, 4);
                session.Advanced.Patch<Employee, string>("employees/1", e => e.Skills, skills => skills.Add("engines"));
                session.SaveChanges();
            }
            var operation = store.Operations.Send(new PatchByQueryOperation(
                "from Employees where Age > 40 update { this.LastName = this.LastName.toUpperCase(); }"));
            operation.WaitForCompletion();
            using (var session = store.OpenSession())
            {
                var ada = session.Load<Employee>("employees/1");
                Equal(40, ada.Age);
                SameItems(new[] { "math", "poetry", "engines" }, ada.Skills);
                Equal("Lovelace", ada.LastName);
                Equal("HOPPER", session.Load<Employee>("employees/2").LastName);
            }
        });
        Check("attachments keep their bytes", store =>
        {
            People.Store(store);
            using (var session = store.OpenSession())
            {
                var bytes = new MemoryStream(Encoding.UTF8.GetBytes("portrait"));
                session.Advanced.Attachments.Store("employees/1", "face.txt", bytes, "text/plain");
                session.SaveChanges();
            }
            using (var session = store.OpenSession())
            {
                using var found = session.Advanced.Attachments.Get("employees/1", "face.txt");
                Equal("portrait", new StreamReader(found.Stream).ReadToEnd());
                Equal("text/plain", found.Details.ContentType);
                var names = session.Advanced.Attachments.GetNames(session.Load<Employee>("employees/1"));
                Equal("face.txt", names.Single().Name);
            }
        });
        Check("counters add up", store =>
        {
            People.Store(store);
            using (var session = store.OpenSession())
            {
                session.CountersFor("employees/1").Increment("likes", 5);
                session.CountersFor("employees/1").Increment("likes", -2);
                session.SaveChanges();
            }
            using (var session = store.OpenSession())
                Equal(3L, session.CountersFor("employees/1").Get("likes"));
        });
        Check("compare exchange values are exchanged once", store =>
        {
            var put = store.Operations.Send(new PutCompareExchangeValueOperation<string>("leader", "A", 0));
            True(put.Successful, "the first succeeds");
            var again = store.Operations.Send(new PutCompareExchangeValueOperation<string>("leader", "B", 0));
            True(!again.Successful, "the second does not");
            Equal("A", again.Value);
            Equal("A", store.Operations.Send(new GetCompareExchangeValueOperation<string>("leader")).Value);
        });
        Check("a large document goes both ways", store =>
        {
            var text = string.Concat(Enumerable.Range(0, 200_000).Select(number => (char)('a' + number * 7 % 26)));
            using (var session = store.OpenSession())
            {
                session.Store(new Company { Id = "companies/large", Name = text });
                session.SaveChanges();
            }
            using (var session = store.OpenSession())
                Equal(text, session.Load<Company>("companies/large").Name);
        });
    }
}
