//! Dashboards over a WebSocket: the widgets that a reader requests, or all of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    api_error::ApiError,
    call::Call,
    feeds::{
        dashboard::{Dashboard, Look, Widget},
        gone::Gone,
        pulse::Pulse,
        pulse_feed,
    },
    http::web_socket::Session,
};

/// Maximum number of widgets that one reader may watch.
const WATCHED_MAX: usize = 64;

/// `GET /cluster-dashboard/watch?node=`: the reader chooses the widgets.
pub(crate) fn watch_cluster(call: &Call) -> Result<Session, ApiError> {
    let query = call.query();
    let node = query.required("node")?;
    if node != call.state.node_tag() {
        return Err(ApiError::invalid_operation(format!("There is no node {node} in the cluster")));
    }
    Ok(pulse_feed::begin(ChosenWidgets {
        dashboard: dashboard(call),
        has_begun: false,
        watched: BTreeMap::new(),
    }))
}

/// `GET /server-dashboard/watch`: the server's own dashboard.
pub(crate) fn watch_server(call: &Call) -> Result<Session, ApiError> {
    Ok(pulse_feed::begin(AllWidgets::of(dashboard(call))))
}

fn dashboard(call: &Call) -> Dashboard {
    let address = call.state.address_in_passing(&call.headers).into_owned();
    Dashboard::new(call.state.clone(), address)
}

/// A widget that a reader watches.
struct Watched {
    widget: Widget,
    shown: Option<Instant>,
    last: Option<Look>,
}

impl Watched {
    fn new(widget: Widget) -> Watched {
        Watched { widget, shown: None, last: None }
    }

    /// Its current content, when it is due.
    fn show_if_due(&mut self, dashboard: &Dashboard, now: Instant) -> Option<Value> {
        let interval = self.widget.interval();
        if self.shown.is_some_and(|shown| now.duration_since(shown) < interval) {
            return None;
        }
        self.shown = Some(now);
        Some(dashboard.show(self.widget, &mut self.last))
    }
}

/// A reader of widgets.
struct ChosenWidgets {
    dashboard: Dashboard,
    has_begun: bool,
    /// The widgets by the numbers that the reader assigned to them.
    watched: BTreeMap<i64, Watched>,
}

impl Pulse for ChosenWidgets {
    fn messages(&mut self) -> Result<Vec<Value>, Gone> {
        let mut messages = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            let data = json!({"Type": "ServerTime", "Date": self.dashboard.now()});
            messages.push(json!({"Id": -1, "Data": data}));
        }
        let now = Instant::now();
        for (id, watched) in &mut self.watched {
            if let Some(data) = watched.show_if_due(&self.dashboard, now) {
                messages.push(json!({"Id": id, "Data": data}));
            }
        }
        Ok(messages)
    }

    /// Invalid messages and unknown widgets are ignored.
    fn hear(&mut self, text: &str) {
        let Ok(said) = serde_json::from_str::<Value>(text) else { return };
        let Some(id) = said["Id"].as_i64() else { return };
        match said["Command"].as_str() {
            Some("watch") if self.watched.len() < WATCHED_MAX => {
                if let Some(widget) = said["Type"].as_str().and_then(Widget::named) {
                    self.watched.insert(id, Watched::new(widget));
                }
            }
            Some("unwatch") => {
                self.watched.remove(&id);
            }
            _ => {}
        }
    }
}

/// A reader of the server's own dashboard.
struct AllWidgets {
    dashboard: Dashboard,
    parts: Vec<Part>,
}

/// A part of that dashboard, with its name there.
struct Part {
    name: &'static str,
    watched: Watched,
}

const PARTS: [(Widget, &str); 5] = [
    (Widget::MachineResources, "MachineResources"),
    (Widget::DatabaseOverview, "DatabasesInfo"),
    (Widget::DatabaseIndexing, "IndexingSpeed"),
    (Widget::DatabaseTraffic, "TrafficWatch"),
    (Widget::DriveUsage, "DriveUsage"),
];

impl AllWidgets {
    fn of(dashboard: Dashboard) -> AllWidgets {
        let part = |(widget, name)| Part { name, watched: Watched::new(widget) };
        AllWidgets { dashboard, parts: PARTS.map(part).into() }
    }
}

impl Pulse for AllWidgets {
    fn messages(&mut self) -> Result<Vec<Value>, Gone> {
        let now = Instant::now();
        let mut messages = Vec::new();
        for part in &mut self.parts {
            if let Some(mut message) = part.watched.show_if_due(&self.dashboard, now) {
                message["Type"] = part.name.into();
                messages.push(message);
            }
        }
        Ok(messages)
    }
}
