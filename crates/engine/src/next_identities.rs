//! The next values of identities, which the cluster hands out.

use cluster::Submission;
use cluster_state::{Applied, Command, IdentityCommand, Outcome};
use database::DatabaseLease;

use crate::{engine::Engine, error::EngineError};

/// The next values of some identities, on their way.
pub struct NextIdentities {
    /// `None` if no identity was named.
    submission: Option<Submission>,
}

impl Engine {
    /// Requests the next value of each of these identities. Never blocks.
    ///
    /// # Errors
    /// The cluster accepts no command, or the disk of the database is nearly full.
    pub fn next_identities(
        &self,
        database: &DatabaseLease,
        names: Vec<String>,
    ) -> Result<NextIdentities, EngineError> {
        if names.is_empty() {
            return Ok(NextIdentities { submission: None });
        }
        let command = IdentityCommand::Next { database: database.record().topology_id, names };
        let submission = self.submit_for(database, &Command::Identity(command), None)?;
        Ok(NextIdentities { submission: Some(submission) })
    }
}

impl NextIdentities {
    /// The values, in the order of the names. Blocks.
    ///
    /// # Errors
    /// The command could not be applied.
    pub fn wait(self) -> Result<Vec<i64>, EngineError> {
        values_of(self.submission.map(Submission::wait).transpose()?)
    }

    /// As [`NextIdentities::wait`], without blocking.
    ///
    /// # Errors
    /// The command could not be applied.
    pub async fn ready(self) -> Result<Vec<i64>, EngineError> {
        values_of(match self.submission {
            Some(submission) => Some(submission.await?),
            None => None,
        })
    }
}

fn values_of(applied: Option<Applied>) -> Result<Vec<i64>, EngineError> {
    match applied.map(|applied| applied.outcome) {
        None => Ok(Vec::new()),
        Some(Outcome::Identities(values)) => Ok(values),
        Some(_) => {
            let what = "the values of identities are missing".to_owned();
            Err(EngineError::Internal { what })
        }
    }
}
