//! The table of the protocol's errors: which status and which .NET type name each kind has.
//!
//! Not here: message texts (their makers know them) and the body (`error_body`). Invariant: clients
//! pick their exception class by the type name, so a name never changes.

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $status:literal $name:literal;)+) => {
        /// What went wrong, as far as a client can tell errors apart.
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
    /// The request names a host that the server does not know itself as.
    MisdirectedRequest = 421 "Raven.Client.Exceptions.BadRequestException";
    /// The request comes from a web page of another site.
    ForeignOrigin = 403 "Raven.Client.Exceptions.Security.AuthorizationException";
    /// A browser's request that a web page of another site could send, too.
    FormRefused = 415 "Raven.Client.Exceptions.BadRequestException";
    /// The snapshot that the request is to read from has ended.
    SnapshotEnded = 412 "Raven.Client.Exceptions.RavenException";
    /// Deletions behind the position that the request goes on from are forgotten.
    PositionGone = 410 "Raven.Client.Exceptions.RavenException";
    /// Optimistic concurrency: the document is not in the expected version.
    Concurrency = 409 "Raven.Client.Exceptions.ConcurrencyException";
    /// Optimistic concurrency: the database record is not in the expected version.
    RecordConcurrency = 409 "Raven.Server.Rachis.RachisConcurrencyException";
    /// A wait that the request asked for did not end in time.
    Timeout = 408 "Raven.Client.Exceptions.RavenTimeoutException";
    /// The client did not send the rest of its request in time.
    RequestTimeout = 408 "System.TimeoutException";
    /// A parameter is missing or unreadable.
    Argument = 500 "System.ArgumentException";
    /// Something that must be there is absent.
    ArgumentNull = 500 "System.ArgumentNullException";
    /// A parameter is outside its range.
    ArgumentOutOfRange = 500 "System.ArgumentOutOfRangeException";
    /// The operation is not valid in this state or with this body.
    InvalidOperation = 500 "System.InvalidOperationException";
    /// A value in the body has the wrong type.
    Format = 500 "System.FormatException";
    /// A part of the protocol that this server does not have.
    NotSupported = 500 "System.NotSupportedException";
    /// The body is not valid JSON, or not compressed as its header says.
    InvalidData = 500 "System.IO.InvalidDataException";
    /// The body ends inside a value.
    EndOfStream = 500 "System.IO.EndOfStreamException";
    /// A body in parts ends inside one of them, or has none.
    PartsCut = 500 "System.IO.IOException";
    /// An attachment that is to be copied or moved is not there.
    AttachmentDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.Indexes.AttachmentDoesNotExistException";
    /// A counter cannot count that far.
    CounterOverflow = 500 "Raven.Client.Exceptions.Documents.Counters.CounterOverflowException";
    /// A value of a time series that is no number.
    NanValue = 500 "Raven.Server.Documents.TimeSeries.NanValueException";
    /// A key of compare exchange that is too long.
    CompareExchangeKeyTooBig = 500 "Raven.Client.Exceptions.CompareExchangeKeyTooBigException";
    /// A key of compare exchange that is not for clients.
    CompareExchangeInvalidKey = 500 "Raven.Client.Exceptions.CompareExchangeInvalidKeyException";
    /// Optimistic concurrency: values have other versions than a cluster-wide transaction expects.
    ClusterTransactionConcurrency = 409
        "Raven.Client.Exceptions.ClusterTransactionConcurrencyException";
    /// A command to the cluster that cannot be applied.
    RachisApply = 500 "Raven.Server.Rachis.RachisApplyException";
    /// A body that must be an object is something else.
    InvalidStartOfObject = 500 "Sparrow.Exceptions.InvalidStartOfObjectException";
    /// A command whose `Type` nobody knows.
    InvalidCommandType = 500 "Raven.Server.Exceptions.InvalidCommandTypeException";
    /// The work was cancelled from outside.
    OperationCanceled = 500 "System.OperationCanceledException";
    /// The server's own fault.
    Internal = 500 "Raven.Client.Exceptions.RavenException";
    /// A document may not move to another collection.
    CollectionMismatch = 500
        "Raven.Client.Exceptions.Documents.DocumentCollectionMismatchException";
    /// A query that cannot be run.
    InvalidQuery = 500 "Raven.Client.Exceptions.InvalidQueryException";
    /// A shape that cannot be.
    InvalidShape = 500 "Spatial4n.Exceptions.InvalidShapeException";
    /// A regular expression of a query is none, or none that is run.
    RegularExpression = 500 "System.Text.RegularExpressions.RegexParseException";
    /// A script that failed.
    JavaScript = 500 "Raven.Client.Exceptions.Documents.Patching.JavaScriptException";
    /// A script that is none.
    JavaScriptParse = 500
        "Raven.Client.Exceptions.Documents.Patching.JavaScriptParseException";
    /// A script that calls itself too deeply.
    JavaScriptRecursion = 500 "Jint.Runtime.RecursionDepthOverflowException";
    /// A script that calls what has another name now.
    MissingMethod = 500 "System.MissingMethodException";
    /// A query that cannot be parsed.
    QueryParse = 500 "Raven.Server.Documents.Queries.Parser.QueryParser+ParseException";
    /// No sorter of that name.
    SorterDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.Sorters.SorterDoesNotExistException";
    /// A text that does not follow Lucene's query syntax.
    LuceneParse = 500 "Lucene.Net.QueryParsers.ParseException";
    /// No index of that name.
    IndexDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.Indexes.IndexDoesNotExistException";
    /// A definition that an index may not be changed to.
    IndexCreation = 500 "Raven.Client.Exceptions.Documents.Indexes.IndexCreationException";
    /// No subscription of that name.
    SubscriptionDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionDoesNotExistException";
    /// Others work on the subscription.
    SubscriptionInUse = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionInUseException";
    /// A worker may not go on.
    SubscriptionClosed = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionClosedException";
    /// A worker cannot work on the subscription like this.
    SubscriptionInvalidState = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionInvalidStateException";
    /// A name that a subscription may not have.
    SubscriptionName = 500
        "Raven.Client.Exceptions.Documents.Subscriptions.SubscriptionNameException";
    /// A change of the server-wide state that cannot be made.
    StateChangeRefused = 500 "Raven.Server.Rachis.RachisApplyException";
    /// No document of that id, where a query needs it.
    DocumentDoesNotExist = 500
        "Raven.Client.Exceptions.Documents.DocumentDoesNotExistException";
    /// Something that only an administrator may do.
    UnauthorizedAccess = 500 "System.UnauthorizedAccessException";
    /// A definition that cannot be an index.
    IndexCompilation = 500
        "Raven.Client.Exceptions.Documents.Compilation.IndexCompilationException";
    /// An index of which too many documents failed, or whose files did.
    IndexInvalid = 500 "Raven.Client.Exceptions.Documents.Indexes.IndexInvalidException";
    /// No database of that name.
    DatabaseDoesNotExist = 500 "Raven.Client.Exceptions.Database.DatabaseDoesNotExistException";
    /// The database is switched off.
    DatabaseDisabled = 503 "Raven.Client.Exceptions.Database.DatabaseDisabledException";
    /// The database cannot be opened.
    DatabaseLoadFailure = 503 "Raven.Client.Exceptions.Database.DatabaseLoadFailureException";
    /// The database did not open in time.
    DatabaseLoadTimeout = 503 "Raven.Client.Exceptions.Database.DatabaseLoadTimeoutException";
    /// The database did not get its turn to be opened in time.
    DatabaseConcurrentLoadTimeout = 503
        "Raven.Client.Exceptions.Database.DatabaseConcurrentLoadTimeoutException";
    /// The disk has no space left; nothing was written.
    DiskFull = 503 "Voron.Exceptions.DiskFullException";
    /// The storage of the database failed; it is reopened by the next request.
    StorageFailed = 503 "Voron.Exceptions.VoronUnrecoverableErrorException";
    /// The server is short of memory; nothing was done.
    LowMemory = 503 "Raven.Client.Exceptions.LowMemoryException";
    /// More work is queued than the server takes on; nothing was written.
    Overloaded = 503 "Raven.Client.Exceptions.Server.ServerLoadFailureException";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_an_error_status_and_a_qualified_type_name() {
        for kind in ErrorKind::ALL {
            assert!((400..600).contains(&kind.status()), "{kind:?}");
            assert!(kind.type_name().contains('.'), "{kind:?}");
        }
    }

    #[test]
    fn statuses_that_make_clients_fail_over_are_only_given_to_conditions_that_pass() {
        for kind in ErrorKind::ALL.iter().filter(|kind| matches!(kind.status(), 408 | 502..=504)) {
            let passes = kind.type_name().contains("Database")
                || kind.type_name().contains("Voron")
                || matches!(
                    kind,
                    ErrorKind::Timeout
                        | ErrorKind::RequestTimeout
                        | ErrorKind::LowMemory
                        | ErrorKind::Overloaded
                );
            assert!(passes, "{kind:?}");
        }
    }
}
