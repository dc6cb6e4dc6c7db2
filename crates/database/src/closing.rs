//! The end of a database, for those that wait for something else: a client, or an index.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use crate::open_database::DatabaseLease;

/// A future that is ready as soon as the database is being closed. What waits for long while it holds a lease selects
/// between this and what it waits for, so that closing the database does not wait for it.
pub struct Closing {
    database: DatabaseLease,
    /// Of the registered task.
    number: Option<u64>,
}

impl Closing {
    /// Of the database of this lease.
    pub fn of(database: &DatabaseLease) -> Closing {
        Closing { database: database.clone(), number: None }
    }

    /// Whether that is the case already.
    pub fn is_closing(&self) -> bool {
        self.database.is_closing()
    }
}

impl Future for Closing {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Closing { database, number } = self.get_mut();
        database.gate.poll_closed(number, context.waker())
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.database.gate.stop_waiting(number);
        }
    }
}
