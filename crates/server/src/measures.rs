//! Metrics of the server and of its databases, for monitoring programs: as JSON and in Prometheus's
//! text format.
//!
//! A metric is listed once, with its path in the JSON and its name for Prometheus, so both report
//! the same.

pub(crate) mod database_measures;
pub(crate) mod machine;
pub(crate) mod processor_load;
pub(crate) mod server_measures;

use serde_json::{Map, Value};

/// The content type of Prometheus's text format.
pub(crate) const PROMETHEUS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric, with its names in JSON and for Prometheus.
pub(crate) struct Measure {
    /// Path in the JSON from the outside in, separated by dots; empty where it has none.
    place: &'static str,
    /// Its name for Prometheus, if it is a number.
    exposed: Option<Exposed>,
    amount: Amount,
}

struct Exposed {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

/// The value of a metric.
pub(crate) enum Amount {
    Whole(u64),
    Real(f64),
    /// Bytes; megabytes in JSON.
    Bytes(u64),
    /// A duration; seconds in JSON and in Prometheus's text, if there is any.
    Seconds(Option<f64>),
    /// A duration; milliseconds in JSON, seconds in Prometheus's text.
    Milliseconds(f64),
    /// A word of the protocol, and its number.
    Word(&'static str, i64),
    Fact(bool),
    /// A value that is not a number; Prometheus does not get it.
    Text(Value),
}

impl Measure {
    /// A value that may decrease.
    pub(crate) fn gauge(
        (place, name, help): (&'static str, &'static str, &'static str),
        amount: Amount,
    ) -> Measure {
        Measure { place, exposed: Some(Exposed { name, kind: "gauge", help }), amount }
    }

    /// A value that only increases while the server runs.
    pub(crate) fn counter(
        (place, name, help): (&'static str, &'static str, &'static str),
        amount: Amount,
    ) -> Measure {
        Measure { place, exposed: Some(Exposed { name, kind: "counter", help }), amount }
    }

    /// A value that is only in the JSON.
    pub(crate) fn text(place: &'static str, text: impl Into<Value>) -> Measure {
        Measure { place, exposed: None, amount: Amount::Text(text.into()) }
    }
}

/// The metrics of one subject as an object.
pub(crate) fn to_json(measures: Vec<Measure>) -> Value {
    let mut whole = Map::new();
    for Measure { place, amount, .. } in measures {
        if place.is_empty() {
            continue;
        }
        let mut path = place.split('.');
        let last = path.next_back().unwrap_or(place);
        let mut inside = &mut whole;
        for outer in path {
            let entry = inside.entry(outer).or_insert_with(|| Map::new().into());
            let Value::Object(next) = entry else { return Value::Null };
            inside = next;
        }
        inside.insert(last.to_owned(), amount.into_json());
    }
    Value::Object(whole)
}

/// Appends the metrics of several subjects of a kind to Prometheus's text, each with its labels.
/// All must have the same metrics in the same order.
pub(crate) fn write_prometheus(text: &mut String, things: &[(Labels, Vec<Measure>)]) {
    let count = things.iter().map(|(_, measures)| measures.len()).min().unwrap_or(0);
    for number in 0..count {
        let measure_of = |(labels, measures): &'_ (Labels, Vec<Measure>)| {
            let Measure { exposed, amount, .. } = &measures[number];
            exposed
                .as_ref()
                .map(|exposed| format!("{}{labels} {}\n", exposed.name, amount.number()))
        };
        let Some(Exposed { name, kind, help }) = &things[0].1[number].exposed else { continue };
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        text.extend(things.iter().filter_map(measure_of));
    }
}

impl Amount {
    fn into_json(self) -> Value {
        match self {
            Amount::Whole(count) => count.into(),
            Amount::Real(number) | Amount::Milliseconds(number) => number.into(),
            Amount::Bytes(bytes) => (bytes >> 20).into(),
            Amount::Seconds(seconds) => seconds.into(),
            Amount::Word(word, _) => word.into(),
            Amount::Fact(fact) => fact.into(),
            Amount::Text(text) => text,
        }
    }

    fn number(&self) -> String {
        match self {
            Amount::Whole(count) | Amount::Bytes(count) => count.to_string(),
            Amount::Real(number) => number.to_string(),
            Amount::Milliseconds(number) => (number / 1000.0).to_string(),
            Amount::Seconds(Some(seconds)) => seconds.to_string(),
            Amount::Word(_, number) => number.to_string(),
            Amount::Fact(fact) => u8::from(*fact).to_string(),
            Amount::Seconds(None) | Amount::Text(_) => "NaN".to_owned(),
        }
    }
}

/// The labels of a subject.
#[derive(Default)]
pub(crate) struct Labels(Vec<(&'static str, String)>);

impl Labels {
    pub(crate) fn new<const N: usize>(labels: [(&'static str, &str); N]) -> Labels {
        Labels(labels.into_iter().map(|(name, value)| (name, value.to_owned())).collect())
    }
}

impl std::fmt::Display for Labels {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let escaped =
            |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let one = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value));
        let all: Vec<String> = self.0.iter().map(one).collect();
        write!(formatter, "{{{}}}", all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measures(count: u64) -> Vec<Measure> {
        vec![
            Measure::text("Name", "x"),
            Measure::counter(("In.Count", "a_count", "Things."), Amount::Whole(count)),
            Measure::gauge(("In.SizeInMb", "a_bytes", "Their size."), Amount::Bytes(5 << 20 | 1)),
            Measure::gauge(("In.State", "a_state", "0 = Good."), Amount::Word("Good", 0)),
            Measure::gauge(("Since", "a_since_seconds", "Since."), Amount::Seconds(None)),
            Measure::gauge(("", "a_fact", "Whether."), Amount::Fact(true)),
        ]
    }

    #[test]
    fn json_has_every_measure_at_its_place() {
        let expected = json!({
            "Name": "x", "In": {"Count": 3, "SizeInMb": 5, "State": "Good"}, "Since": null
        });
        assert_eq!(to_json(measures(3)), expected);
    }

    #[test]
    fn prometheus_has_each_measure_of_all_things_together() {
        let things = [
            (Labels::new([("name", "q\"\\\n")]), measures(1)),
            (Labels::new([("name", "y"), ("of", "z")]), measures(2)),
        ];
        let mut text = String::new();
        write_prometheus(&mut text, &things);
        let begin = "# HELP a_count Things.\n# TYPE a_count counter\n\
                     a_count{name=\"q\\\"\\\\\\n\"} 1\na_count{name=\"y\", of=\"z\"} 2\n\
                     # HELP a_bytes Their size.\n# TYPE a_bytes gauge\n\
                     a_bytes{name=\"q\\\"\\\\\\n\"} 5242881\n";
        assert_eq!(text.get(..begin.len()), Some(begin));
        assert!(text.contains("a_since_seconds{name=\"y\", of=\"z\"} NaN\n"));
        assert!(text.ends_with("a_fact{name=\"y\", of=\"z\"} 1\n"));
        let mut text = String::new();
        write_prometheus(&mut text, &[(Labels::default(), measures(1))]);
        assert!(text.contains("\na_state 0\n"));
        write_prometheus(&mut text, &[]);
    }
}
