//! Who sends, and whether it still has what it has sent.

use blittable::{ParseLimits, parse_document};
use commands::Command;
use documents::{ClusterDocument, ClusterDocuments, DatabaseIdentity, Source};
use model::{ChangeVector, ChangeVectorEntry, DatabaseId, DocumentFlags, Etag, NodeTag};
use replication::{Advance, Batch, LinkKind, Message, RefusalKind, Reply, ReplyError, Sender};
use storage::{HistoryPoint, MemoryBudget};

use crate::world::{GROUP, LIMITS, World, id, id_of, put};

const POINT: HistoryPoint = HistoryPoint { environment: 1, incarnation: 2, transaction: 3 };

/// Sends the next message of a sender of node 0 to node 1.
fn send(world: &mut World, sender: &mut Sender) -> Option<Result<Advance, ReplyError>> {
    let tx = world.nodes[0].read();
    let mut share = MemoryBudget::unlimited().share(0);
    let outgoing = sender.next_message(&tx, Some(POINT), LIMITS, &mut share).unwrap()?;
    let reply = world.deliver(1, &outgoing.bytes).to_bytes();
    Some(sender.take_reply(&reply))
}

fn sender(kind: LinkKind, group: DatabaseId) -> Sender {
    Sender::new(kind, group, "db".to_owned(), String::new())
}

fn refusal(answer: Option<Result<Advance, ReplyError>>) -> RefusalKind {
    match answer.unwrap().unwrap_err() {
        ReplyError::Refused(refusal) => refusal.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sender_learns_what_moment_of_its_files_a_receiver_has() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", "{}")]);
    let mut first = sender(LinkKind::Internal, GROUP);
    assert_eq!(send(&mut world, &mut first).unwrap(), Ok(Advance::Welcomed));
    assert_eq!(first.take_point(), None, "nothing was received yet");
    while let Some(answer) = send(&mut world, &mut first) {
        answer.unwrap();
    }
    let mut next = sender(LinkKind::Internal, GROUP);
    send(&mut world, &mut next).unwrap().unwrap();
    assert_eq!(next.take_point(), Some(POINT));
    next.note_lost();
    assert_eq!(refusal(send(&mut world, &mut next)), RefusalKind::Lost);
}

/// Its files may be those of a database that was taken from it.
#[test]
fn a_receiver_that_has_not_seen_the_newest_record_takes_nothing() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", "{}")]);
    let mut sender = sender(LinkKind::Internal, GROUP);
    sender.note_record(2);
    assert_eq!(refusal(send(&mut world, &mut sender)), RefusalKind::NotNow);
    sender.note_record(1);
    assert_eq!(send(&mut world, &mut sender).unwrap(), Ok(Advance::Welcomed));
}

#[test]
fn an_older_copy_is_refused_as_such() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", "{}")]);
    let older = World::new(1, 1).nodes.remove(0);
    world.send(0, 1);
    world.nodes[0] = older;
    let mut sender = sender(LinkKind::Internal, GROUP);
    assert_eq!(refusal(send(&mut world, &mut sender)), RefusalKind::Lost);
}

#[test]
fn members_of_another_group_and_strangers_with_the_id_of_a_member_are_refused() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", "{}")]);
    let mut of_another = sender(LinkKind::Internal, DatabaseId([0xdd; 16]));
    assert_eq!(refusal(send(&mut world, &mut of_another)), RefusalKind::Never);
    world.send(0, 1);
    let mut stranger = sender(LinkKind::External, GROUP);
    assert_eq!(refusal(send(&mut world, &mut stranger)), RefusalKind::Never);
}

/// As a snapshot is restored: of one member of a group.
#[test]
fn a_copy_of_a_member_takes_from_the_group_as_from_strangers() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", "{}")]);
    world.settle();
    let environment = &world.nodes[1].environment;
    let mut tx = environment.write().unwrap();
    let identity = DatabaseIdentity { database_id: DatabaseId([0xcc; 16]), node_tag: NodeTag::A };
    documents::renew_identity(&mut tx, identity).unwrap();
    tx.commit().unwrap();
    world.execute(0, vec![put("b", "{}")]);
    let mut sender = sender(LinkKind::External, GROUP);
    assert_eq!(send(&mut world, &mut sender).unwrap(), Ok(Advance::Welcomed));
    assert_ne!(sender.accepted(), Some(Etag::ZERO), "what was received of it stays received");
    while let Some(answer) = send(&mut world, &mut sender) {
        answer.unwrap();
    }
    let version = documents::version_of(&world.nodes[1].read(), &id("b")).unwrap();
    assert!(!version.is_empty());
}

