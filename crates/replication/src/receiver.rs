//! How a message is answered.

use documents::{DatabaseIdentity, DocumentError, Received, ReceivedBatch, source_progress};
use model::{ContentHash, Etag};
use storage::Transaction;

use crate::message::{
    Batch, ContentPiece, Greeting, Message, Refusal, RefusalKind, Reply, Welcome,
};

/// What is to be done about a message.
#[derive(Debug)]
pub enum Answered {
    /// Nothing but to answer.
    Reply(Reply),
    /// The batch is to be executed as one transaction, with those of these contents that are staged; then [`accepted`] is
    /// the answer.
    Store(Box<ReceivedBatch>, Vec<ContentHash>),
    /// The piece of a content is to be staged.
    Stage(ContentPiece),
}

/// Decides about a message. `staged` says whether a content has arrived that no attachment has yet.
///
/// # Errors
/// The database cannot be read.
pub fn answer(
    tx: &impl Transaction,
    message: Message,
    staged: impl Fn(&ContentHash) -> bool,
) -> Result<Answered, DocumentError> {
    match message {
        Message::Greeting(greeting) => welcome(tx, &greeting).map(Answered::Reply),
        Message::Content(piece) => Ok(Answered::Stage(piece)),
        Message::Batch(batch) => answer_batch(tx, batch, staged),
    }
}

fn welcome(tx: &impl Transaction, greeting: &Greeting) -> Result<Reply, DocumentError> {
    let DatabaseIdentity { database_id, node_tag } = documents::database_identity(tx)?;
    let source = greeting.source.database_id;
    if source == database_id {
        return Ok(Reply::Refused(Refusal {
            kind: RefusalKind::Never,
            reason: format!("The database {database_id} cannot replicate to itself"),
        }));
    }
    let accepted = source_progress(tx, source)?;
    if greeting.last_etag < accepted {
        return Ok(Reply::Refused(Refusal {
            kind: RefusalKind::Never,
            reason: format!(
                "The database {source} has {} changes, but {} of it were received: it has lost some. Give it a new id \
                 by exporting it to a new database",
                greeting.last_etag.0, accepted.0
            ),
        }));
    }
    let change_vector = documents::contained(tx)?;
    Ok(Reply::Welcome(Welcome { database_id, node_tag, accepted, change_vector }))
}

fn answer_batch(
    tx: &impl Transaction,
    batch: Batch,
    staged: impl Fn(&ContentHash) -> bool,
) -> Result<Answered, DocumentError> {
    let accepted = source_progress(tx, batch.source.database_id)?;
    let change_vector = documents::contained(tx)?;
    if accepted != batch.after {
        let reply = Reply::Accepted { accepted, change_vector, is_stored: false };
        return Ok(Answered::Reply(reply));
    }
    let is_known = batch.complete.as_ref().is_none_or(|complete| change_vector.covers(complete));
    if batch.items.is_empty() && batch.last_etag == accepted && is_known {
        let reply = Reply::Accepted { accepted, change_vector, is_stored: true };
        return Ok(Answered::Reply(reply));
    }
    let mut missing = Vec::new();
    for hash in &batch.contents {
        if documents::content(tx, hash)?.is_none() && !staged(hash) {
            missing.push(*hash);
        }
    }
    if !missing.is_empty() {
        return Ok(Answered::Reply(Reply::Missing(missing)));
    }
    let Batch { source, after, last_etag, complete, contents, items } = batch;
    let received = ReceivedBatch {
        source,
        after,
        last_etag,
        items,
        contents: Vec::new(),
        complete,
        keeps_conflicts: false,
    };
    Ok(Answered::Store(Box::new(received), contents))
}

/// The answer to a batch that was executed.
pub fn accepted(received: &Received) -> Reply {
    let Received { accepted, change_vector, is_stored } = received.clone();
    Reply::Accepted { accepted, change_vector, is_stored }
}

/// The answer if nothing can be taken now.
pub fn not_now(reason: String) -> Reply {
    Reply::Refused(Refusal { kind: RefusalKind::NotNow, reason })
}

/// The etag up to which a receiver has a source, from its answer.
pub fn accepted_by(reply: &Reply) -> Option<Etag> {
    match reply {
        Reply::Accepted { accepted, .. } => Some(*accepted),
        _ => None,
    }
}
