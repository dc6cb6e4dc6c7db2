//! Counters and time series of the sample data: ratings of products, prices of companies' stocks,
//! heart rates.

use serde_json::{Value, json};

use super::{
    catalogue::{PRODUCTS, price},
    chance::Chance,
    people::COMPANIES,
};

/// Votes for a product, by stars.
const RATINGS: [&str; 5] = ["⭐", "⭐⭐", "⭐⭐⭐", "⭐⭐⭐⭐", "⭐⭐⭐⭐⭐"];
/// Trading days of each stock.
const STOCK_DAYS: usize = 100;
/// Heart rates of each employee, one each minute.
const HEARTBEATS: usize = 120;

/// The commands that count the votes for each product.
pub(super) fn ratings() -> Vec<Value> {
    let of_product = |number: usize| {
        let mut chance = Chance::of("rating", number);
        let counts = RATINGS.iter().map(
            |stars| json!({"Type": "Increment", "CounterName": stars, "Delta": 1 + chance.below(9000)}),
        );
        let id = format!("products/{number}-A");
        let counters = json!({"DocumentId": id, "Operations": counts.collect::<Vec<_>>()});
        json!({"Type": "Counters", "Id": id, "Counters": counters})
    };
    (1..=PRODUCTS).map(of_product).collect()
}

/// The commands that append the prices of each company's stock.
pub(super) fn stock_prices() -> Vec<Value> {
    let of_company = |number: usize| {
        let mut chance = Chance::of("stock prices", number);
        let mut close = 2000 + chance.below(6000);
        let appends = (0..STOCK_DAYS).map(|day| {
            let open = close;
            close = (open + chance.below(301)).saturating_sub(150).max(100);
            let (high, low) =
                (open.max(close) + chance.below(90), open.min(close) - chance.below(60));
            let timestamp =
                format!("2020-{:02}-{:02}T00:00:00.0000000Z", 1 + day / 25, 1 + day % 25);
            let prices = [open, close, high, low].map(price);
            let volume = 1000 * (10 + chance.below(500));
            let values = json!([prices[0], prices[1], prices[2], prices[3], volume]);
            json!({"Timestamp": timestamp, "Values": values, "Tag": null})
        });
        series(&format!("companies/{number}-A"), "StockPrices", appends.collect())
    };
    (1..=COMPANIES).map(of_company).collect()
}

/// The commands that append the heart rates of each employee.
pub(super) fn heart_rates() -> Vec<Value> {
    let of_employee = |number: usize| {
        let mut chance = Chance::of("heart rates", number);
        let appends = (0..HEARTBEATS).map(|minute| {
            let timestamp =
                format!("2020-05-17T{:02}:{:02}:00.0000000Z", minute / 60, minute % 60);
            json!({"Timestamp": timestamp, "Values": [58 + chance.below(70)], "Tag": "watches/bracelet"})
        });
        series(&format!("employees/{number}-A"), "HeartRates", appends.collect())
    };
    (1..=9).map(of_employee).collect()
}

fn series(id: &str, name: &str, appends: Vec<Value>) -> Value {
    json!({"Type": "TimeSeries", "Id": id, "TimeSeries": {"Name": name, "Appends": appends}})
}

/// The names of the values of these series, as the record of the database has them.
pub(crate) fn named_values() -> Value {
    json!({
        "Companies": {"StockPrices": ["Open", "Close", "High", "Low", "Volume"]},
        "Employees": {"HeartRates": ["BPM"]}
    })
}
