//! Sample data: a shop with its companies, products and orders, in the shape and with the ids,
//! collections and indexes of RavenDB's sample data. The contents are generated here, the same each
//! time.
//!
//! It is written like a client's batches, and not in one transaction: a database in which that was
//! interrupted has documents, and rejects another attempt.

mod catalogue;
mod chance;
mod definitions;
mod measurements;
mod orders;
mod people;
mod places;

use serde_json::{Map, Value, json};

use self::orders::ORDERS;

/// Commands in one batch.
const BATCH_COMMANDS_MAX: usize = 256;
/// One in this many orders has an earlier revision.
const REVISED_ORDERS: usize = 10;

/// The classes of the documents, in C#.
pub(crate) const CLASSES: &str = include_str!("sample_data/classes.cs.txt");

pub(crate) use self::{definitions::indexes, measurements::named_values};

/// The parts of the sample data to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SampleTypes {
    pub(crate) documents: bool,
    /// Earlier revisions of orders, and the configuration that keeps them.
    pub(crate) revisions: bool,
    /// The definitions of indexes.
    pub(crate) indexes: bool,
    /// Pictures of categories and employees.
    pub(crate) attachments: bool,
    /// Counters: votes for products.
    pub(crate) counters: bool,
    /// Prices of stocks and heart rates.
    pub(crate) time_series: bool,
}

impl SampleTypes {
    /// All types of data.
    pub(crate) const ALL: SampleTypes = SampleTypes {
        documents: true,
        revisions: true,
        indexes: true,
        attachments: true,
        counters: true,
        time_series: true,
    };

    /// Those with these names, which are types of items of a database.
    ///
    /// # Errors
    ///
    /// The name that is unknown.
    pub(crate) fn named<'n>(names: impl Iterator<Item = &'n str>) -> Result<Self, &'n str> {
        let mut types = SampleTypes {
            documents: false,
            revisions: false,
            indexes: false,
            attachments: false,
            counters: false,
            time_series: false,
        };
        for name in names {
            match name.to_ascii_lowercase().as_str() {
                "documents" => types.documents = true,
                "revisiondocuments" => types.revisions = true,
                "indexes" => types.indexes = true,
                "attachments" => types.attachments = true,
                "counters" | "countergroups" => types.counters = true,
                "timeseries" => types.time_series = true,
                // Item types that the sample data does not have.
                "none"
                | "identities"
                | "tombstones"
                | "legacyattachments"
                | "conflicts"
                | "compareexchange"
                | "legacydocumentdeletions"
                | "legacyattachmentdeletions"
                | "databaserecord"
                | "unknown"
                | "subscriptions"
                | "compareexchangetombstones"
                | "replicationhubcertificates" => {}
                _ => return Err(name),
            }
        }
        Ok(types)
    }
}

/// The bodies of the batches, in order, as clients would send them.
pub(crate) fn batches(types: SampleTypes) -> impl Iterator<Item = Vec<u8>> {
    let documents = types.documents.then(|| documents(types)).into_iter().flatten();
    // What belongs to documents is only created with them.
    let counters = (types.documents && types.counters).then(measurements::ratings);
    let series = types.documents && types.time_series;
    let series =
        series.then(|| [measurements::stock_prices(), measurements::heart_rates()].concat());
    let mut commands =
        documents.chain(counters.into_iter().flatten()).chain(series.into_iter().flatten());
    std::iter::from_fn(move || {
        let batch: Vec<Value> = commands.by_ref().take(BATCH_COMMANDS_MAX).collect();
        (!batch.is_empty()).then(|| json!({"Commands": batch}).to_string().into_bytes())
    })
}

fn documents(types: SampleTypes) -> impl Iterator<Item = Value> {
    let numbered = |collection: &'static str, documents: Vec<Value>| {
        let put = move |(index, document)| put(collection, index + 1, document);
        documents.into_iter().enumerate().map(put)
    };
    let products =
        (1..=catalogue::PRODUCTS).map(|number| catalogue::product(number).document(number));
    let hilo = [
        ("categories", 8),
        ("companies", people::COMPANIES),
        ("employees", 9),
        ("orders", ORDERS),
        ("products", catalogue::PRODUCTS),
        ("regions", 4),
        ("shippers", 3),
        ("suppliers", catalogue::SUPPLIERS),
    ];
    let hilo = hilo.into_iter().map(|(tag, max)| {
        let document = json!({"Max": max, "@metadata": {"@collection": "@hilo"}});
        json!({"Type": "PUT", "Id": format!("Raven/Hilo/{tag}"), "Document": document})
    });
    let earlier =
        (1..=ORDERS).filter(move |number| types.revisions && number % REVISED_ORDERS == 0);
    let earlier = earlier.map(|number| put("Orders", number, orders::unshipped_order(number)));
    hilo.chain(numbered("Categories", catalogue::categories()))
        .chain(numbered("Shippers", catalogue::shippers()))
        .chain(numbered("Suppliers", (1..=catalogue::SUPPLIERS).map(catalogue::supplier).collect()))
        .chain(numbered("Regions", people::regions()))
        .chain(numbered("Employees", people::employees()))
        .chain(numbered("Companies", (1..=people::COMPANIES).map(people::company).collect()))
        .chain(numbered("Products", products.collect()))
        .chain(earlier)
        .chain((1..=ORDERS).map(|number| put("Orders", number, orders::order(number))))
}

fn put(collection: &str, number: usize, mut document: Value) -> Value {
    document["@metadata"] = json!({"@collection": collection});
    let id = format!("{}/{number}-A", collection.to_ascii_lowercase());
    json!({"Type": "PUT", "Id": id, "Document": document})
}

/// A picture of a document.
pub(crate) struct Picture {
    /// The id of the document.
    pub(crate) id: String,
    /// The name of the attachment.
    pub(crate) name: &'static str,
    /// The text of an SVG image.
    pub(crate) content: String,
}

/// The type of the pictures.
pub(crate) const PICTURE_TYPE: &str = "image/svg+xml";

/// A picture of each category and each employee.
pub(crate) fn pictures() -> Vec<Picture> {
    let picture = |collection: &str, number: usize, name, shape: &str| {
        let hue = 40 * number;
        let content = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 100 100\">\
             <rect width=\"100\" height=\"100\" fill=\"hsl({hue},40%,85%)\"/>\
             <g fill=\"hsl({hue},50%,40%)\">{shape}</g></svg>"
        );
        Picture { id: format!("{collection}/{number}-A"), name, content }
    };
    let jar = "<path d=\"M35 20h30v10l8 12v40H27V42l8-12z\"/>";
    let bust = "<circle cx=\"50\" cy=\"38\" r=\"18\"/><path d=\"M18 90a32 30 0 0 1 64 0z\"/>";
    let categories = (1..=8).map(|number| picture("categories", number, "image.svg", jar));
    let employees = (1..=9).map(|number| picture("employees", number, "photo.svg", bust));
    categories.chain(employees).collect()
}

/// The configuration that keeps revisions of orders.
pub(crate) fn revisions_configuration() -> Map<String, Value> {
    let of_orders = json!({"Disabled": false});
    let configuration = json!({"Default": null, "Collections": {"Orders": of_orders}});
    configuration.as_object().cloned().unwrap_or_default()
}
