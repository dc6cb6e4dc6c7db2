//! News of a database, sent over a WebSocket every few seconds: first everything, then changes, and
//! a heartbeat in between so that either side notices when the other is gone.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use database::{Database, DatabaseLease};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    api_error::ApiError,
    call::Call,
    feeds::gone::Gone,
    http::web_socket::{Session, Socket, Wake},
    server_state::ServerState,
};

/// How often a reader is sent news.
const NEWS_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum silence towards a reader.
const SILENCE_MAX: Duration = Duration::from_secs(4);
/// How often the connection to a reader is checked.
const READER_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Sent to a reader when there is no news.
const HEARTBEAT: &str = "\r\n";

/// The source of a feed.
pub(crate) trait News: Send + 'static {
    /// What is new since the last call; everything on the first one. `None` when there is nothing.
    fn take(&mut self, database: &Database) -> Option<Value>;

    /// Sent at the beginning when there is nothing.
    fn nothing(&self) -> Value;
}

/// A database as it is open now, for repeated access. This does not keep it from being closed; a
/// later opening is a different one.
pub(crate) struct OpenedDatabase {
    state: Arc<ServerState>,
    name: String,
    opened: Duration,
}

impl OpenedDatabase {
    /// The database of a request.
    ///
    /// # Errors
    /// When the request names none.
    pub(crate) fn of(call: &Call) -> Result<OpenedDatabase, ApiError> {
        let database = call.database()?;
        Ok(OpenedDatabase {
            state: Arc::clone(&call.state),
            name: database.record().name.as_str().to_owned(),
            opened: database.opened_after(),
        })
    }

    /// The database, for as long as it is open.
    ///
    /// # Errors
    ///
    /// [`Gone`] once it is closed.
    pub(crate) fn get(&self) -> Result<DatabaseLease, Gone> {
        let open = self.state.engine.if_open(&self.name);
        open.filter(|database| database.opened_after() == self.opened).ok_or(Gone)
    }

    pub(crate) fn state(&self) -> &Arc<ServerState> {
        &self.state
    }
}

/// A reader; it ends when the database is closed.
pub(crate) struct LiveFeed<N> {
    database: OpenedDatabase,
    news: N,
}

impl<N: News> LiveFeed<N> {
    /// A session that sends news of the database of a request.
    pub(crate) fn begin(call: &Call, news: N) -> Result<Session, ApiError> {
        let feed = LiveFeed { database: OpenedDatabase::of(call)?, news };
        Ok(Box::new(move |socket| -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(feed.run(socket))
        }))
    }

    async fn run(mut self, mut socket: Socket) {
        // However it ended, there is no one to notify any more.
        drop(self.serve(&mut socket).await);
        socket.close().await;
    }

    async fn serve(&mut self, socket: &mut Socket) -> Result<(), Gone> {
        let everything = self.take()?.unwrap_or_else(|| self.news.nothing().to_string());
        socket.send(everything).await?;
        let (mut asked, mut sent) = (Instant::now(), Instant::now());
        loop {
            let next_look = Instant::now() + READER_CHECK_INTERVAL;
            // What the client sends does not matter, only whether it is connected.
            while socket.wait_until(next_look).await? != Wake::Time {}
            if asked.elapsed() >= NEWS_INTERVAL {
                asked = Instant::now();
                if let Some(news) = self.take()? {
                    socket.send(news).await?;
                    sent = asked;
                    continue;
                }
            }
            self.database.get()?;
            if sent.elapsed() >= SILENCE_MAX {
                socket.send(HEARTBEAT.to_owned()).await?;
                sent = Instant::now();
            }
        }
    }

    fn take(&mut self) -> Result<Option<String>, Gone> {
        let database = self.database.get()?;
        Ok(self.news.take(&database).map(|news| news.to_string()))
    }
}
