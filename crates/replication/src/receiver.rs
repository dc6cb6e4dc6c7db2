//! How a message is answered.

use documents::{
    DatabaseIdentity, DocumentError, Received, ReceivedBatch, accepted_of, source_progress, sources,
};
use model::{ChangeVector, ContentHash, DatabaseId, Etag};
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

/// The group of databases that the receiver is a member of, as it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its id.
    pub id: DatabaseId,
    /// The version of the database's record.
    pub record: u64,
}

/// Decides about a message to a database of this group. `staged` says whether a content has arrived that no attachment has yet.
///
/// # Errors
/// The database cannot be read.
pub fn answer(
    tx: &impl Transaction,
    group: Group,
    message: Message,
    staged: impl Fn(&ContentHash) -> bool,
) -> Result<Answered, DocumentError> {
    let of_group = message.group();
    if of_group.is_some_and(|of_group| of_group != group.id) {
        return Ok(Answered::Reply(Reply::Refused(Refusal {
            kind: RefusalKind::Never,
            reason: "The sender is of another database of this name, which was deleted".to_owned(),
        })));
    }
    let source = match &message {
        Message::Greeting(greeting) => Some(greeting.source),
        Message::Batch(batch) => Some(batch.source),
        Message::Content(_) | Message::Pull(_) | Message::Asking(_) => None,
    };
    if of_group.is_none()
        && let Some(source) = source
        && source_progress(tx, source.database_id)?.is_some_and(|progress| progress.is_member)
    {
        return Ok(Answered::Reply(Reply::Refused(Refusal {
            kind: RefusalKind::Never,
            reason: "The sender is another member of the group, and has to send as one".to_owned(),
        })));
    }
    match message {
        Message::Greeting(greeting) if of_group.is_some() && group.record < greeting.record => {
            let reason = "The node has not seen the newest change of the database's record yet";
            Ok(Answered::Reply(not_now(reason.to_owned())))
        }
        Message::Greeting(greeting) => welcome(tx, &greeting).map(Answered::Reply),
        Message::Content(piece) => Ok(Answered::Stage(piece)),
        Message::Batch(mut batch) => {
            if let Some(claimed) = &batch.complete {
                batch.complete = Some(trusted(tx, group.id, of_group, claimed)?);
            }
            answer_batch(tx, batch, staged)
        }
        Message::Pull(_) | Message::Asking(_) => Ok(Answered::Reply(Reply::Refused(Refusal {
            kind: RefusalKind::Never,
            reason: "Only a hub takes this message".to_owned(),
        }))),
    }
}

/// Of what a sender claims to contain, what is believed. Members of the group send what they have themselves, and execute the
/// transactions of the cluster: if somebody else could claim to have brought that, it would be left out from then on.
fn trusted(
    tx: &impl Transaction,
    group: DatabaseId,
    of_group: Option<DatabaseId>,
    claimed: &ChangeVector,
) -> Result<ChangeVector, DocumentError> {
    if of_group.is_some() {
        return Ok(claimed.clone());
    }
    let sources = sources(tx)?;
    let is_member = |id: DatabaseId| {
        sources.iter().any(|known| known.is_member && known.source.database_id == id)
    };
    Ok(claimed.only(|entry| entry.database_id != group && !is_member(entry.database_id)))
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
    let progress = source_progress(tx, greeting.stream)?;
    let accepted = progress.map_or(Etag::ZERO, |progress| progress.accepted);
    if greeting.last_etag < accepted || greeting.has_lost {
        return Ok(Reply::Refused(Refusal {
            kind: RefusalKind::Lost,
            reason: format!(
                "The database {source} has lost changes: {} of it were received, which its files do not have. They are \
                 an older copy. Take the database from this node and add it again, or, without other nodes, export it \
                 to a new database",
                accepted.0
            ),
        }));
    }
    let mut change_vector = documents::contained(tx)?;
    if greeting.group.is_some() && progress.is_none_or(|progress| !progress.is_member) {
        // Somebody else has claimed to have brought changes of this member.
        change_vector = change_vector.only(|entry| entry.database_id != source);
    }
    let point = progress.and_then(|progress| progress.point);
    Ok(Reply::Welcome(Welcome { database_id, node_tag, accepted, point, change_vector }))
}

fn answer_batch(
    tx: &impl Transaction,
    batch: Batch,
    staged: impl Fn(&ContentHash) -> bool,
) -> Result<Answered, DocumentError> {
    let accepted = accepted_of(tx, batch.source.database_id)?;
    let change_vector = documents::contained(tx)?;
    let own = documents::database_identity(tx)?.database_id;
    let claimed = batch.complete.as_ref().map_or(Etag::ZERO, |complete| complete.etag_of(own));
    if documents::progress(tx)?.last_etag < claimed {
        return Ok(Answered::Reply(Reply::Refused(Refusal {
            kind: RefusalKind::Damaged,
            reason: format!(
                "The sender claims to have {} changes of a database that has fewer",
                claimed.0
            ),
        })));
    }
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
    let Batch { group, source, after, last_etag, point, complete, contents, items } = batch;
    let received = ReceivedBatch {
        source,
        is_member: group.is_some(),
        after,
        last_etag,
        point,
        items,
        contents: Vec::new(),
        complete,
        refuses_deletions: false,
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
