import os
import queue

from ravendb import AbstractIndexCreationTask, DocumentStore
from ravendb.documents.operations.patch import PatchByQueryOperation
from ravendb.documents.session.misc import OrderingType
from ravendb.documents.subscriptions.options import SubscriptionCreationOptions, SubscriptionWorkerOptions
from ravendb.serverwide.database_record import DatabaseRecord
from ravendb.serverwide.operations.common import CreateDatabaseOperation, DeleteDatabaseOperation

store = DocumentStore(os.environ.get("SERVER_URL", "http://127.0.0.1:8080"), "tutorial-python")
store.initialize()
server = store.maintenance.server
server.send(DeleteDatabaseOperation(store.database, hard_delete=True))
server.send(CreateDatabaseOperation(DatabaseRecord(store.database)))


class Order:
    def __init__(self, city=None, lines=None):
        self.city = city
        self.lines = lines  # [{"product": …, "price": …, "count": …}]


with store.open_session() as session:
    session.store(Order("Berlin", [{"product": "tea", "price": 4, "count": 10}]))
    session.store(Order("Lyon", [{"product": "tea", "price": 4, "count": 3}]))
    session.store(Order("Berlin", [{"product": "rice", "price": 2, "count": 25}]))
    session.save_changes()
    print("first order:", session.load("orders/1-A", Order).city)

statistics = []
with store.open_session() as session:
    query = session.query_collection("Orders", Order).where_equals("city", "Berlin")
    in_berlin = list(query.wait_for_non_stale_results().statistics(statistics.append))
    print("in Berlin:", ", ".join(sorted(session.advanced.get_document_id(order) for order in in_berlin)))
print("by the index:", statistics[0].index_name)


class Products_Sold(AbstractIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.map = """
            from order in docs.Orders
            from line in order.lines
            select new { line.product, revenue = line.price * line.count }"""
        self.reduce = """
            from result in results
            group result by result.product into g
            select new { product = g.Key, revenue = g.Sum(x => x.revenue) }"""


class Sold:
    def __init__(self, product=None, revenue=None):
        self.product = product
        self.revenue = revenue


Products_Sold().execute(store)
with store.open_session() as session:
    query = session.query_index_type(Products_Sold, Sold).order_by_descending("revenue", OrderingType.LONG)
    sold = list(query.wait_for_non_stale_results())
print("sold:", ", ".join(f"{row.product} {row.revenue}" for row in sold))

name = store.subscriptions.create_for_options(
    SubscriptionCreationOptions(query="from Orders where city = 'Lyon'")
)
worker = store.subscriptions.get_subscription_worker(SubscriptionWorkerOptions(name), Order)
batches = queue.Queue()


def process(batch):  # when it returns, the batch is acknowledged
    batches.put(", ".join(f"{item.key} {item.result.lines[0]['count']}" for item in batch.items))


worker.run(process)
print("sent to the worker:", batches.get(timeout=30))

update = "from Orders update { for (const line of this.lines) line.count += 1; }"
store.operations.send_async(PatchByQueryOperation(update)).wait_for_completion()
print("after the patch:", batches.get(timeout=30))

worker.close()
store.close()
