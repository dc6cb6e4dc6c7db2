//! Who buys and who sells in the sample data: companies, employees, and the regions that these work in.

use serde_json::{Value, json};

use super::{
    chance::Chance,
    places::{OF_LAST_ORDER, PLACES, Place, contact, phone},
};

/// How many companies there are.
pub(super) const COMPANIES: usize = 91;
/// The company of the last order.
pub(super) const OF_LAST_COMPANY: usize = 65;

const OWNERS: &[&str] = &[
    "Alder",
    "Beacon",
    "Crown",
    "Dolphin",
    "Eagle",
    "Falcon",
    "Golden Key",
    "Heron",
    "Ivy",
    "Juniper",
];
const SHOPS: &[&str] = &[
    "Bistro",
    "Delicatessen",
    "Foods",
    "Grocery",
    "Imports",
    "Market",
    "Provisions",
    "Stores",
    "Supplies",
    "Trading",
];

/// Last name, first name, title, what is known about them.
type Employee = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const EMPLOYEES: [Employee; 9] = [
    ("Whitaker", "Laura", "Sales Representative",
        "Laura has a degree in psychology and sings in a choir."),
    ("Carver", "Paul", "Vice President, Sales",
        "Paul holds a doctorate in marketing and is fluent in French and Italian, and reads German."),
    ("Nowak", "Irena", "Sales Representative",
        "Irena studied chemistry and came to sales by way of a laboratory."),
    ("Hollis", "Margaret", "Sales Representative",
        "Margaret taught English and is fluent in Portuguese and reads French."),
    ("Reid", "Gordon", "Sales Manager",
        "Gordon spent his training abroad and is fluent in French, with courses in time management."),
    ("Sato", "Kenji", "Sales Representative",
        "Kenji writes and speaks Japanese and Spanish, and knows the ports of three oceans."),
    ("Doyle", "Patrick", "Sales Representative",
        "Patrick travelled for years before he finished his studies of English."),
    ("Lind", "Karin", "Inside Sales Coordinator",
        "Karin reads and writes Swedish and keeps the calendar of the whole office."),
    ("Marsh", "Helen", "Sales Representative",
        "Helen has a degree in literature and is fluent in French and Polish."),
];

/// Names of regions, and of territories in them.
const REGIONS: [(&str, &[&str]); 4] = [
    ("Eastern", &["Boston", "Providence", "Morristown", "New York", "Rockville", "Cary"]),
    ("Western", &["Seattle", "Portland", "San Francisco", "Denver", "Phoenix"]),
    ("Northern", &["Hoffman Estates", "Bloomfield Hills", "Minneapolis", "Roseville"]),
    ("Southern", &["Columbia", "Atlanta", "Tampa", "Orlando", "Dallas", "Austin"]),
];

/// Where a company is.
pub(super) fn place_of_company(number: usize) -> &'static Place {
    match number {
        OF_LAST_COMPANY => &OF_LAST_ORDER,
        _ => &PLACES[number * 7 % PLACES.len()],
    }
}

/// The document of a company.
pub(super) fn company(number: usize) -> Value {
    let mut chance = Chance::of("company", number);
    let (owner, shop) = (OWNERS[number % OWNERS.len()], SHOPS[number / OWNERS.len()]);
    let name = format!("{owner} {shop}");
    let external: String = name.chars().filter(char::is_ascii_alphabetic).take(5).collect();
    json!({
        "ExternalId": external.to_ascii_uppercase(), "Name": name,
        "Contact": contact(&mut chance),
        "Address": place_of_company(number).address(&mut chance),
        "Phone": phone(&mut chance), "Fax": phone(&mut chance)
    })
}

/// The documents of the employees.
pub(super) fn employees() -> Vec<Value> {
    let document = |(index, (last, first, title, note)): (usize, &Employee)| {
        let mut chance = Chance::of("employee", index);
        let manager = match index {
            1 => Value::Null,
            5 | 6 | 8 => "employees/5-A".into(),
            _ => "employees/2-A".into(),
        };
        let (_, towns) = REGIONS[index % REGIONS.len()];
        let territories = (0..towns.len()).map(|town| territory_code(index % REGIONS.len(), town));
        json!({
            "LastName": last, "FirstName": first, "Title": title,
            "Address": PLACES[index * 11 % PLACES.len()].address(&mut chance),
            "HiredAt": format!("199{}-0{}-15T00:00:00.0000000", 2 + index / 4, 1 + index % 9),
            "Birthday": format!("19{}-0{}-2{}T00:00:00.0000000", 48 + 2 * index, 1 + index, index),
            "HomePhone": phone(&mut chance), "Extension": chance.digits(4), "ReportsTo": manager,
            "Notes": [note], "Territories": territories.collect::<Vec<_>>()
        })
    };
    EMPLOYEES.iter().enumerate().map(document).collect()
}

/// The documents of the regions.
pub(super) fn regions() -> Vec<Value> {
    let document = |(region, (name, towns)): (usize, &(&str, &[&str]))| {
        let territory = |(town, name): (usize, &&str)| json!({"Code": territory_code(region, town), "Name": name});
        let territories: Vec<Value> = towns.iter().enumerate().map(territory).collect();
        json!({"Name": name, "Territories": territories})
    };
    REGIONS.iter().enumerate().map(document).collect()
}

fn territory_code(region: usize, town: usize) -> String {
    format!("{}{:04}", region + 1, 137 * (town + 1))
}
