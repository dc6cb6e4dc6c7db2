//! How a session waits for changes: the thread that makes a transaction durable signals a task per
//! database, which checks which collections have changed, and wakes the sessions that wait for
//! them.

use std::sync::Arc;

use database::DatabaseLease;
use subscriptions::Wake;
use tokio::sync::Notify;

use crate::server_state::ServerState;

#[derive(Default)]
pub(super) struct SessionWake(Notify);

impl SessionWake {
    /// Waits until the session is woken; a wake-up since the last wait counts.
    pub(super) async fn woken(&self) {
        self.0.notified().await;
    }
}

impl Wake for SessionWake {
    fn wake(&self) {
        self.0.notify_one();
    }
}

/// Makes sure that a task watches the changes of the database for as long as it is open.
pub(super) fn look_after(state: &Arc<ServerState>, database: &DatabaseLease) {
    let ring = Arc::new(Notify::new());
    let subscriptions = Arc::clone(database.subscriptions());
    let rung = Arc::clone(&ring);
    if !subscriptions.on_published(move || ring.notify_one()) {
        return;
    }
    let (state, name) = (Arc::clone(state), database.record().name.as_str().to_owned());
    tokio::spawn(async move {
        loop {
            rung.notified().await;
            if subscriptions.is_closed() {
                return;
            }
            let Some(database) = state.engine.if_open(&name) else { continue };
            if let Err(error) = subscriptions.look(&database.read()) {
                tracing::error!(database = name, %error, "changes for subscriptions were not read");
            }
        }
    });
}
