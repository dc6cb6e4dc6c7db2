//! What is sold in the sample data: products, their categories, suppliers and shippers.

use serde_json::{Value, json};

use super::{
    chance::Chance,
    places::{PLACES, contact, phone},
};

/// How many products there are.
pub(super) const PRODUCTS: usize = 77;
/// How many suppliers there are.
pub(super) const SUPPLIERS: usize = 29;

/// Categories: name, description, what their products are, and how those are packed.
type Category = (&'static str, &'static str, [&'static str; 5], &'static str);

#[rustfmt::skip]
const CATEGORIES: [Category; 8] = [
    ("Beverages", "Soft drinks, coffees, teas, beers and ales",
        ["Tea", "Lager", "Coffee", "Lemonade", "Cider"], "24 bottles of 355 ml"),
    ("Condiments", "Sweet and savoury sauces, relishes, spreads and seasonings",
        ["Mustard", "Chutney", "Syrup", "Pepper Sauce", "Honey"], "12 jars of 250 g"),
    ("Confections", "Desserts, candies and sweet breads",
        ["Nougat", "Shortbread", "Marzipan", "Toffee", "Gingerbread"], "10 boxes of 20 pieces"),
    ("Dairy Products", "Cheeses",
        ["Goat Cheese", "Blue Cheese", "Butter", "Curd", "Hard Cheese"], "5 packs of 1 kg"),
    ("Grains/Cereals", "Breads, crackers, pasta and cereal",
        ["Rye Bread", "Crackers", "Noodles", "Oats", "Polenta"], "20 packs of 500 g"),
    ("Meat/Poultry", "Prepared meats",
        ["Ham", "Sausage", "Pâté", "Smoked Duck", "Pastrami"], "6 tins of 400 g"),
    ("Produce", "Dried fruit and bean curd",
        ["Dried Apples", "Bean Curd", "Plums", "Raisins", "Figs"], "12 packs of 1 kg"),
    ("Seafood", "Seaweed and fish",
        ["Herring", "Nori", "Crab Meat", "Kippers", "Mussels"], "16 tins of 170 g"),
];

const ORIGINS: &[&str] =
    &["Alpine", "Baltic", "Coastal", "Dune", "Estuary", "Fjord", "Glen", "Harbour"];

const MAKERS: &[&str] = &["Amber", "Birch", "Cedar", "Dorset", "Elm", "Fern", "Granite", "Hazel"];
const TRADES: &[&str] = &["Bakery", "Brewers", "Creamery", "Farms", "Fisheries", "Kitchens"];

pub(super) struct Product {
    pub(super) name: String,
    /// What one costs, in cents.
    pub(super) cents: usize,
    category: usize,
}

/// The product of a number, which counts from 1.
pub(super) fn product(number: usize) -> Product {
    let mut chance = Chance::of("product", number);
    let category = number % CATEGORIES.len();
    let (_, _, kinds, _) = CATEGORIES[category];
    // Numbers of one category go through the kinds first, then through the origins.
    let of_category = number / CATEGORIES.len();
    let origin = ORIGINS[(of_category / kinds.len() + category) % ORIGINS.len()];
    let kind = kinds[of_category % kinds.len()];
    Product { name: format!("{origin} {kind}"), cents: 250 + 25 * chance.below(240), category }
}

impl Product {
    pub(super) fn document(&self, number: usize) -> Value {
        let mut chance = Chance::of("stock", number);
        let is_discontinued = number % 10 == 9;
        json!({
            "Name": self.name,
            "Supplier": format!("suppliers/{}-A", 1 + number % SUPPLIERS),
            "Category": format!("categories/{}-A", 1 + self.category),
            "QuantityPerUnit": CATEGORIES[self.category].3,
            "PricePerUnit": price(self.cents),
            "UnitsInStock": if is_discontinued { 0 } else { chance.below(125) },
            "UnitsOnOrder": if is_discontinued { 0 } else { 10 * chance.below(8) },
            "Discontinued": is_discontinued,
            "ReorderLevel": 5 * chance.below(6)
        })
    }
}

/// Cents as a number of dollars.
#[expect(clippy::cast_precision_loss, reason = "prices are small")]
pub(super) fn price(cents: usize) -> f64 {
    cents as f64 / 100.0
}

/// The documents of the categories.
pub(super) fn categories() -> Vec<Value> {
    let document =
        |(name, description, ..): &Category| json!({"Name": name, "Description": description});
    CATEGORIES.iter().map(document).collect()
}

/// The document of a supplier.
pub(super) fn supplier(number: usize) -> Value {
    let mut chance = Chance::of("supplier", number);
    let name = format!(
        "{} {}",
        MAKERS[number % MAKERS.len()],
        TRADES[number / MAKERS.len() % TRADES.len()]
    );
    json!({
        "Contact": contact(&mut chance), "Name": name,
        "Address": chance.one_of(PLACES).address(&mut chance),
        "Phone": phone(&mut chance), "Fax": null, "HomePage": null
    })
}

/// The documents of the shippers.
pub(super) fn shippers() -> Vec<Value> {
    let document = |(index, name): (usize, &&str)| json!({"Name": name, "Phone": phone(&mut Chance::of("shipper", index))});
    ["Swift Parcels", "Union Freight", "Northern Carriers"]
        .iter()
        .enumerate()
        .map(document)
        .collect()
}
