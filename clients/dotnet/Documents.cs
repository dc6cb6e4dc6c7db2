using System;
using System.Collections.Generic;
using System.Linq;
using Raven.Client.Documents;
using Raven.Client.Documents.BulkInsert;
using Raven.Client.Documents.Operations;
using Raven.Client.Documents.Operations.Revisions;
using Raven.Client.Documents.Queries.TimeSeries;
using Raven.Client.Documents.Session.TimeSeries;
using static Checks;

static class Documents
{
    public static void Run()
    {
        Check("bulk inserts", store =>
        {
            using (var bulk = store.BulkInsert())
                foreach (var number in Enumerable.Range(0, 5000))
                    bulk.Store(new Company { Name = "c" + number }, "companies/" + number);
            Equal(5000L, store.Maintenance.Send(new GetStatisticsOperation()).CountOfDocuments);
            using var session = store.OpenSession();
            Equal("c4321", session.Load<Company>("companies/4321").Name);
        });
        Check("bulk inserts of counters, attachments and time series", store =>
        {
            People.Store(store);
            using (var bulk = store.BulkInsert())
            {
                bulk.CountersFor("employees/1").Increment("likes", 7);
                using var series = bulk.TimeSeriesFor("employees/1", "pulse");
                foreach (var minute in Enumerable.Range(0, 100))
                    series.Append(People.Day.AddMinutes(minute), 60 + minute, "watches/1");
            }
            using var session = store.OpenSession();
            Equal(7L, session.CountersFor("employees/1").Get("likes"));
            var entries = session.TimeSeriesFor("employees/1", "pulse").Get();
            Equal(100, entries.Length);
            Equal(People.Day, entries[0].Timestamp);
            Equal(159.0, entries[99].Value);
            Equal("watches/1", entries[5].Tag);
        });
        Check("time series: ranges, deletions, queries", store =>
        {
            People.Store(store);
            using (var session = store.OpenSession())
            {
                var series = session.TimeSeriesFor("employees/1", "pulse");
                foreach (var hour in Enumerable.Range(0, 48)) series.Append(People.Day.Date.AddHours(hour), new[] { 60.0 + hour, 1 });
                session.SaveChanges();
            }
            using (var session = store.OpenSession())
            {
                session.TimeSeriesFor("employees/1", "pulse").Delete(People.Day.Date, People.Day.Date.AddHours(5));
                session.SaveChanges();
                var found = session.TimeSeriesFor("employees/1", "pulse").Get(People.Day.Date, People.Day.Date.AddHours(10));
                Equal(5, found.Length);
                var query = session.Advanced.RawQuery<TimeSeriesAggregationResult>(
                    "from Employees as e where id() = 'employees/1' select timeseries(from e.pulse group by '1 day' select max(), count())");
                var result = query.Single();
                Equal(42L, result.Count);
                Equal(2, result.Results.Length);
                Equal(107.0, result.Results[1].Max[0]);
            }
        });
        Check("revisions", store =>
        {
            store.Maintenance.Send(new ConfigureRevisionsOperation(new RevisionsConfiguration
                { Default = new RevisionsCollectionConfiguration { MinimumRevisionsToKeep = 3 } }));
            foreach (var name in new[] { "a", "b", "c", "d" })
            {
                using var session = store.OpenSession();
                session.Store(new Company { Name = name }, "companies/1");
                session.SaveChanges();
            }
            using (var session = store.OpenSession())
            {
                var revisions = session.Advanced.Revisions.GetFor<Company>("companies/1");
                SameItems(new[] { "d", "c", "b" }, revisions.Select(revision => revision.Name));
            }
        });
        Check("deleting by query", store =>
        {
            People.Store(store);
            var operation = store.Operations.Send(new DeleteByQueryOperation("from Employees where Age > 40"));
            operation.WaitForCompletion(TimeSpan.FromSeconds(30));
            Equal(1L, store.Maintenance.Send(new GetStatisticsOperation()).CountOfDocuments);
        });
    }
}
