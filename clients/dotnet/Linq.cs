using System;
using System.Linq;
using Raven.Client.Documents;
using Raven.Client.Documents.Linq;
using Raven.Client.Documents.Queries;
using Raven.Client.Documents.Session;
using static Checks;

static class Linq
{
    static void Query(string name, Action<IDocumentSession> body) => Check(name, store =>
    {
        People.Store(store);
        using var session = store.OpenSession();
        session.Advanced.OnBeforeQuery += (_, query) => query.QueryCustomization.WaitForNonStaleResults();
        body(session);
    });

    public static void Run()
    {
        Query("conditions", session =>
        {
            var query = session.Query<Employee>();
            SameItems(new[] { "Grace", "Alan" }, query.Where(e => e.Age > 40).OrderByDescending(e => e.Age)
                .ToList().Select(e => e.FirstName));
            Equal("Ada", query.Single(e => e.FirstName.StartsWith("a") && e.LastName.EndsWith("lace")).FirstName);
            Equal(2, query.Count(e => e.Skills.Contains("math")));
            Equal(2, query.Count(e => e.Home.City == "London"));
            Equal(2, query.Count(e => e.FirstName.In("Ada", "Alan")));
            Equal(1, query.Count(e => e.Rank == Rank.Lead));
            Equal(1, query.Count(e => e.Rating == null));
            Equal(2, query.Count(e => e.HiredAt >= People.Day));
            Equal(1, query.Count(e => e.Salary < 1m));
            Equal(2, query.Count(e => e.Shift > TimeSpan.FromHours(7)));
            SameItems(new[] { "Grace", "Ada", "Alan" }, query.OrderBy(e => e.Shift).ToList().Select(e => e.FirstName));
            Equal(1, query.Search(e => e.LastName, "turing").Count());
        });
        Query("projections in C#", session =>
        {
            var day = People.Day;
            var rows = session.Query<Employee>().OrderBy(e => e.Age).Select(e => new
            {
                Name = e.FirstName + " " + e.LastName,
                Day = e.HiredAt.ToString("yyyy-MM-dd"),
                Pay = e.Salary.ToString("0.00"),
                IsLater = e.HiredAt > day,
                First = e.Skills.FirstOrDefault(),
                Poems = e.Skills.Where(s => s.StartsWith("po")).Select(s => s.ToUpper()).ToList(),
                e.Home.City,
            }).ToList();
            Equal("Ada Lovelace", rows[0].Name);
            Equal("2020-03-05", rows[0].Day);
            Equal("1234.50", rows[0].Pay);
            SameItems(new[] { false, true, false }, rows.Select(row => row.IsLater));
            Equal("math", rows[0].First);
            SameItems(new[] { "POETRY" }, rows[0].Poems);
            Equal("New York", rows[2].City);
        });
        Query("whole documents within a projection keep their id", session =>
        {
            var rows = session.Query<Employee>().OrderBy(e => e.Age).Select(e => new { Emp = e }).ToList();
            Equal("employees/1", rows[0].Emp.Id);
        });
        Query("related documents in a projection", session =>
        {
            var rows = (from e in session.Query<Employee>()
                        where e.Manager != null
                        orderby e.Age
                        let manager = RavenQuery.Load<Employee>(e.Manager)
                        select new { e.FirstName, Manager = manager.FirstName }).ToList();
            SameItems(new[] { "Alan:Ada", "Grace:Ada" }, rows.Select(row => row.FirstName + ":" + row.Manager));
        });
        Query("group by, distinct, pages, statistics", session =>
        {
            var groups = session.Query<Employee>().GroupBy(e => e.Home.City)
                .Select(g => new { City = g.Key, Count = g.Count(), Ages = g.Sum(e => e.Age) })
                .OrderBy(g => g.City).ToList();
            SameItems(new[] { "London:2:77", "New York:1:85" }, groups.Select(g => $"{g.City}:{g.Count}:{g.Ages}"));
            Equal(2, session.Query<Employee>().Select(e => e.Home.Country).Distinct().Count());
            var page = session.Query<Employee>().Statistics(out var statistics).OrderBy(e => e.Age).Skip(1).Take(1).ToList();
            Equal("Alan", page.Single().FirstName);
            Equal(3L, Convert.ToInt64(statistics.TotalResults));
            Equal(1, session.Advanced.RawQuery<Employee>("from Employees where Age = $age")
                .AddParameter("age", 36).ToList().Count);
        });
        Query("streams", session =>
        {
            var count = 0;
            using var stream = session.Advanced.Stream(session.Query<Employee>().Where(e => e.Age > 0));
            while (stream.MoveNext()) count++;
            Equal(3, count);
        });
    }
}