/// A cluster-wide transaction that writes the document `a`, made where its version was this one.
fn transaction(world: &World, replaces: ChangeVector) -> Command {
    let json = br#"{"N":"transaction"}"#;
    let change = ClusterDocument {
        id: id("a"),
        change_vector: format!("RAFT:1-{GROUP}").parse().unwrap(),
        body: Some(parse_document(json, &ParseLimits::default()).unwrap()),
        replaces: Some(replaces),
    };
    Command::ClusterDocuments(ClusterDocuments {
        group: GROUP,
        index: 9,
        after: None,
        read_at: None,
        ticks: world.now,
        changes: vec![change],
        is_dry_run: false,
    })
}

/// Whether the node that wrote executes the transaction before or after it has received what another one made of both.
#[test]
fn what_was_written_beside_a_cluster_wide_transaction_is_a_revision_everywhere() {
    for executes_first in [true, false] {
        let mut world = World::new(3, 1);
        world.execute(0, vec![put("a", r#"{"N":"first"}"#)]);
        world.settle();
        let version = documents::version_of(&world.nodes[0].read(), &id("a")).unwrap();
        let transaction = transaction(&world, version);
        world.execute(1, vec![put("a", r#"{"N":"plain"}"#)]);
        world.execute(0, vec![transaction.clone()]);
        if executes_first {
            world.execute(1, vec![transaction.clone()]);
        }
        world.settle();
        if !executes_first {
            world.execute(1, vec![transaction.clone()]);
        }
        world.execute(2, vec![transaction]);
        world.settle();
        let agreed = world.agreed();
        assert_eq!(agreed.documents["a"].json.as_deref(), Some(r#"{"N":"transaction"}"#));
        let lost = agreed.revisions.values().find(|(_, json, _)| json.contains("plain"));
        let (flags, ..) = lost.expect("what was written is kept");
        assert!(flags.contains(DocumentFlags::CONFLICTED), "{flags:?}");
    }
}

/// Without writes of others, the version is that of the transaction alone: its client knows it.
#[test]
fn a_cluster_wide_transaction_over_a_known_version_has_its_own_version() {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("a", r#"{"N":"first"}"#)]);
    world.settle();
    let version = documents::version_of(&world.nodes[0].read(), &id("a")).unwrap();
    let transaction = transaction(&world, version);
    for node in 0..2 {
        world.execute(node, vec![transaction.clone()]);
    }
    world.settle();
    let version = documents::version_of(&world.nodes[1].read(), &id("a")).unwrap();
    assert_eq!(version.as_str(), format!("RAFT:1-{GROUP}"));
    assert!(world.agreed().revisions.is_empty());
}

#[test]
fn nobody_has_more_of_a_database_than_itself() {
    let mut world = World::new(2, 1);
    world.execute(1, vec![put("a", "{}")]);
    world.settle();
    world.nodes[1] = World::new(2, 1).nodes.remove(1);
    let mut sender = sender(LinkKind::Internal, GROUP);
    send(&mut world, &mut sender).unwrap().unwrap();
    assert_eq!(refusal(send(&mut world, &mut sender)), RefusalKind::Damaged);
}

/// Who may write to a database must not be able to have what its members write left out.
#[test]
fn nobody_but_members_claims_to_have_brought_changes_of_members() {
    let mut world = World::new(3, 1);
    world.execute(1, vec![put("before", "{}")]);
    world.settle();
    // Of node 2 nothing has arrived yet.
    let claims = [id_of(1), id_of(2), GROUP].map(|database_id| ChangeVectorEntry {
        tag: NodeTag::A,
        etag: Etag(1_000_000),
        database_id,
    });
    let claimed =
        claims.into_iter().fold(ChangeVector::empty(), |vector, entry| vector.with(entry));
    for to in 0..3 {
        let stranger = Batch {
            group: None,
            source: Source { database_id: DatabaseId([0xdd; 16]), node_tag: NodeTag::A },
            after: Etag::ZERO,
            last_etag: Etag(5),
            point: None,
            complete: Some(claimed.only(|entry| entry.database_id != id_of(to))),
            contents: Vec::new(),
            items: Vec::new(),
        };
        let reply = world.deliver_message(to, Message::Batch(stranger));
        assert!(matches!(reply, Reply::Accepted { is_stored: true, .. }), "{reply:?}");
    }
    for node in 0..3 {
        world.execute(node, vec![put(&format!("after/{node}"), "{}")]);
    }
    world.settle();
    assert_eq!(world.agreed().documents.len(), 4);
}
