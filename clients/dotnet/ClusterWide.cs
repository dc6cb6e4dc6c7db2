using System.Linq;
using Raven.Client.Documents;
using Raven.Client.Documents.Session;
using Raven.Client.Exceptions;
using static Checks;

static class ClusterWide
{
    static IDocumentSession Open(IDocumentStore store) =>
        store.OpenSession(new SessionOptions { TransactionMode = TransactionMode.ClusterWide });

    public static void Run()
    {
        Check("documents and values in one transaction", store =>
        {
            using (var session = Open(store))
            {
                session.Store(new Company { Name = "one" }, "companies/1");
                session.Advanced.ClusterTransaction.CreateCompareExchangeValue("names/one", "companies/1");
                session.SaveChanges();
            }
            using (var session = Open(store))
            {
                Equal("one", session.Load<Company>("companies/1").Name);
                var value = session.Advanced.ClusterTransaction.GetCompareExchangeValue<string>("names/one");
                Equal("companies/1", value.Value);
                value.Value = "companies/2";
                session.Load<Company>("companies/1").Name = "two";
                session.SaveChanges();
            }
            using (var session = Open(store))
                Equal("two", session.Load<Company>("companies/1").Name);
        });
        Check("of two transactions that change one document, one fails completely", store =>
        {
            using (var session = Open(store))
            {
                session.Store(new Company { Name = "one" }, "companies/1");
                session.SaveChanges();
            }
            using var first = Open(store);
            using var second = Open(store);
            first.Load<Company>("companies/1").Name = "first";
            second.Load<Company>("companies/1").Name = "second";
            second.Store(new Company { Name = "beside" }, "companies/2");
            first.SaveChanges();
            Throws<ClusterTransactionConcurrencyException>(() => second.SaveChanges());
            using var reader = store.OpenSession();
            Equal("first", reader.Load<Company>("companies/1").Name);
            Equal(null, reader.Load<Company>("companies/2"));
        });
    }
}
