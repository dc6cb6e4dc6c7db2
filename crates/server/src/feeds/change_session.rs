//! One connection of the Changes API: a client subscribes to changes and is notified of them.
//!
//! Invariant: nothing is held for a client but its queue, which is bounded. A client that does not
//! read its notifications, sends an invalid command, or watches too much is disconnected.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use database::{
    AccessError, ChangesHub, Database, DatabaseLease, Dispatched, Dispatcher, Listener,
    ListenerOptions, Wake,
};
use tokio::{sync::Notify, time::Instant};
use wire::changes::{ChangesCommand, FEATURES, confirmation, take_commands};

use crate::{
    api_error::{ApiError, access_error},
    call::Call,
    feeds::gone::Gone,
    http::web_socket::{self, Session, Socket},
    server_state::ServerState,
};

/// Maximum silence, and how long a client waits that requests the last change only.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Approximate maximum length of a message.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Sent when there is nothing to report.
const HEARTBEAT: &str = "[]";
/// Maximum length of an incomplete command: it is parsed again with every piece, so it must stay
/// short. Two ids of maximum length, with every character escaped, are shorter.
const UNFINISHED_BYTES_MAX: usize = 8 << 10;

/// How long dispatching pauses per notified listener: with many listeners that watch everything, a
/// message to each of them for every change would occupy the whole machine. Changes in the meantime
/// go into one message.
const REST_PER_LISTENER: Duration = Duration::from_micros(20);
/// Shorter pauses are not worth it.
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(20);

/// See the module. It does not keep the database from being closed; when that happens, it ends.
struct ChangeSession {
    state: Arc<ServerState>,
    name: String,
    hub: Arc<ChangesHub>,
    listener: Arc<Listener>,
    woken: Arc<Notify>,
    /// Received commands that are incomplete.
    unfinished: String,
}

/// A session that reports changes of the database of a request.
///
/// # Errors
///
/// When the database is being closed.
pub(crate) fn begin(call: &Call) -> Result<Session, ApiError> {
    let database = call.database()?;
    let state = Arc::clone(&call.state);
    let woken = Arc::new(Notify::new());
    let options = ListenerOptions {
        queued_bytes_max: state.engine.settings().changes.queued_bytes_max,
        budget: Arc::clone(&state.change_budget),
        watch_budget: Arc::clone(&state.watch_budget),
        only_last: call.query().bool("throttleConnection")?.unwrap_or(false),
        began: state.engine.clock().now(),
    };
    let hub = Arc::clone(database.changes());
    let listener = hub.listen(options, wake_of(&woken), start_dispatcher);
    let listener = listener.map_err(|_| closing(database))?;
    let name = database.record().name.as_str().to_owned();
    let session = ChangeSession { state, name, hub, listener, woken, unfinished: String::new() };
    Ok(Box::new(move |socket| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(session.run(socket))
    }))
}

fn closing(database: &Database) -> ApiError {
    access_error(&AccessError::ShuttingDown, database.record().name.as_str())
}

fn wake_of(woken: &Arc<Notify>) -> Wake {
    let woken = Arc::clone(woken);
    Box::new(move || woken.notify_one())
}

/// Dispatches on its own task, while there are listeners.
fn start_dispatcher(mut dispatcher: Dispatcher) -> Wake {
    let woken = Arc::new(Notify::new());
    let wake = wake_of(&woken);
    tokio::spawn(async move {
        while let Dispatched::Notified(listeners) = dispatcher.dispatch() {
            let rest =
                REST_PER_LISTENER.saturating_mul(u32::try_from(listeners).unwrap_or(u32::MAX));
            if REST_MIN <= rest {
                tokio::time::sleep(rest.min(REST_MAX)).await;
            }
            woken.notified().await;
        }
    });
    wake
}

impl ChangeSession {
    async fn run(mut self, mut socket: Socket) {
        // However the session ended, there is no one to notify any more.
        drop(self.serve(&mut socket).await);
        // Nothing is to be queued while the client takes its time to close.
        self.hub.leave(&self.listener);
        socket.close().await;
    }

    async fn serve(&mut self, socket: &mut Socket) -> Result<(), Gone> {
        socket.send(format!("[{FEATURES}]")).await?;
        let mut beat = Instant::now() + SILENCE_MAX;
        while self.listener.end().is_none() {
            let is_due = beat <= Instant::now();
            if self.send_queued(socket, is_due).await? {
                beat = Instant::now() + SILENCE_MAX;
            } else if is_due {
                socket.send(HEARTBEAT.to_owned()).await?;
                beat = Instant::now() + SILENCE_MAX;
            }
            tokio::select! {
                wake = socket.wait_until(beat) => match wake? {
                    web_socket::Wake::Text(text) => self.obey(&text)?,
                    web_socket::Wake::Time => {}
                },
                () = self.woken.notified() => {}
            }
        }
        Ok(())
    }

    /// Sends what is queued; returns whether there was anything but responses to commands.
    async fn send_queued(&self, socket: &mut Socket, is_due: bool) -> Result<bool, Gone> {
        let replies_only = self.listener.options().only_last && !is_due;
        let mut notified = false;
        while let Some(message) = self.listener.take_message(MESSAGE_BYTES_MAX, replies_only) {
            tokio::select! {
                sent = socket.send(message) => sent?,
                // It has not read this one and does not get the next.
                () = self.ended() => return Err(Gone),
            }
            notified = !replies_only;
        }
        Ok(notified)
    }

    async fn ended(&self) {
        while self.listener.end().is_none() {
            self.woken.notified().await;
        }
    }

    fn obey(&mut self, text: &str) -> Result<(), Gone> {
        self.unfinished.push_str(text);
        let commands = take_commands(&mut self.unfinished).map_err(|_| Gone)?;
        if UNFINISHED_BYTES_MAX < self.unfinished.len() {
            return Err(Gone);
        }
        commands.into_iter().try_for_each(|command| self.execute(command))
    }

    fn execute(&self, command: ChangesCommand) -> Result<(), Gone> {
        let listener = Arc::clone(&self.listener);
        let confirm = move || {
            if let Some(id) = command.id {
                listener.reply(confirmation(id));
            }
        };
        match command.watch {
            Some(watch) if command.begins => {
                let watching = self.database()?.watch(&self.listener, watch, confirm);
                return watching.map_err(|_| Gone);
            }
            Some(watch) => self.hub.unwatch(&self.listener, &watch),
            None => {}
        }
        confirm();
        Ok(())
    }

    /// The database, for as long as it is the one that the client connected to.
    fn database(&self) -> Result<DatabaseLease, Gone> {
        let open = self.state.engine.if_open(&self.name);
        open.filter(|database| Arc::ptr_eq(database.changes(), &self.hub)).ok_or(Gone)
    }
}

impl Drop for ChangeSession {
    fn drop(&mut self) {
        self.hub.leave(&self.listener);
    }
}
