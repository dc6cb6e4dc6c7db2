using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Raven.Client.Documents;
using Raven.Client.Documents.Changes;
using Raven.Client.Documents.Subscriptions;
using static Checks;

static class Watching
{
    static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);

    // The documents that a subscription sends, up to the given number.
    static List<string> Sent(IDocumentStore store, string name, int count)
    {
        var options = new SubscriptionWorkerOptions(name) { TimeToWaitBeforeConnectionRetry = TimeSpan.FromMilliseconds(100) };
        using var worker = store.Subscriptions.GetSubscriptionWorker<Employee>(options);
        var ids = new ConcurrentQueue<string>();
        using var all = new CountdownEvent(count);
        var running = worker.Run(batch =>
        {
            foreach (var item in batch.Items)
            {
                ids.Enqueue(item.Id);
                if (!all.IsSet) all.Signal();
            }
        });
        True(WaitHandle.WaitAny(new[] { all.WaitHandle, ((IAsyncResult)running).AsyncWaitHandle }, Patience) == 0,
            "not all were sent: " + running.Exception);
        return ids.ToList();
    }

    public static void Run()
    {
        Check("subscriptions with lambdas", store =>
        {
            People.Store(store);
            var name = store.Subscriptions.Create<Employee>(e => e.Age >= 40 && e.FirstName.StartsWith("A"));
            SameItems(new[] { "employees/3" }, Sent(store, name, 1));
            var all = store.Subscriptions.Create<Employee>();
            Equal(3, Sent(store, all, 3).Count);
            var state = store.Subscriptions.GetSubscriptions(0, 10);
            Equal(2, state.Count);
        });
        Check("subscriptions that project and include", store =>
        {
            People.Store(store);
            var name = store.Subscriptions.Create(new SubscriptionCreationOptions<Employee>
            {
                Filter = e => e.Manager != null,
                Projection = e => new { e.FirstName, City = e.Home.City },
                Includes = builder => builder.IncludeDocuments(e => e.Manager),
            });
            using var worker = store.Subscriptions.GetSubscriptionWorker<Employee>(name);
            var names = new ConcurrentQueue<string>();
            using var both = new CountdownEvent(2);
            _ = worker.Run(batch =>
            {
                foreach (var item in batch.Items)
                {
                    names.Enqueue(item.Result.FirstName);
                    if (!both.IsSet) both.Signal();
                }
            });
            True(both.Wait(Patience), "both are sent");
            SameItems(new[] { "Alan", "Grace" }, names.OrderBy(one => one));
        });
        Check("changes of documents and indexes", store =>
        {
            using var document = new ManualResetEventSlim();
            using var index = new ManualResetEventSlim();
            var changes = store.Changes();
            changes.EnsureConnectedNow().GetAwaiter().GetResult();
            var documents = changes.ForDocumentsInCollection<Employee>();
            documents.EnsureSubscribedNow().GetAwaiter().GetResult();
            var indexes = changes.ForAllIndexes();
            indexes.EnsureSubscribedNow().GetAwaiter().GetResult();
            using var one = documents.Subscribe(new Seen<DocumentChange>(change =>
            {
                if (change.Id == "employees/2" && change.Type == DocumentChangeTypes.Put) document.Set();
            }));
            using var other = indexes.Subscribe(new Seen<IndexChange>(change =>
            {
                if (change.Type == IndexChangeTypes.IndexAdded) index.Set();
            }));
            People.Store(store);
            new Employees_ByName().Execute(store);
            True(document.Wait(Patience), "the document is reported");
            True(index.Wait(Patience), "the index is reported");
        });
    }

    sealed class Seen<T> : IObserver<T>
    {
        readonly Action<T> body;
        public Seen(Action<T> body) => this.body = body;
        public void OnNext(T value) => body(value);
        public void OnError(Exception error) { }
        public void OnCompleted() { }
    }
}
