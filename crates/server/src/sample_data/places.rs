//! Where the companies, suppliers and employees of the sample data are, and who works for them.

use serde_json::{Value, json};

use super::chance::Chance;

/// A city with its position in degrees.
pub(super) struct Place {
    city: &'static str,
    region: Option<&'static str>,
    country: &'static str,
    latitude: f64,
    longitude: f64,
}

const fn place(
    city: &'static str,
    region: Option<&'static str>,
    country: &'static str,
    latitude: f64,
    longitude: f64,
) -> Place {
    Place { city, region, country, latitude, longitude }
}

/// Where the newest order goes: at the western edge of its city, 48.99 km from 35.2° N 107.2° W.
pub(super) const OF_LAST_ORDER: Place =
    place("Albuquerque", Some("NM"), "USA", 35.1167, -106.67083);

/// Where companies and suppliers are.
pub(super) const PLACES: &[Place] = &[
    place("Aachen", None, "Germany", 50.7753, 6.0839),
    place("Bern", None, "Switzerland", 46.948, 7.4474),
    place("Boise", Some("ID"), "USA", 43.615, -116.2023),
    place("Bordeaux", None, "France", 44.8378, -0.5792),
    place("Buenos Aires", None, "Argentina", -34.6037, -58.3816),
    place("Caracas", Some("DF"), "Venezuela", 10.4806, -66.9036),
    place("Cork", Some("Co. Cork"), "Ireland", 51.8985, -8.4756),
    place("Genève", None, "Switzerland", 46.2044, 6.1432),
    place("Graz", None, "Austria", 47.0707, 15.4395),
    place("Göteborg", None, "Sweden", 57.7089, 11.9746),
    place("Helsinki", None, "Finland", 60.1699, 24.9384),
    place("Kyoto", None, "Japan", 35.0116, 135.7681),
    place("Köln", None, "Germany", 50.9375, 6.9603),
    place("Leeds", None, "UK", 53.8008, -1.5491),
    place("Liège", None, "Belgium", 50.6326, 5.5797),
    place("Lisboa", None, "Portugal", 38.7223, -9.1393),
    place("London", None, "UK", 51.5074, -0.1278),
    place("Melbourne", Some("Victoria"), "Australia", -37.8136, 144.9631),
    place("Montréal", Some("Québec"), "Canada", 45.5019, -73.5674),
    place("México D.F.", None, "Mexico", 19.4326, -99.1332),
    place("Nantes", None, "France", 47.2184, -1.5536),
    place("Portland", Some("OR"), "USA", 45.5152, -122.6784),
    place("Rio de Janeiro", Some("RJ"), "Brazil", -22.9068, -43.1729),
    place("Seattle", Some("WA"), "USA", 47.6062, -122.3321),
    place("Sevilla", None, "Spain", 37.3891, -5.9845),
    place("Stavern", None, "Norway", 58.9998, 10.0324),
    place("São Paulo", Some("SP"), "Brazil", -23.5505, -46.6333),
    place("Torino", None, "Italy", 45.0703, 7.6869),
    place("Warszawa", None, "Poland", 52.2297, 21.0122),
    place("Århus", None, "Denmark", 56.1629, 10.2039),
];

const STREETS: &[&str] = &[
    "Canal Street",
    "Chestnut Avenue",
    "Church Lane",
    "Foundry Row",
    "Garden Road",
    "Harbour Street",
    "Hill Road",
    "Market Square",
    "Mill Lane",
    "Orchard Way",
    "Quay Road",
    "Station Street",
];

const FIRST_NAMES: &[&str] = &[
    "Ada", "Bruno", "Clara", "Diego", "Edith", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Katja",
    "Louis", "Marta", "Nils", "Olga", "Pavel", "Rosa", "Simon", "Thea", "Viktor",
];

const LAST_NAMES: &[&str] = &[
    "Abel", "Bergman", "Castro", "Dubois", "Eriksen", "Fontana", "Gruber", "Hansen", "Iversen",
    "Jansen", "Kowalski", "Lindgren", "Moreau", "Novak", "Oliveira", "Pereira", "Quinn", "Rossi",
    "Santos", "Tanaka",
];

const TITLES: &[&str] = &[
    "Accounting Manager",
    "Marketing Assistant",
    "Marketing Manager",
    "Order Administrator",
    "Owner",
    "Purchasing Agent",
    "Sales Agent",
    "Sales Manager",
    "Sales Representative",
];

impl Place {
    /// A generated address in this city.
    pub(super) fn address(&self, chance: &mut Chance) -> Value {
        json!({
            "Line1": format!("{} {}", 1 + chance.below(200), chance.one_of(STREETS)),
            "Line2": null, "City": self.city, "Region": self.region,
            "PostalCode": chance.digits(5), "Country": self.country,
            "Location": {"Latitude": self.latitude, "Longitude": self.longitude}
        })
    }
}

/// Somebody to write to.
pub(super) fn contact(chance: &mut Chance) -> Value {
    let name = format!("{} {}", chance.one_of(FIRST_NAMES), chance.one_of(LAST_NAMES));
    json!({"Name": name, "Title": chance.one_of(TITLES)})
}

/// A telephone number that is not in use.
pub(super) fn phone(chance: &mut Chance) -> String {
    format!("({}) 555-{}", chance.digits(3), chance.digits(4))
}
