// A program of checks, each of which throws when a result is unexpected. Prints a line for each failed
// check and, at the end, `dotnet: N passed, N failed`.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using Raven.Client.Documents;
using Raven.Client.Documents.Operations;
using Raven.Client.ServerWide;
using Raven.Client.ServerWide.Operations;

static class Checks
{
    static int passed, failed;
    static string url;

    static int Main(string[] arguments)
    {
        url = arguments[0];
        Console.WriteLine($"dotnet: client {typeof(DocumentStore).Assembly.GetName().Version}");
        Sessions.Run();
        Linq.Run();
        Indexes.Run();
        Documents.Run();
        Watching.Run();
        ClusterWide.Run();
        Console.WriteLine($"dotnet: {passed} passed, {failed} failed");
        return failed == 0 ? 0 : 1;
    }

    // Runs a check on a new database.
    public static void Check(string name, Action<IDocumentStore> body)
    {
        var database = "dotnet-" + Guid.NewGuid().ToString("N");
        try
        {
            using var store = new DocumentStore { Urls = new[] { url }, Database = database };
            store.Initialize();
            store.Maintenance.Server.Send(new CreateDatabaseOperation(new DatabaseRecord(database)));
            try
            {
                body(store);
            }
            finally
            {
                store.Maintenance.Server.Send(new DeleteDatabasesOperation(database, hardDelete: true));
            }
            passed++;
        }
        catch (Exception error)
        {
            failed++;
            Console.WriteLine($"dotnet: {name}: {error}");
        }
    }

    public static void Equal<T>(T expected, T actual, string what = "value")
    {
        if (!EqualityComparer<T>.Default.Equals(expected, actual)) throw new Exception($"{what}: expected {Shown(expected)}, found {Shown(actual)}");
    }

    public static void SameItems<T>(IEnumerable<T> expected, IEnumerable<T> actual)
    {
        if (!expected.SequenceEqual(actual)) throw new Exception($"expected {Shown(expected)}, found {Shown(actual.ToList())}");
    }

    public static void True(bool holds, string what)
    {
        if (!holds) throw new Exception(what);
    }

    public static E Throws<E>(Action action) where E : Exception
    {
        try
        {
            action();
        }
        catch (E error)
        {
            return error;
        }
        throw new Exception($"no {typeof(E).Name} was thrown");
    }

    // Waits until no index of the database is stale.
    public static void WaitForIndexes(IDocumentStore store)
    {
        for (var tries = 0; tries < 300; tries++)
        {
            if (store.Maintenance.Send(new GetStatisticsOperation()).StaleIndexes.Length == 0) return;
            Thread.Sleep(50);
        }
        throw new Exception("the indexes stayed stale");
    }

    static string Shown(object value) => value switch
    {
        null => "null",
        string text => $"'{text}'",
        IEnumerable many => "[" + string.Join(", ", many.Cast<object>().Select(Shown)) + "]",
        _ => value.ToString(),
    };
}
