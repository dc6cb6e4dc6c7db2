//! Logs requests on demand; the configuration selects which.
//!
//! A client sets it, and it applies until the server stops. Only the path of the address is logged:
//! the rest may contain ids and queries, which are data.

use std::{
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::api_error::ApiError;

use serde_json::{Map, Value, json};
use wire::ErrorKind;

/// Kinds of requests, as the protocol numbers them.
const KINDS: [&str; 14] = [
    "None",
    "Queries",
    "Operations",
    "MultiGet",
    "BulkDocs",
    "Index",
    "Counters",
    "Hilo",
    "Subscriptions",
    "Streams",
    "Documents",
    "TimeSeries",
    "Notifications",
    "ClusterCommands",
];
const OFF: &str = "Off";
const TO_LOG_FILE: &str = "ToLogFile";
/// Maximum length of each list.
const LIST_MAX: usize = 1024;

/// Logs the selected requests.
#[derive(Default)]
pub(crate) struct TrafficLog {
    /// Checked for each request.
    is_on: AtomicBool,
    wanted: RwLock<WantedTraffic>,
}

/// Which requests are logged. An empty list selects everything.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct WantedTraffic {
    is_on: bool,
    /// Whether a client has set it: lists are `null` before.
    is_set: bool,
    databases: Vec<String>,
    status_codes: Vec<u16>,
    response_bytes_min: i64,
    request_bytes_min: i64,
    milliseconds_min: i64,
    methods: Vec<String>,
    kinds: Vec<&'static str>,
    thumbprints: Vec<String>,
}

/// A request that was answered.
pub(crate) struct Traffic<'t> {
    pub(crate) database: Option<&'t str>,
    pub(crate) method: &'t str,
    pub(crate) path: &'t str,
    pub(crate) kind: &'static str,
    pub(crate) status: u16,
    pub(crate) elapsed: Duration,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
}

impl TrafficLog {
    /// Whether any request is logged.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// A copy of the current configuration.
    pub(crate) fn wanted(&self) -> WantedTraffic {
        self.wanted.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the configuration until the server stops.
    pub(crate) fn set(&self, wanted: WantedTraffic) {
        let is_on = wanted.is_on;
        *self.wanted.write().unwrap_or_else(PoisonError::into_inner) = wanted;
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Logs a request, if it is selected.
    pub(crate) fn log(&self, traffic: &Traffic<'_>) {
        if !self.wanted.read().unwrap_or_else(PoisonError::into_inner).wants(traffic) {
            return;
        }
        let Traffic { method, path, kind, status, request_bytes, response_bytes, .. } = traffic;
        let database = traffic.database.unwrap_or("");
        let milliseconds = traffic.elapsed.as_millis() as u64;
        tracing::info!(
            database,
            method,
            path,
            status,
            milliseconds,
            request_bytes,
            response_bytes,
            kind,
            "a request"
        );
    }
}

impl WantedTraffic {
    /// Parses a configuration. Missing properties have their initial values.
    ///
    /// # Errors
    /// A property of the wrong kind, or a word that is unknown.
    pub(crate) fn read(body: &Map<String, Value>) -> Result<WantedTraffic, ApiError> {
        let property_of = |name: &str| body.get(name).filter(|value| !value.is_null());
        let is_on = match property_of("TrafficWatchMode").map_or(Some(OFF), Value::as_str) {
            Some(OFF) => false,
            Some(TO_LOG_FILE) => true,
            _ => return Err(refused("TrafficWatchMode")),
        };
        let number = |name: &str| match property_of(name) {
            None => Ok(0),
            Some(value) => value.as_i64().ok_or_else(|| refused(name)),
        };
        let list = |name: &'static str| match property_of(name) {
            None => Ok(&[][..]),
            Some(value) => match value.as_array() {
                Some(list) if list.len() <= LIST_MAX => Ok(list.as_slice()),
                _ => Err(refused(name)),
            },
        };
        let texts = |name: &'static str| -> Result<Vec<String>, ApiError> {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            list(name)?.iter().map(|value| text(value).ok_or_else(|| refused(name))).collect()
        };
        let code = |value: &Value| value.as_u64().and_then(|code| u16::try_from(code).ok());
        let codes = list("StatusCodes")?.iter();
        Ok(WantedTraffic {
            is_on,
            is_set: true,
            databases: texts("Databases")?,
            status_codes: codes
                .map(|value| code(value).ok_or_else(|| refused("StatusCodes")))
                .collect::<Result<_, _>>()?,
            response_bytes_min: number("MinimumResponseSizeInBytes")?,
            request_bytes_min: number("MinimumRequestSizeInBytes")?,
            milliseconds_min: number("MinimumDurationInMs")?,
            methods: texts("HttpMethods")?,
            kinds: texts("ChangeTypes")?
                .iter()
                .map(|name| kind_named(name))
                .collect::<Result<_, _>>()?,
            thumbprints: texts("CertificateThumbprints")?,
        })
    }

