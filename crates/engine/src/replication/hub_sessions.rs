//! What a hub remembers of its sinks while the server runs: for operators, and to notice that what it allows has changed.
//! A sink that the hub does not remember asks again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use model::{DatabaseId, Etag, ticks};
use replication::Terms;

use super::{destinations::Direction, pacing::Pacing, statistics::LinkStatistics};

/// Sinks that are remembered.
const SESSIONS_MAX: usize = 16_384;
/// A sink that has sent nothing for so long is not connected: each asks more often.
const CONNECTED_TIME: Duration = Duration::from_secs(60);

/// A sink of a hub.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    /// The database of the hub.
    pub(super) database: DatabaseId,
    /// The number of the hub.
    pub(super) hub: u64,
    /// The database of the sink.
    pub(super) sink: DatabaseId,
    /// The links of a sink learn of other terms one after the other.
    pub(super) direction: Direction,
    /// The thumbprint of its certificate.
    pub(super) certificate: Option<String>,
}

/// A sink that has connected to a hub, for operators.
#[derive(Clone, Debug)]
pub struct ConnectedSink {
    /// The number of the hub.
    pub hub: u64,
    /// The name of its database.
    pub database: String,
    /// The address of its server.
    pub url: String,
    /// The name of its access; `None` without certificates.
    pub access: Option<String>,
    /// Whether it has asked or sent something lately.
    pub is_connected: bool,
    /// Whether it was away for so long that it has missed deletions.
    pub has_missed_deletions: bool,
    /// What was sent to it.
    pub statistics: LinkStatistics,
}

struct Session {
    terms: Terms,
    sink: ConnectedSink,
    last_ticks: i64,
}

/// See the module.
#[derive(Default)]
pub(super) struct HubSessions {
    sessions: Mutex<HashMap<SessionKey, Session>>,
    /// How old the changes of hubs must be, by their numbers and delays.
    pacings: Mutex<HashMap<(DatabaseId, u64), (Duration, Pacing)>>,
}

