//! What is new in a database, told over a WebSocket every few seconds: first everything, then the news,
//! and a heartbeat in between so that either side notices when the other has gone.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use database::{Database, DatabaseLease};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    api_error::ApiError,
    call::Call,
    gone::Gone,
    server_state::ServerState,
    web_socket::{Session, Socket, Wake},
};

/// How often a reader is told what is new.
const NEWS_INTERVAL: Duration = Duration::from_secs(3);
/// How long a reader hears nothing at most.
const SILENCE_MAX: Duration = Duration::from_secs(4);
/// How often a reader is looked after.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// What a reader is sent when there is nothing new.
const HEARTBEAT: &str = "\r\n";

/// What a feed tells.
pub(crate) trait News: Send + 'static {
    /// What is new since the last call; everything at the first one. `None` when there is nothing.
    fn take(&mut self, database: &Database) -> Option<Value>;

    /// What is sent at the beginning when there is nothing.
    fn nothing(&self) -> Value;
}

/// A database as it is open now, for those who look at it again and again. They do not keep it from being
/// closed; what is opened after that is another.
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
    /// [`Gone`] when it is so no more.
    pub(crate) fn get(&self) -> Result<DatabaseLease, Gone> {
        let open = self.state.registry.if_open(&self.name);
        open.filter(|database| database.opened_after() == self.opened).ok_or(Gone)
    }

    pub(crate) fn state(&self) -> &Arc<ServerState> {
        &self.state
    }
}

/// One reader; it ends when the database is closed.
pub(crate) struct LiveFeed<N> {
    database: OpenedDatabase,
    news: N,
}

impl<N: News> LiveFeed<N> {
    /// A session that tells the news of the database of a request.
    pub(crate) fn begin(call: &Call, news: N) -> Result<Session, ApiError> {
        let feed = LiveFeed { database: OpenedDatabase::of(call)?, news };
        Ok(Box::new(move |socket| -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(feed.run(socket))
        }))
    }

    async fn run(mut self, mut socket: Socket) {
        // However it ended, nobody is left to be told.
        drop(self.serve(&mut socket).await);
        socket.close().await;
    }

    async fn serve(&mut self, socket: &mut Socket) -> Result<(), Gone> {
        let everything = self.take()?.unwrap_or_else(|| self.news.nothing().to_string());
        socket.send(everything).await?;
        let (mut asked, mut sent) = (Instant::now(), Instant::now());
        loop {
            let next_look = Instant::now() + LOOK_INTERVAL;
            // What the client says is of no interest, only whether it is there.
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
