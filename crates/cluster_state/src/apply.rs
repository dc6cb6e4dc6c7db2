//! Applies the commands of a log entry.

use model::{DatabaseId, NodeTag};
use storage::WriteTransaction;

use crate::{
    applying::Applying,
    change_index,
    command::{Applied, Command, EncodedBatch},
    error::ClusterError,
    records::Changes,
    requests,
};

/// The effects of a batch.
#[derive(Default)]
pub struct Effects {
    /// The result of each command, in order.
    pub applied: Vec<Applied>,
    /// What changed, for [`ClusterStore::commit`](crate::ClusterStore::commit).
    pub changes: Changes,
}

/// Applies the commands of a batch in their order, on this node.
///
/// # Errors
/// Storage errors, or a malformed batch. The transaction must not be committed then.
pub fn apply_batch(
    tx: &mut WriteTransaction,
    batch: &EncodedBatch,
    node: NodeTag,
) -> Result<Effects, ClusterError> {
    let mut index = change_index::last_index(tx)?;
    let mut effects = Effects::default();
    batch.each(|command| {
        index += 1;
        let changes = &mut effects.changes;
        effects.applied.push(apply_encoded(&mut Applying { tx, index, node, changes }, command)?);
        Ok(())
    })?;
    change_index::store(tx, index)?;
    Ok(effects)
}

/// Applies an encoded command. If its request is remembered, returns the remembered outcome instead.
fn apply_encoded(applying: &mut Applying<'_>, bytes: &[u8]) -> Result<Applied, ClusterError> {
    let (request_id, command) = Command::decode(bytes)?;
    let database = command.database().unwrap_or(DatabaseId([0; 16]));
    let request = request_id.and_then(|id| requests::key(database, id));
    if let Some(request) = &request
        && let Some((index, outcome)) = requests::find(applying.tx, request)?
    {
        return Ok(Applied { index, outcome });
    }
    let outcome = command.apply(applying)?;
    let index = applying.index;
    if let Some(request) = request.filter(|_| outcome.is_final()) {
        requests::remember(applying.tx, &request, index, &outcome)?;
    }
    Ok(Applied { index, outcome })
}
