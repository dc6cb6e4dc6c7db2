//! One request as handlers see it.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use database::{DatabaseLease, HeldSnapshot};
use http::{HeaderMap, header};
use model::{DatabaseRecord, IdSeparator};
use security::{Caller, Requirement};
use storage::ReadTransaction;
use wire::{ErrorKind, QueryString, header_names::unquote};

use crate::{
    api_error::ApiError,
    http::{body_share::BodyShare, request_body::RequestBody, router::Router},
    server_state::ServerState,
};

/// A request whose route has been found and whose database, if any, is open.
pub(crate) struct Call {
    pub(crate) state: Arc<ServerState>,
    /// Finds the routes of requests inside this one.
    pub(crate) router: &'static Router,
    /// The client, and what it may do.
    pub(crate) caller: Caller,
    /// Its address.
    pub(crate) peer: SocketAddr,
    pub(crate) method: http::Method,
    /// Path and query as the client wrote them.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    /// The database in the path.
    pub(crate) database: Option<DatabaseLease>,
    /// The snapshot that it reads from, when it names one.
    pub(crate) snapshot: Option<Arc<HeldSnapshot>>,
    /// The whole body, decoded; empty for routes that ignore or stream it.
    pub(crate) body: Bytes,
    /// The memory charged for the body.
    pub(crate) body_share: BodyShare,
    /// The body as it arrives, for routes that stream it.
    pub(crate) stream: Option<RequestBody>,
}

impl Call {
    /// The parameters after the `?`.
    pub(crate) fn query(&self) -> QueryString<'_> {
        QueryString::parse(self.target.split_once('?').map_or("", |(_, query)| query))
    }

    /// Whether the client may use this database, for routes that do not have it in their path.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn check_database(&self, database: &str) -> Result<(), ApiError> {
        Ok(self.caller.check(Requirement::ValidUser, Some(database))?)
    }

    /// Whether the client may run scripts of its own in the database.
    ///
    /// # Errors
    /// It may only read, and the settings do not allow it.
    pub(crate) fn check_scripts(&self) -> Result<(), ApiError> {
        if self.state.engine.settings().security.allows_scripts_of_readers {
            return Ok(());
        }
        let record = self.database.as_ref().map(|database| database.record());
        let name = record.as_ref().map(|record| record.name.as_str());
        self.caller.check(Requirement::Write, name).map_err(|_| {
            let message = "Clients that may only read this database may not run scripts in it: \
                           Security.AllowScriptsOfReaders is false.";
            ApiError::new(ErrorKind::InvalidAuth, message)
        })
    }

    /// The records of the databases that the client may use, ordered by name.
    pub(crate) fn visible_records(&self) -> Vec<Arc<DatabaseRecord>> {
        let mut records = self.state.engine.records();
        records.retain(|record| self.check_database(record.name.as_str()).is_ok());
        records
    }

    /// The database of a database route.
    pub(crate) fn database(&self) -> Result<&DatabaseLease, ApiError> {
        self.database
            .as_ref()
            .ok_or_else(|| ApiError::invalid_operation("this route does not name a database"))
    }

    /// The separator of ids that are numbered in its database.
    pub(crate) fn id_separator(&self) -> Result<IdSeparator, ApiError> {
        Ok(self.database()?.queue().id_separator())
    }

    /// A snapshot of the documents of its database: the one that it names, or the newest.
    pub(crate) fn read(&self) -> Result<ReadTransaction, ApiError> {
        match &self.snapshot {
            Some(held) => Ok(held.documents().clone()),
            None => Ok(self.database()?.read()),
        }
    }

    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The entity tag in `If-None-Match`, without quotes.
    pub(crate) fn if_none_match(&self) -> Option<&str> {
        self.header(header::IF_NONE_MATCH).map(unquote)
    }

    /// The change vector that the client expects, without quotes.
    pub(crate) fn if_match(&self) -> Option<&str> {
        self.header(header::IF_MATCH).map(unquote)
    }
}
