//! .NET functions for scripts: numbers and moments in its formats, differences of moments. The LINQ
//! provider of the .NET client writes calls of these into its queries.
//!
//! A moment is passed as milliseconds since 1970 (a `Date`) or as a document's text.

use dotnet::culture::Culture;
use dotnet::date::{Date, DateKind, Recognised, recognise};
use dotnet::date_format::format_date;
use dotnet::number_format::{Formatted, format_number};
use model::TimeSpan;
use model::ticks::{TICKS_MAX, TICKS_PER_MILLISECOND, UNIX_EPOCH_TICKS};
use rquickjs::{Ctx, Function, Object, Result, Value};

/// Adds the functions that the prelude calls.
pub(crate) fn add<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> Result<()> {
    host.set("isCulture", Function::new(ctx.clone(), is_culture)?)?;
    host.set("numberText", Function::new(ctx.clone(), number_text)?)?;
    host.set("isMoment", Function::new(ctx.clone(), is_moment)?)?;
    host.set("momentText", Function::new(ctx.clone(), moment_text)?)?;
    host.set("comparedMoments", Function::new(ctx.clone(), compared_moments)?)?;
    host.set("momentDifference", Function::new(ctx.clone(), moment_difference)?)?;
    host.set("spanText", Function::new(ctx.clone(), span_text)?)
}

fn is_culture(name: String) -> bool {
    Culture::named(&name).is_some()
}

fn culture_of(name: &str) -> Culture {
    Culture::named(name).unwrap_or(Culture::Invariant)
}

/// Nothing if the format cannot be used with numbers.
fn number_text(number: f64, format: String, culture: String) -> Option<String> {
    format_number(Formatted::Double(number), &format, culture_of(&culture))
}

fn moment_of(value: &Value<'_>) -> Option<Date> {
    if let Some(millis) = value.as_number() {
        // A number that is no moment of the calendar becomes one outside of it, NaN included.
        let ticks = if millis.is_finite() { millis as i64 } else { i64::MIN };
        let ticks = ticks.checked_mul(TICKS_PER_MILLISECOND)?.checked_add(UNIX_EPOCH_TICKS)?;
        let is_inside = (0..=TICKS_MAX).contains(&ticks);
        return is_inside.then_some(Date { ticks, kind: DateKind::Utc });
    }
    let text = value.as_string()?.to_string().ok()?;
    match recognise(&text)? {
        Recognised::Date(date) => Some(date),
        Recognised::OffsetDate(_) | Recognised::Span(_) => None,
    }
}

fn is_moment(value: Value<'_>) -> bool {
    moment_of(&value).is_some()
}

/// `None` if the format is not a date format.
fn moment_text(value: Value<'_>, format: String, culture: String) -> Option<String> {
    format_date(moment_of(&value)?, &format, culture_of(&culture))
}

/// -1, 0 or 1.
fn compared_moments(one: Value<'_>, other: Value<'_>) -> Option<i32> {
    Some(moment_of(&one)?.ticks.cmp(&moment_of(&other)?.ticks) as i32)
}

fn moment_difference(one: Value<'_>, other: Value<'_>) -> Option<String> {
    let ticks = moment_of(&one)?.ticks - moment_of(&other)?.ticks;
    Some(TimeSpan { ticks }.to_string())
}

/// Nothing for more ticks than a duration has.
fn span_text(ticks: f64) -> Option<String> {
    let is_inside = ticks >= i64::MIN as f64 && ticks < i64::MAX as f64;
    is_inside.then(|| TimeSpan { ticks: ticks as i64 }.to_string())
}
