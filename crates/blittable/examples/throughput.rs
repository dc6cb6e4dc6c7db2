//! Throughput of parsing, reading, printing and modifying documents of about one kilobyte, and the
//! time to read one property of a large one.
//!
//! Run with `cargo run --release -p blittable --example throughput`; prints the median and the best
//! of its rounds; an argument selects measurements by name prefix. Not a test: figures depend on
//! the machine.
#![expect(clippy::unwrap_used, reason = "the documents are its own and valid")]
#![expect(clippy::print_stdout, reason = "a program whose output is its purpose")]
#![expect(clippy::disallowed_methods, reason = "this crate cannot use the clock of a later one")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use blittable::{Builder, Document, Edit, Item, ObjectScanner, ParseLimits, Scanned};

const DOCUMENTS: usize = 20_000;
const ROUNDS: usize = 11;

fn main() {
    for (label, make) in [("orders", order as fn(usize) -> String), ("articles", article)] {
        measure(label, &(0..DOCUMENTS).map(make).collect::<Vec<_>>());
    }
    measure_large();
}

fn measure(label: &str, documents: &[String]) {
    let json_bytes: usize = documents.iter().map(String::len).sum();
    let mut builder = Builder::new(ParseLimits::default());
    let parsed: Vec<_> =
        documents.iter().map(|json| builder.parse_document(json.as_bytes()).unwrap()).collect();
    let stored: usize = parsed.iter().map(|document| document.as_bytes().len()).sum();
    println!(
        "{label}: {} bytes of JSON each, {} stored",
        json_bytes / documents.len(),
        stored / documents.len()
    );
    report("parse", json_bytes, documents.len(), || {
        for json in documents {
            black_box(builder.parse_document(json.as_bytes()).unwrap());
        }
    });
    let mut out = Vec::new();
    report("print", json_bytes, documents.len(), || {
        for document in &parsed {
            out.clear();
            Document::new(document.as_bytes()).unwrap().write_json(&mut out).unwrap();
            black_box(&out);
        }
    });
    report("get a property", json_bytes, documents.len(), || {
        for document in &parsed {
            let view = Document::new(document.as_bytes()).unwrap();
            black_box(view.root().get("Employee").unwrap());
        }
    });
    report("modify", json_bytes, documents.len(), || {
        for document in &parsed {
            let edit = Edit::Set { path: &["@metadata", "@id"], item: Item::String("orders/1-A") };
            black_box(builder.modify(&document.as_view(), &[edit]).unwrap());
        }
    });
    let stream = format!("[{}]", documents.join(","));
    report("scan a stream", json_bytes, documents.len(), || {
        let mut scanner = ObjectScanner::new(1 << 20);
        let mut at = 0;
        while let Scanned::Element { end, .. } = scanner.scan(&stream.as_bytes()[at..]).unwrap() {
            at += end;
        }
        black_box(at);
    });
}

fn measure_large() {
    let lines: Vec<String> = (0..500).map(order).collect();
    let json = format!(r#"{{"Orders":[{}],"Last":"found"}}"#, lines.join(","));
    let mut builder = Builder::new(ParseLimits::default());
    let document = builder.parse_document(json.as_bytes()).unwrap();
    println!("one document: {} bytes of JSON, {} stored", json.len(), document.as_bytes().len());
    report("get a property 1000 times", json.len(), 1000, || {
        for _ in 0..1000 {
            let view = Document::new(black_box(document.as_bytes())).unwrap();
            black_box(view.root().get_str("Last").unwrap());
        }
    });
    report("parse", json.len(), 1, || {
        black_box(builder.parse_document(json.as_bytes()).unwrap());
    });
}

fn report(what: &str, bytes: usize, documents: usize, mut round: impl FnMut()) {
    if std::env::args().nth(1).is_some_and(|only| !what.starts_with(&only)) {
        return;
    }
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed()
        })
        .collect();
    times.sort();
    let (best, median) = (times[0].as_secs_f64(), times[ROUNDS / 2].as_secs_f64());
    println!(
        "  {what}: {:.0} MB/s, {:.0} ns each; best round {:.0} MB/s",
        bytes as f64 / median / 1e6,
        median * 1e9 / documents as f64,
        bytes as f64 / best / 1e6
    );
}

fn order(index: usize) -> String {
    let line = |n: usize| {
        format!(
            r#"{{"Product":"products/{}-A","ProductName":"Chai number {n}","PricePerUnit":{}.{},"Quantity":{},"Discount":0.0}}"#,
            n % 77,
            n % 40,
            n % 10,
            n % 50
        )
    };
    let lines: Vec<String> = (index..index + 5).map(line).collect();
    format!(
        r#"{{"Company":"companies/{}-A","Employee":"employees/{}-A","Freight":{}.25,"Lines":[{}],"OrderedAt":"1998-05-06T00:00:00.0000000","RequireAt":"1998-06-03T00:00:00.0000000","ShipTo":{{"City":"Albuquerque","Country":"USA","Line1":"2817 Milton Dr.","Line2":null,"Location":{{"Latitude":35.1,"Longitude":-106.6}},"PostalCode":"87110","Region":"NM"}},"ShipVia":"shippers/2-A","ShippedAt":null,"Paid":true,"@metadata":{{"@collection":"Orders"}}}}"#,
        index % 91,
        index % 9,
        index % 100,
        lines.join(",")
    )
}

fn article(index: usize) -> String {
    let words = ["storage", "journal", "page", "commit", "the", "of", "reader", "a", "snapshot"];
    let body: Vec<&str> =
        (0..110).map(|n| words[(index + n * n * 7 + n / 3) % words.len()]).collect();
    format!(
        r#"{{"Title":"Article {index}","Employee":"employees/{}-A","Body":"{}","Views":{},"Tags":["one","two"],"@metadata":{{"@collection":"Articles"}}}}"#,
        index % 9,
        body.join(" "),
        index * 31
    )
}
