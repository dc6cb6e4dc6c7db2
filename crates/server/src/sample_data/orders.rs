//! The orders of the sample data, from July 1996 to May 1998.

use model::{date, ticks::TICKS_PER_DAY};
use serde_json::{Value, json};

use super::{
    catalogue::{PRODUCTS, price, product},
    chance::Chance,
    people::{COMPANIES, OF_LAST_COMPANY, place_of_company},
};

/// How many orders there are.
pub(super) const ORDERS: usize = 830;
/// Of the newest ones some are not shipped.
const UNSHIPPED: usize = 21;
/// Days from the first order to the last.
const DAYS: usize = 671;

/// The document of an order.
pub(super) fn order(number: usize) -> Value {
    let mut order = unshipped_order(number);
    if number <= ORDERS - UNSHIPPED {
        let days = 2 + Chance::of("shipping", number).below(20);
        order["ShippedAt"] = moment(day_of(number) + days).into();
    }
    order
}

/// The order as it was before it was shipped.
pub(super) fn unshipped_order(number: usize) -> Value {
    let mut chance = Chance::of("order", number);
    let company = match number {
        ORDERS => OF_LAST_COMPANY,
        _ => 1 + chance.below(COMPANIES),
    };
    let mut products: Vec<usize> =
        (0..1 + chance.below(4)).map(|_| 1 + chance.below(PRODUCTS)).collect();
    products.sort_unstable();
    products.dedup();
    let lines: Vec<Value> = products.into_iter().map(|number| line(number, &mut chance)).collect();
    let ordered = day_of(number);
    json!({
        "Company": format!("companies/{company}-A"),
        "Employee": format!("employees/{}-A", 1 + chance.below(9)),
        "Freight": price(100 + chance.below(20_000)),
        "Lines": lines,
        "OrderedAt": moment(ordered), "RequireAt": moment(ordered + 28),
        "ShipTo": place_of_company(company).address(&mut Chance::of("company", company)),
        "ShipVia": format!("shippers/{}-A", 1 + chance.below(3)),
        "ShippedAt": null
    })
}

fn line(number: usize, chance: &mut Chance) -> Value {
    let product = product(number);
    json!({
        "Discount": chance.one_of(&[0.0, 0.0, 0.0, 0.05, 0.1, 0.15, 0.2, 0.25]),
        "PricePerUnit": price(product.cents), "Product": format!("products/{number}-A"),
        "ProductName": product.name, "Quantity": 1 + chance.below(60)
    })
}

/// The day of an order, counted from the first.
fn day_of(number: usize) -> usize {
    number * DAYS / ORDERS
}

/// Midnight of a day.
fn moment(day: usize) -> String {
    let first = date::parse("1996-07-04T00:00:00.0000000").map_or(0, |date| date.utc_ticks());
    let text = date::format(first + TICKS_PER_DAY * i64::try_from(day).unwrap_or(0));
    text.trim_end_matches('Z').to_owned()
}