    /// The JSON form of the protocol.
    pub(crate) fn to_json(&self) -> Value {
        let list = |list: Value| if self.is_set { list } else { Value::Null };
        json!({
            "TrafficWatchMode": if self.is_on { TO_LOG_FILE } else { OFF },
            "Databases": list(self.databases.clone().into()),
            "StatusCodes": list(self.status_codes.clone().into()),
            "MinimumResponseSizeInBytes": self.response_bytes_min,
            "MinimumRequestSizeInBytes": self.request_bytes_min,
            "MinimumDurationInMs": self.milliseconds_min,
            "HttpMethods": list(self.methods.clone().into()),
            "ChangeTypes": list(self.kinds.clone().into()),
            "CertificateThumbprints": list(self.thumbprints.clone().into()),
        })
    }

    fn wants(&self, traffic: &Traffic<'_>) -> bool {
        let has = |list: &[String], text: &str| {
            list.is_empty() || list.iter().any(|wanted| wanted.eq_ignore_ascii_case(text))
        };
        let milliseconds = i128::try_from(traffic.elapsed.as_millis()).unwrap_or(i128::MAX);
        self.is_on
            // No client has a certificate yet.
            && self.thumbprints.is_empty()
            && has(&self.databases, traffic.database.unwrap_or(""))
            && has(&self.methods, traffic.method)
            && (self.status_codes.is_empty() || self.status_codes.contains(&traffic.status))
            && (self.kinds.is_empty() || self.kinds.contains(&traffic.kind))
            && i128::from(self.response_bytes_min) <= i128::from(traffic.response_bytes)
            && i128::from(self.request_bytes_min) <= i128::from(traffic.request_bytes)
            && i128::from(self.milliseconds_min) <= milliseconds
    }
}

fn refused(property: &str) -> ApiError {
    let message = format!("Could not convert '{property}' of the traffic watch configuration");
    ApiError::new(ErrorKind::Format, message)
}

fn kind_named(name: &str) -> Result<&'static str, ApiError> {
    let known = KINDS.into_iter().find(|known| *known == name);
    known.ok_or_else(|| ApiError::argument(format!("Requested value '{name}' was not found.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAFFIC: Traffic<'_> = Traffic {
        database: Some("Shop"),
        method: "GET",
        path: "/databases/Shop/docs",
        kind: "Documents",
        status: 200,
        elapsed: Duration::from_millis(5),
        request_bytes: 10,
        response_bytes: 20,
    };

    fn read(mut body: Value) -> Result<WantedTraffic, ApiError> {
        body["TrafficWatchMode"] = TO_LOG_FILE.into();
        WantedTraffic::read(body.as_object().unwrap())
    }

    #[test]
    fn a_request_is_wanted_when_nothing_speaks_against_it() {
        let table = [
            (json!({}), true),
            (json!({"Databases": ["other", "shop"]}), true),
            (json!({"Databases": ["other"]}), false),
            (json!({"StatusCodes": [404, 200]}), true),
            (json!({"StatusCodes": [404]}), false),
            (json!({"HttpMethods": ["get"]}), true),
            (json!({"HttpMethods": ["PUT"]}), false),
            (json!({"ChangeTypes": ["Documents"]}), true),
            (json!({"ChangeTypes": ["Queries"]}), false),
            (json!({"MinimumDurationInMs": 5}), true),
            (json!({"MinimumDurationInMs": 6}), false),
            (json!({"MinimumRequestSizeInBytes": 11}), false),
            (json!({"MinimumResponseSizeInBytes": 21}), false),
            (json!({"MinimumResponseSizeInBytes": -1}), true),
            (json!({"CertificateThumbprints": ["x"]}), false),
        ];
        for (body, is_wanted) in table {
            assert_eq!(read(body.clone()).unwrap().wants(&TRAFFIC), is_wanted, "{body}");
        }
        assert!(
            !WantedTraffic::default().wants(&TRAFFIC),
            "nothing is logged unless it is asked for"
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        for (body, word) in [
            (json!({"HttpMethods": "GET"}), "HttpMethods"),
            (json!({"StatusCodes": ["x"]}), "StatusCodes"),
            (json!({"StatusCodes": [70000]}), "StatusCodes"),
            (json!({"MinimumDurationInMs": "x"}), "MinimumDurationInMs"),
            (json!({"ChangeTypes": ["Bad"]}), "'Bad' was not found"),
        ] {
            let error = read(body.clone()).unwrap_err();
            assert!(error.message.contains(word), "{body}: {}", error.message);
        }
        let mode = json!({"TrafficWatchMode": "Bad"});
        assert_eq!(
            WantedTraffic::read(mode.as_object().unwrap()).unwrap_err().kind,
            ErrorKind::Format
        );
    }
}
