//! Dashboards over a WebSocket: the widgets that a reader asks for, or all of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;
use wire::{ProtocolError, database_shapes::NODE_TAG};

use crate::{
    call::Call,
    dashboard::{Dashboard, Widget},
    pulse_feed::{self, Pulse},
    web_socket::{Gone, Session},
};

/// Widgets that one reader may watch.
const WATCHED_MAX: usize = 64;

/// `GET /cluster-dashboard/watch?node=`: the reader says which widgets it wants to see.
pub(crate) fn watch_cluster(call: &Call) -> Result<Session, ProtocolError> {
    let query = call.query();
    let node = query.required("node")?;
    if node != NODE_TAG {
        return Err(ProtocolError::invalid_operation(format!(
            "There is no node {node} in the cluster"
        )));
    }
    Ok(pulse_feed::begin(ChosenWidgets {
        dashboard: dashboard(call),
        has_begun: false,
        watched: BTreeMap::new(),
    }))
}

/// `GET /server-dashboard/watch`: everything that the server tells of itself.
pub(crate) fn watch_server(call: &Call) -> Result<Session, ProtocolError> {
    Ok(pulse_feed::begin(AllWidgets { dashboard: dashboard(call), shown: BTreeMap::new() }))
}

fn dashboard(call: &Call) -> Dashboard {
    let address = call.state.address_in_passing(&call.headers).into_owned();
    Dashboard::new(call.state.clone(), address)
}

/// A reader of widgets.
struct ChosenWidgets {
    dashboard: Dashboard,
    has_begun: bool,
    /// By the numbers that the reader has given them: the widgets, and when they were shown last.
    watched: BTreeMap<i64, (Widget, Option<Instant>)>,
}

impl Pulse for ChosenWidgets {
    fn messages(&mut self) -> Result<Vec<Value>, Gone> {
        let mut messages = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            let data = json!({"Type": "ServerTime", "Date": self.dashboard.now()});
            messages.push(json!({"Id": -1, "Data": data}));
        }
        let now = Instant::now();
        for (id, (widget, shown)) in &mut self.watched {
            if shown.is_none_or(|shown| widget.interval() <= now.duration_since(shown)) {
                *shown = Some(now);
                messages.push(json!({"Id": id, "Data": self.dashboard.show(*widget)}));
            }
        }
        Ok(messages)
    }

    /// What cannot be understood is passed over, as are widgets that there are not.
    fn hear(&mut self, text: &str) {
        let Ok(said) = serde_json::from_str::<Value>(text) else { return };
        let Some(id) = said["Id"].as_i64() else { return };
        match said["Command"].as_str() {
            Some("watch") if self.watched.len() < WATCHED_MAX => {
                if let Some(widget) = said["Type"].as_str().and_then(Widget::named) {
                    self.watched.insert(id, (widget, None));
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
    shown: BTreeMap<Widget, Instant>,
}

/// What that dashboard calls its parts.
const PARTS: [(Widget, &str); 5] = [
    (Widget::MachineResources, "MachineResources"),
    (Widget::DatabaseOverview, "DatabasesInfo"),
    (Widget::DatabaseIndexing, "IndexingSpeed"),
    (Widget::DatabaseTraffic, "TrafficWatch"),
    (Widget::DriveUsage, "DriveUsage"),
];

impl Pulse for AllWidgets {
    fn messages(&mut self) -> Result<Vec<Value>, Gone> {
        let now = Instant::now();
        let mut messages = Vec::new();
        for (widget, name) in PARTS {
            let shown = self.shown.get(&widget);
            if shown.is_none_or(|shown| widget.interval() <= now.duration_since(*shown)) {
                self.shown.insert(widget, now);
                let mut message = self.dashboard.show(widget);
                message["Type"] = name.into();
                messages.push(message);
            }
        }
        Ok(messages)
    }
}
