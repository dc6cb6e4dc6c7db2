using System.Linq;
using Raven.Client.Documents;
using Raven.Client.Documents.Indexes;
using Raven.Client.Documents.Operations.Indexes;
using Raven.Client.ServerWide.Operations;
using static Checks;

class Employees_ByName : AbstractIndexCreationTask<Employee>
{
    public Employees_ByName()
    {
        Map = employees => from e in employees
                           let manager = LoadDocument<Employee>(e.Manager)
                           select new { Name = e.FirstName + " " + e.LastName, Boss = manager.FirstName, Pay = e.Salary * 2 };
        Index("Name", FieldIndexing.Search);
        Store("Pay", FieldStorage.Yes);
    }
}

class Lines_ByProduct : AbstractIndexCreationTask<Order, Lines_ByProduct.Result>
{
    public class Result
    {
        public string Product { get; set; }
        public int Quantity { get; set; }
        public decimal Total { get; set; }
    }

    public Lines_ByProduct()
    {
        Map = orders => from order in orders
                        from line in order.Lines
                        select new Result { Product = line.Product, Quantity = line.Quantity, Total = line.Price * line.Quantity };
        Reduce = results => from result in results
                            group result by result.Product into g
                            select new Result { Product = g.Key, Quantity = g.Sum(x => x.Quantity), Total = g.Sum(x => x.Total) };
    }
}

class Employees_InScript : AbstractJavaScriptIndexCreationTask
{
    public Employees_InScript()
    {
        Maps = new() { "map('Employees', e => ({ City: e.Home.City, Skill: e.Skills }))" };
    }
}

static class Indexes
{
    public static void Run()
    {
        Check("maps with related documents", store =>
        {
            People.Store(store);
            new Employees_ByName().Execute(store);
            WaitForIndexes(store);
            using var session = store.OpenSession();
            var found = session.Advanced.DocumentQuery<Employee, Employees_ByName>().Search("Name", "turing")
                .AndAlso().WhereEquals("Boss", "Ada").ToList();
            Equal("Alan", found.Single().FirstName);
        });
        Check("map-reduce in decimals", store =>
        {
            new Lines_ByProduct().Execute(store);
            using (var session = store.OpenSession())
            {
                foreach (var number in Enumerable.Range(1, 20))
                    session.Store(new Order { Lines = {
                        new Line { Product = "tea", Quantity = number, Price = 0.1m },
                        new Line { Product = number % 2 == 0 ? "milk" : "sugar", Quantity = 1, Price = 1.25m } } });
                session.SaveChanges();
            }
            WaitForIndexes(store);
            using (var session = store.OpenSession())
            {
                var rows = session.Query<Lines_ByProduct.Result, Lines_ByProduct>().OrderBy(r => r.Product).ToList();
                SameItems(new[] { "milk:10:12.50", "sugar:10:12.50", "tea:210:21.0" },
                    rows.Select(r => string.Create(System.Globalization.CultureInfo.InvariantCulture, $"{r.Product}:{r.Quantity}:{r.Total}")));
            }
        });
        Check("JavaScript", store =>
        {
            People.Store(store);
            new Employees_InScript().Execute(store);
            WaitForIndexes(store);
            using var session = store.OpenSession();
            Equal(2, session.Advanced.DocumentQuery<Employee>("Employees/InScript").WhereEquals("Skill", "math").ToList().Count);
        });
        Check("definitions are returned, also in the record", store =>
        {
            new Employees_ByName().Execute(store);
            new Lines_ByProduct().Execute(store);
            var definition = store.Maintenance.Send(new GetIndexOperation("Lines/ByProduct"));
            Equal(IndexType.MapReduce, definition.Type);
            True(!new Employees_ByName().CreateIndexDefinition().Maps.Any(string.IsNullOrEmpty), "it has maps");
            var record = store.Maintenance.Server.Send(new GetDatabaseRecordOperation(store.Database));
            Equal(2, record.Indexes.Count);
            Equal(IndexType.Map, record.Indexes["Employees/ByName"].Type);
            Equal(IndexSourceType.Documents, record.Indexes["Lines/ByProduct"].SourceType);
            SameItems(new[] { "Employees/ByName", "Lines/ByProduct" },
                store.Maintenance.Send(new GetIndexNamesOperation(0, 10)).OrderBy(name => name));
            store.Maintenance.Send(new DeleteIndexOperation("Employees/ByName"));
            Equal(1, store.Maintenance.Send(new GetIndexStatisticsOperation("Lines/ByProduct")).ReduceAttempts == null ? 0 : 1);
        });
    }
}
