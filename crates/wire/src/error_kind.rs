//! The table of the protocol's errors: the HTTP status and .NET type name of each kind.
//!
//! The messages are in the code that raises the errors, the body in `error_body`. Invariant: clients choose
//! their exception class by the type name, so a type name never changes.

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $status:literal $name:literal;)+) => {
        /// A kind of error, as far as clients distinguish them.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum ErrorKind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl ErrorKind {
            /// Every row of the table.
            pub const ALL: &'static [ErrorKind] = &[$(ErrorKind::$kind,)+];

            /// The HTTP status of the answer.
            pub fn status(self) -> u16 {
                match self { $(ErrorKind::$kind => $status,)+ }
            }

            /// The full .NET name that goes into `Type`.
            pub fn type_name(self) -> &'static str {
                match self { $(ErrorKind::$kind => $name,)+ }
            }
        }
    };
}

kinds! {
    /// No route has this method and path.
    RouteNotFound = 400 "Raven.Client.Exceptions.Routing.RouteNotFoundException";
    /// The request contradicts itself or the state of the server.
    BadRequest = 400 "Raven.Client.Exceptions.BadRequestException";
    /// The request or its body is larger than allowed.
    RequestTooLarge = 413 "Raven.Client.Exceptions.BadRequestException";
    /// The request line or the headers are larger than allowed.
    UriTooLong = 414 "Raven.Client.Exceptions.BadRequestException";
    /// The request names a host that this server does not serve.
    MisdirectedRequest = 421 "Raven.Client.Exceptions.BadRequestException";
    /// The client has no certificate, or none that allows the request.
    InvalidAuth = 403 "InvalidAuth";
    /// The request comes from a web page of another site.
    ForeignOrigin = 403 "Raven.Client.Exceptions.Security.AuthorizationException";
    /// A browser's request of a kind that a page of another site could send as well.
    FormRefused = 415 "Raven.Client.Exceptions.BadRequestException";
    /// The snapshot to read from has ended.
    SnapshotEnded = 412 "Raven.Client.Exceptions.RavenException";
    /// The log no longer has the deletions after the position from which to continue.
    PositionGone = 410 "Raven.Client.Exceptions.RavenException";
    /// The document is in conflict, so there is none to read.
    DocumentConflict = 409 "Raven.Client.Exceptions.Documents.DocumentConflictException";
    /// There is no hub of replication with this name.
    ReplicationHubNotFound = 500 "Raven.Client.Exceptions.ReplicationHubNotFoundException";
    /// Optimistic concurrency: the document does not have the expected change vector.
    Concurrency = 409 "Raven.Client.Exceptions.ConcurrencyException";
    /// Optimistic concurrency: the database record does not have the expected version.
    RecordConcurrency = 409 "Raven.Server.Rachis.RachisConcurrencyException";
    /// A wait requested by the client timed out.
    Timeout = 408 "Raven.Client.Exceptions.RavenTimeoutException";
    /// The client did not send the rest of its request in time.
    RequestTimeout = 408 "System.TimeoutException";
    /// A parameter is missing or malformed.
    Argument = 500 "System.ArgumentException";
    /// A required value is missing.
    ArgumentNull = 500 "System.ArgumentNullException";
    /// A parameter is outside its range.
    ArgumentOutOfRange = 500 "System.ArgumentOutOfRangeException";
    /// The operation is not valid in this state or with this body.
    InvalidOperation = 500 "System.InvalidOperationException";
    /// A value in the body has the wrong type.
    Format = 500 "System.FormatException";
    /// A part of the protocol that this server does not implement.
    NotSupported = 500 "System.NotSupportedException";
    /// The body is not valid JSON, or not compressed as its header claims.
    InvalidData = 500 "System.IO.InvalidDataException";
    /// The body ends inside a value.
    EndOfStream = 500 "System.IO.EndOfStreamException";
    /// A multipart body has no parts, or ends inside one.
    PartsCut = 500 "System.IO.IOException";
    /// The attachment to copy or move does not exist.
    AttachmentDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.Indexes.AttachmentDoesNotExistException";
    /// The counter would overflow.
    CounterOverflow = 500 "Raven.Client.Exceptions.Documents.Counters.CounterOverflowException";
    /// A value of a time series is not a number.
    NanValue = 500 "Raven.Server.Documents.TimeSeries.NanValueException";
    /// A compare exchange key is too long.
    CompareExchangeKeyTooBig = 500 "Raven.Client.Exceptions.CompareExchangeKeyTooBigException";
    /// A compare exchange key is reserved.
    CompareExchangeInvalidKey = 500 "Raven.Client.Exceptions.CompareExchangeInvalidKeyException";
    /// Optimistic concurrency: values do not have the versions expected by a cluster-wide transaction.
    ClusterTransactionConcurrency = 409
        "Raven.Client.Exceptions.ClusterTransactionConcurrencyException";
    /// A command to the cluster cannot be applied.
    RachisApply = 500 "Raven.Server.Rachis.RachisApplyException";
    /// The body is not an object.
    InvalidStartOfObject = 500 "Sparrow.Exceptions.InvalidStartOfObjectException";
    /// The `Type` of a command is unknown.
    InvalidCommandType = 500 "Raven.Server.Exceptions.InvalidCommandTypeException";
    /// The operation was cancelled.
    OperationCanceled = 500 "System.OperationCanceledException";
    /// An internal error of the server.
    Internal = 500 "Raven.Client.Exceptions.RavenException";
    /// A document may not move to another collection.
    CollectionMismatch = 500
        "Raven.Client.Exceptions.Documents.DocumentCollectionMismatchException";
    /// The query cannot be run.
    InvalidQuery = 500 "Raven.Client.Exceptions.InvalidQueryException";
    /// The shape is invalid.
    InvalidShape = 500 "Spatial4n.Exceptions.InvalidShapeException";
    /// A regular expression in a query is invalid or not supported.
    RegularExpression = 500 "System.Text.RegularExpressions.RegexParseException";
    /// The script failed.
    JavaScript = 500 "Raven.Client.Exceptions.Documents.Patching.JavaScriptException";
    /// The script cannot be parsed.
    JavaScriptParse = 500
        "Raven.Client.Exceptions.Documents.Patching.JavaScriptParseException";
    /// The script recursed too deeply.
    JavaScriptRecursion = 500 "Jint.Runtime.RecursionDepthOverflowException";
    /// The script calls a method that has been renamed.
    MissingMethod = 500 "System.MissingMethodException";
    /// The query cannot be parsed.
    QueryParse = 500 "Raven.Server.Documents.Queries.Parser.QueryParser+ParseException";
    /// There is no sorter with this name.
    SorterDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.Sorters.SorterDoesNotExistException";
    /// The text does not follow Lucene's query syntax.
    LuceneParse = 500 "Lucene.Net.QueryParsers.ParseException";
    /// There is no index with this name.
    IndexDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.Indexes.IndexDoesNotExistException";
    /// The index cannot be changed to this definition.
    IndexCreation = 500 "Raven.Client.Exceptions.Documents.Indexes.IndexCreationException";
    /// There is no subscription with this name.
    SubscriptionDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionDoesNotExistException";
    /// Another worker holds the subscription.
    SubscriptionInUse = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionInUseException";
    /// The worker must not continue.
    SubscriptionClosed = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionClosedException";
    /// Another node serves the subscription.
    SubscriptionDoesNotBelongToNode = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionDoesNotBelongToNodeException";
    /// The subscription does not allow this worker in its current state.
    SubscriptionInvalidState = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionInvalidStateException";
    /// The name of the subscription is invalid.
    SubscriptionName = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionNameException";
    /// The server-wide state refuses the change.
    StateChangeRefused = 500 "Raven.Server.Rachis.RachisApplyException";
    /// A document needed by a query does not exist.
    DocumentDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.DocumentDoesNotExistException";
    /// The action requires an administrator.
    UnauthorizedAccess = 500 "System.UnauthorizedAccessException";
    /// The definition cannot be compiled to an index.
    IndexCompilation = 500
        "Raven.Client.Exceptions.Documents.Compilation.IndexCompilationException";
    /// The index is in an error state, because too many documents failed or its files are damaged.
    IndexInvalid = 500 "Raven.Client.Exceptions.Documents.Indexes.IndexInvalidException";
    /// There is no database with this name.
    DatabaseDoesNotExist = 500 "Raven.Client.Exceptions.Database.DatabaseDoesNotExistException";
    /// The database is disabled.
    DatabaseDisabled = 503 "Raven.Client.Exceptions.Database.DatabaseDisabledException";
    /// Other nodes have the database.
    DatabaseNotRelevant = 410 "Raven.Client.Exceptions.Database.DatabaseNotRelevantException";
    /// The database could not be opened.
    DatabaseLoadFailure = 503 "Raven.Client.Exceptions.Database.DatabaseLoadFailureException";
    /// The database did not open in time.
    DatabaseLoadTimeout = 503 "Raven.Client.Exceptions.Database.DatabaseLoadTimeoutException";
    /// Too many databases are being opened; this one did not get its turn in time.
    DatabaseConcurrentLoadTimeout = 503
        "Raven.Client.Exceptions.Database.DatabaseConcurrentLoadTimeoutException";
    /// The disk is full; nothing was written.
    DiskFull = 503 "Voron.Exceptions.DiskFullException";
    /// The storage of the database failed; the next request reopens it.
    StorageFailed = 503 "Voron.Exceptions.VoronUnrecoverableErrorException";
    /// The server is low on memory; nothing was done.
    LowMemory = 503 "Raven.Client.Exceptions.LowMemoryException";
    /// The cluster has no leader that this node can reach; nothing was done.
    NoLeader = 503 "Raven.Client.Exceptions.Cluster.NoLeaderException";
    /// The server's queues are full; nothing was written.
    Overloaded = 503 "Raven.Client.Exceptions.Server.ServerLoadFailureException";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_an_error_status_and_a_qualified_type_name() {
        for kind in ErrorKind::ALL {
            assert!((400..600).contains(&kind.status()), "{kind:?}");
            // Clients know the refusal of a certificate by this word.
            let is_qualified = kind.type_name().contains('.') || *kind == ErrorKind::InvalidAuth;
            assert!(is_qualified, "{kind:?}");
        }
    }

    #[test]
    fn statuses_that_make_clients_fail_over_are_only_used_for_conditions_that_pass() {
        for kind in ErrorKind::ALL.iter().filter(|kind| matches!(kind.status(), 408 | 502..=504)) {
            let passes = kind.type_name().contains("Database")
                || kind.type_name().contains("Voron")
                || matches!(
                    kind,
                    ErrorKind::Timeout
                        | ErrorKind::RequestTimeout
                        | ErrorKind::LowMemory
                        | ErrorKind::NoLeader
                        | ErrorKind::Overloaded
                );
            assert!(passes, "{kind:?}");
        }
    }
}