impl HubSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sink has learned what the hub allows.
    pub(super) fn agreed(&self, key: SessionKey, sink: ConnectedSink, terms: Terms, now: i64) {
        let mut sessions = self.lock();
        if SESSIONS_MAX <= sessions.len() && !sessions.contains_key(&key) {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.last_ticks);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                sessions.remove(&oldest);
            }
        }
        let sink = match sessions.remove(&key) {
            Some(known) => ConnectedSink {
                statistics: known.sink.statistics,
                has_missed_deletions: known.sink.has_missed_deletions,
                ..sink
            },
            None => sink,
        };
        sessions.insert(key, Session { terms, sink, last_ticks: now });
    }

    /// Whether the sink knows that the hub allows this. One that does not is forgotten.
    pub(super) fn has_agreed(&self, key: &SessionKey, terms: &Terms, now: i64) -> bool {
        let mut sessions = self.lock();
        match sessions.get_mut(key) {
            Some(session) if session.terms == *terms => {
                session.last_ticks = now;
                true
            }
            Some(_) => {
                sessions.remove(key);
                false
            }
            None => false,
        }
    }

    /// Changes what operators see of a sink.
    pub(super) fn note(&self, key: &SessionKey, note: impl FnOnce(&mut ConnectedSink)) {
        if let Some(session) = self.lock().get_mut(key) {
            note(&mut session.sink);
        }
    }

    /// The sinks of a database's hubs, those that are connected first. One that both sends and is sent to is there once.
    pub(super) fn of_database(&self, database: DatabaseId, now: i64) -> Vec<ConnectedSink> {
        let since = now.saturating_sub(ticks::of_duration(CONNECTED_TIME));
        let sessions = self.lock();
        let is_also_sent_to = |key: &SessionKey| {
            let sent_to = SessionKey { direction: Direction::HubToSink, ..key.clone() };
            key.direction == Direction::SinkToHub && sessions.contains_key(&sent_to)
        };
        let of_database =
            sessions.iter().filter(|(key, _)| key.database == database && !is_also_sent_to(key));
        let mut sinks: Vec<ConnectedSink> = of_database
            .map(|(_, session)| ConnectedSink {
                is_connected: since <= session.last_ticks,
                ..session.sink.clone()
            })
            .collect();
        sinks.sort_by(|one, other| {
            let place = |sink: &ConnectedSink| (sink.hub, !sink.is_connected);
            place(one).cmp(&place(other)).then_with(|| one.database.cmp(&other.database))
        });
        sinks
    }

    /// Up to where a hub sends its log now, and after what time to look again if that is not all.
    pub(super) fn pace(
        &self,
        (database, hub): (DatabaseId, u64),
        delay: Duration,
        (now, last): (Duration, Etag),
    ) -> (Etag, Option<Duration>) {
        let mut pacings = self.pacings.lock().unwrap_or_else(PoisonError::into_inner);
        let pacing = pacings.entry((database, hub));
        let pacing = pacing.or_insert_with(|| (delay, Pacing::new(delay)));
        if pacing.0 != delay {
            *pacing = (delay, Pacing::new(delay));
        }
        pacing.1.observe(now, last)
    }

    /// Forgets what belongs to databases and hubs that are no longer there.
    pub(super) fn retain(&self, is_there: impl Fn(DatabaseId, u64) -> bool) {
        self.lock().retain(|key, _| is_there(key.database, key.hub));
        let mut pacings = self.pacings.lock().unwrap_or_else(PoisonError::into_inner);
        pacings.retain(|(database, hub), _| *hub == 0 || is_there(*database, *hub));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sink: u8) -> SessionKey {
        let (database, sink) = (DatabaseId([1; 16]), DatabaseId([sink; 16]));
        SessionKey { database, hub: 7, sink, direction: Direction::HubToSink, certificate: None }
    }

    fn sink() -> ConnectedSink {
        ConnectedSink {
            hub: 7,
            database: "edge".to_owned(),
            url: "http://s:1".to_owned(),
            access: None,
            is_connected: false,
            has_missed_deletions: false,
            statistics: LinkStatistics::default(),
        }
    }

    #[test]
    fn a_sink_that_knows_other_terms_asks_again() {
        let sessions = HubSessions::default();
        let terms = Terms { sends: true, ..Terms::default() };
        assert!(!sessions.has_agreed(&key(2), &terms, 5));
        sessions.agreed(key(2), sink(), terms.clone(), 5);
        assert!(sessions.has_agreed(&key(2), &terms, 6));
        assert!(!sessions.has_agreed(&key(3), &terms, 6));
        let sending = SessionKey { direction: Direction::SinkToHub, ..key(2) };
        assert!(!sessions.has_agreed(&sending, &terms, 6), "each link asks");
        let others = Terms { takes: true, ..terms.clone() };
        assert!(!sessions.has_agreed(&key(2), &others, 7));
        assert!(!sessions.has_agreed(&key(2), &terms, 8), "it was forgotten");
    }

    #[test]
    fn a_sink_that_is_silent_is_not_connected() {
        let sessions = HubSessions::default();
        sessions.agreed(key(2), sink(), Terms::default(), 0);
        let minute = ticks::of_duration(CONNECTED_TIME);
        let database = DatabaseId([1; 16]);
        assert!(sessions.of_database(database, minute)[0].is_connected);
        assert!(!sessions.of_database(database, minute + 1)[0].is_connected);
        assert!(sessions.of_database(DatabaseId([2; 16]), 0).is_empty());
        let sending = SessionKey { direction: Direction::SinkToHub, ..key(2) };
        sessions.agreed(sending, sink(), Terms::default(), 0);
        assert_eq!(sessions.of_database(database, 0).len(), 1, "one sink");
        sessions.retain(|_, _| false);
        assert!(sessions.of_database(database, 0).is_empty());
    }
}
