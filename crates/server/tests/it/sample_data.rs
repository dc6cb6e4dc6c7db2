//! Sample data: the number of documents per collection, and that its indexes find them.

use serde_json::{Value, json};

use crate::test_server::TestServer;

fn create(server: &TestServer, parameters: &str) {
    let target = format!("/databases/db/studio/sample-data{parameters}");
    let reply = server.send("POST", &target, b"");
    assert_eq!((reply.status, reply.body.len()), (204, 0), "{}", reply.text());
}

/// The results of a query that waits for its index.
fn query(server: &TestServer, text: &str) -> Value {
    let body = json!({"Query": text, "WaitForNonStaleResults": true}).to_string();
    let reply = server.send("POST", "/databases/db/queries", body.as_bytes());
    assert_eq!(reply.status, 200, "{text}: {}", reply.text());
    reply.json()
}

#[test]
fn collections_have_as_many_documents_as_ravendbs_sample_data() {
    let server = TestServer::with_database();
    create(&server, "");
    assert_eq!(
        server.get("/databases/db/collections/stats").json()["Collections"],
        json!({
            "@hilo": 8, "Categories": 8, "Companies": 91, "Employees": 9, "Orders": 830,
            "Products": 77, "Regions": 4, "Shippers": 3, "Suppliers": 29
        })
    );
    let statistics = server.get("/databases/db/stats").json();
    for (name, expected) in [
        ("CountOfDocuments", 1059),
        ("CountOfAttachments", 17),
        ("CountOfUniqueAttachments", 17),
        ("CountOfIndexes", 7),
    ] {
        assert_eq!(statistics[name], expected, "{name}");
    }
    assert!(0 < statistics["CountOfRevisionDocuments"].as_u64().unwrap());
    assert_eq!(server.document("Raven/Hilo/orders")["Max"], 830);
    let series = server.get("/databases/db/timeseries/config").json();
    assert_eq!(series["NamedValues"]["Employees"]["HeartRates"], json!(["BPM"]));

    // Every reference names a document, and the counts match.
    let order = server.document("orders/1-A");
    for reference in ["Company", "Employee", "ShipVia"] {
        assert_ne!(server.document(order[reference].as_str().unwrap()), Value::Null, "{reference}");
    }
    let product = server.document(order["Lines"][0]["Product"].as_str().unwrap());
    assert_eq!(order["Lines"][0]["PricePerUnit"], product["PricePerUnit"]);
    assert_eq!(order["Lines"][0]["ProductName"], product["Name"]);
}

#[test]
fn every_index_of_the_sample_data_has_results() {
    let server = TestServer::with_database();
    create(&server, "");
    for (text, total) in [
        ("from index 'Orders/Totals'", 830),
        ("from index 'Orders/ByCompany'", 91),
        ("from index 'Orders/ByShipment/Location'", 830),
        ("from index 'Product/Search'", 77),
        ("from index 'Product/Rating'", 77),
        ("from index 'Products/ByUnitOnStock'", 77),
        ("from index 'Companies/StockPrices/TradeVolumeByMonth' where Country = 'UK'", 4),
    ] {
        let found = query(&server, text);
        let errors = server.get("/databases/db/indexes/errors").json();
        for index in errors["Results"].as_array().unwrap() {
            assert_eq!(index["Errors"], json!([]), "{index}");
        }
        assert_eq!(found["TotalResults"], total, "{text}");
    }
    let rating = query(&server, "from index 'Product/Rating' limit 1")["Results"][0].clone();
    let value = rating["Rating"].as_f64().unwrap();
    assert!(
        (1.0..=5.0).contains(&value) && 5 <= rating["TotalVotes"].as_u64().unwrap(),
        "{rating}"
    );

    let nearest = query(
        &server,
        "from Orders as a order by spatial.distance(spatial.point(a.ShipTo.Location.Latitude, \
         a.ShipTo.Location.Longitude), spatial.point(35.2, -107.2)) limit 1",
    );
    let distance = &nearest["Results"][0]["@metadata"]["@spatial"]["Distance"];
    assert!((distance.as_f64().unwrap() - 48.99).abs() < 0.01, "{distance}");
}

#[test]
fn sample_data_is_created_as_requested_and_only_once() {
    let server = TestServer::with_database();
    create(&server, "?operateOnTypes=Documents&operateOnTypes=Identities");
    let statistics = server.get("/databases/db/stats").json();
    assert_eq!(
        (&statistics["CountOfDocuments"], &statistics["CountOfIndexes"]),
        (&json!(1059), &json!(0))
    );
    assert_eq!(statistics["CountOfAttachments"], 0);
    assert_eq!(statistics["CountOfCounterEntries"], 0);
    assert_eq!(server.get("/databases/db/revisions/config").status, 404);

    let target = "/databases/db/studio/sample-data";
    let again = server.send("POST", target, b"").json();
    assert_eq!(
        again["Message"],
        "You cannot create sample data in a database that already contains documents"
    );
    let unknown = server.send("POST", &format!("{target}?operateOnTypes=Foo"), b"").json();
    assert_eq!(unknown["Type"], "System.ArgumentException");
    assert_eq!(unknown["Message"], "Requested value 'Foo' was not found.");

    let classes = server.get("/databases/db/studio/sample-data/classes");
    assert!(classes.text().contains("public class OrderLine"));
}
