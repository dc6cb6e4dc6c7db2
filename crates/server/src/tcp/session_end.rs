//! How the session of a worker ends, and the last message to its client.

use subscriptions::{Ended, Occupied};
use wire::{
    ErrorKind,
    tcp_shapes::{ConnectionStatus, header_error, refused, session_error},
};

use crate::{api_error::ApiError, feeds::gone::Gone};

/// Why a session ends.
pub(super) enum End {
    /// There is no client to notify.
    Gone,
    /// The client is sent this first.
    Notified(LastMessage),
}

/// The last message to a client.
pub(super) struct LastMessage {
    pub(super) bytes: Vec<u8>,
    /// The reason in it, for the log and for operators.
    pub(super) why: String,
}

impl End {
    /// The connection has an unknown purpose.
    pub(super) fn unusable(error: &ApiError) -> End {
        End::Notified(LastMessage { bytes: header_error(error), why: error.message.clone() })
    }

    /// The worker must not begin, or must not continue.
    pub(super) fn refused(status: ConnectionStatus, kind: ErrorKind, message: String) -> End {
        let error = ApiError::new(kind, message);
        End::Notified(LastMessage { bytes: refused(status, &error), why: error.message.clone() })
    }

    pub(super) fn not_found(message: String) -> End {
        End::refused(ConnectionStatus::NotFound, ErrorKind::SubscriptionDoesNotExist, message)
    }

    pub(super) fn closed(message: String, can_reconnect: bool) -> End {
        let status = ConnectionStatus::Closed { can_reconnect };
        End::refused(status, ErrorKind::SubscriptionClosed, message)
    }

    pub(super) fn invalid(message: String) -> End {
        End::refused(ConnectionStatus::Invalid, ErrorKind::SubscriptionInvalidState, message)
    }

    pub(super) fn in_use(message: String) -> End {
        End::refused(ConnectionStatus::InUse, ErrorKind::SubscriptionInUse, message)
    }

    pub(super) fn canceled() -> End {
        ApiError::new(ErrorKind::OperationCanceled, "The operation was canceled.").into()
    }

    /// The worker's work on the subscription of that name was ended by the server.
    pub(super) fn of_worker(ended: Ended, name: &str) -> End {
        match ended {
            Ended::Deleted => End::not_found(format!("The subscription {name} had been deleted")),
            Ended::Disabled => {
                let message =
                    format!("The subscription {name} is disabled and cannot be used until enabled");
                End::closed(message, false)
            }
            Ended::Dropped => End::closed(ended.reason().to_owned(), false),
            Ended::QueryChanged => End::closed(
                format!(
                    "The subscription {name} query has been modified, connection must be restarted"
                ),
                true,
            ),
            Ended::Moved => End::closed(
                format!("The subscription {name} was modified, connection must be restarted"),
                true,
            ),
            Ended::TakenOver => End::in_use(ended.reason().to_owned()),
            Ended::OtherNode => {
                End::closed(format!("The subscription {name} is served by another node"), true)
            }
            Ended::DatabaseClosed => End::canceled(),
        }
    }

    /// The log entry for an operator; none if the client disconnected.
    pub(super) fn why(&self) -> Option<&str> {
        match self {
            End::Gone => None,
            End::Notified(last) => Some(&last.why),
        }
    }
}

impl From<Gone> for End {
    fn from(_: Gone) -> End {
        End::Gone
    }
}

impl<E> From<E> for End
where
    ApiError: From<E>,
{
    fn from(error: E) -> End {
        let error = ApiError::from(error);
        End::Notified(LastMessage { bytes: session_error(&error), why: error.message.clone() })
    }
}

/// Why a worker may not work on a subscription.
pub(super) fn occupied_text(occupied: Occupied, name: &str) -> String {
    match occupied {
        Occupied::ByAnother => {
            format!("Subscription {name} is occupied, connection cannot be opened")
        }
        Occupied::ByTakeOver => format!(
            "Subscription {name} is already occupied by a TakeOver connection, connection cannot \
             be opened"
        ),
        Occupied::ByConcurrent => format!(
            "Subscription {name} is shared by concurrent workers, connection cannot be opened"
        ),
        Occupied::Full => {
            let workers_max = subscriptions::WORKERS_MAX;
            format!("Subscription {name} has {workers_max} workers already and takes no more")
        }
    }
}
