//! What must be true once the faults have ended: every acknowledged write is there, and all nodes are equal.

use std::{
    collections::BTreeMap,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Failure,
    cluster_faults::{
        node::Node,
        writers::{COUNTED, Ledger, SHARED, path},
    },
};

const HEALING_TIME_MAX: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Of each kind of difference.
const SHOWN_MAX: usize = 5;

/// What a node has of a document.
#[derive(Debug, Default, PartialEq, Eq)]
struct Held {
    number: Option<u64>,
    /// Its change vector, in one order.
    version: Vec<String>,
    counter: Option<i64>,
    revisions: Vec<String>,
}

/// What a node has.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    documents: BTreeMap<String, Held>,
    /// What an index answers: how many documents of its own a client wrote, and the numbers of the shared ones.
    indexed: (u64, Vec<u64>),
}

/// Waits until there is a leader that all know, and the database has that many members.
pub(crate) fn await_members(nodes: &[Node]) -> Result<(), Failure> {
    until("a leader that all nodes know, and members", || {
        let mut leaders = Vec::new();
        for node in nodes {
            let topology = node.get("/cluster/topology")?;
            leaders.push(topology["Leader"].as_str().unwrap_or_default().to_owned());
            let group = node.get("/topology?name=consistency")?;
            let members = group["Nodes"]
                .as_array()
                .map_or(0, |all| all.iter().filter(|node| node["ServerRole"] == "Member").count());
            if members != nodes.len() {
                return Err(format!("{}: {members} members: {group}", node.url).into());
            }
        }
        leaders.dedup();
        match leaders.as_slice() {
            [one] if !one.is_empty() => Ok(()),
            _ => Err(format!("leaders {leaders:?}").into()),
        }
    })
}

/// Repeats something until it succeeds.
pub(crate) fn until(
    what: &str,
    mut look: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        match look() {
            Ok(()) => return Ok(()),
            Err(error) if HEALING_TIME_MAX < began.elapsed() => {
                return Err(format!("{what}: not after {HEALING_TIME_MAX:?}: {error}").into());
            }
            Err(_) => sleep(LOOK_INTERVAL),
        }
    }
}

/// What is wrong after everything was healed.
pub(crate) fn check(nodes: &[Node], ledger: &Ledger) -> Vec<String> {
    let mut wrong = Vec::new();
    let equal = until("equal nodes", || {
        let all: Result<Vec<Contents>, Failure> = nodes.iter().map(contents).collect();
        let all = all?;
        for (node, contents) in nodes.iter().zip(&all).skip(1) {
            differences(&all[0], contents)
                .map_err(|shown| format!("{} and {}: {shown}", nodes[0].url, node.url))?;
        }
        Ok(())
    });
    if let Err(error) = equal {
        wrong.push(error.to_string());
    }
    match nodes.first().map(contents) {
        Some(Ok(contents)) => check_ledger(&contents, ledger, &mut wrong),
        Some(Err(error)) => wrong.push(format!("a node cannot be read: {error}")),
        None => {}
    }
    wrong
}

fn differences(one: &Contents, other: &Contents) -> Result<(), String> {
    let mut shown = Vec::new();
    for id in one.documents.keys().chain(other.documents.keys()) {
        let (here, there) = (one.documents.get(id), other.documents.get(id));
        if here != there && shown.len() < SHOWN_MAX {
            shown.push(format!("{id}: {}", difference(here, there)));
        }
    }
    if one.indexed != other.indexed {
        shown.push(format!("index: {:?} and {:?}", one.indexed, other.indexed));
    }
    if shown.is_empty() { Ok(()) } else { Err(shown.join("; ")) }
}

/// What two nodes have of a document, without what they both have.
fn difference(here: Option<&Held>, there: Option<&Held>) -> String {
    let (Some(here), Some(there)) = (here, there) else {
        return format!("{here:?} and {there:?}");
    };
    let shown = |one: &Held, other: &Held| {
        let revisions = one.revisions.iter().filter(|revision| !other.revisions.contains(revision));
        let revisions: Vec<_> = revisions.take(SHOWN_MAX).collect();
        let count = one.revisions.len();
        format!(
            "{:?} {:?} {:?} {count} revisions, {revisions:?}",
            one.number, one.version, one.counter
        )
    };
    format!("{} and {}", shown(here, there), shown(there, here))
}

fn check_ledger(contents: &Contents, ledger: &Ledger, wrong: &mut Vec<String>) {
    let mut lost = Vec::new();
    for (id, possible) in &ledger.own {
        let found = contents.documents.get(id).and_then(|held| held.number);
        if !possible.contains(&found) {
            lost.push(format!("{id}: {found:?} instead of one of {possible:?}"));
        }
    }
    for (id, numbers) in &ledger.shared {
        let found = contents.documents.get(id).and_then(|held| held.number);
        if !found.is_some_and(|found| found == 0 || numbers.contains(&found)) {
            lost.push(format!("{id}: {found:?} was never written"));
        }
    }
    for (id, (sure, possible)) in &ledger.counted {
        let found = contents.documents.get(id).and_then(|held| held.counter).unwrap_or(0);
        let found = u64::try_from(found).unwrap_or(0);
        if found < *sure || sure + possible < found {
            lost.push(format!("{id}: counted {found}, of {sure} to {}", sure + possible));
        }
    }
    let own = contents.documents.keys().filter(|id| id.starts_with("own/")).count() as u64;
    if own != contents.indexed.0 {
        lost.push(format!("an index has {} of {own} documents", contents.indexed.0));
    }
    if !lost.is_empty() {
        let shown = lost.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join("; ");
        wrong.push(format!("{} writes are lost: {shown}", lost.len()));
    }
}

fn contents(node: &Node) -> Result<Contents, Failure> {
    let streamed = node.get(&path("/streams/docs"))?;
    let mut contents = Contents::default();
    for document in streamed["Results"].as_array().into_iter().flatten() {
        let metadata = &document["@metadata"];
        let id = metadata["@id"].as_str().unwrap_or_default().to_owned();
        if id.starts_with("Raven/") {
            continue;
        }
        let version = versions(&metadata["@change-vector"]);
        let number = document["Number"].as_u64();
        contents.documents.insert(id, Held { number, version, ..Held::default() });
    }
    for number in 0..COUNTED {
        let id = format!("counted/{number}");
        let answer = node.get(&path(&format!("/counters?docId={id}&counter=c")))?;
        let held = contents.documents.entry(id).or_default();
        held.counter = answer["Counters"][0]["TotalValue"].as_i64();
    }
    for number in 0..SHARED {
        let id = format!("shared/{number}");
        let answer = node.get(&path(&format!("/revisions?id={id}&pageSize=10000")))?;
        let revisions = answer["Results"].as_array().into_iter().flatten();
        let mut revisions: Vec<String> = revisions
            .map(|one| {
                let metadata = &one["@metadata"];
                let version = versions(&metadata["@change-vector"]).join(",");
                format!("{} {version} {}", one["Number"], flags(&metadata["@flags"]))
            })
            .collect();
        revisions.sort_unstable();
        contents.documents.entry(id).or_default().revisions = revisions;
    }
    contents.indexed = indexed(node)?;
    Ok(contents)
}

/// Flags without the one that says how a version came to this node.
fn flags(flags: &Value) -> String {
    let all = flags.as_str().unwrap_or_default().split(", ");
    all.filter(|flag| *flag != "FromReplication").collect::<Vec<_>>().join(", ")
}

/// The entries of a change vector, in one order.
fn versions(vector: &Value) -> Vec<String> {
    let mut versions: Vec<String> =
        vector.as_str().unwrap_or_default().split(", ").map(str::to_owned).collect();
    versions.sort_unstable();
    versions
}

fn indexed(node: &Node) -> Result<(u64, Vec<u64>), Failure> {
    let query = |text: &str| {
        let query = json!({"Query": text, "WaitForNonStaleResults": true});
        node.send("POST", &path("/queries"), &query)
    };
    let own = query("from Own where Number >= 0 limit 0, 1")?;
    let total = own["TotalResults"].as_u64().unwrap_or(0);
    let shared = query("from Shared where Number >= 0")?;
    let shared = shared["Results"].as_array().into_iter().flatten();
    let mut numbers: Vec<u64> = shared.filter_map(|one| one["Number"].as_u64()).collect();
    numbers.sort_unstable();
    Ok((total, numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(number: u64) -> Held {
        Held { number: Some(number), ..Held::default() }
    }

    fn contents(documents: &[(&str, Held)]) -> Contents {
        let own = documents.iter().filter(|(id, _)| id.starts_with("own/")).count() as u64;
        let copied = |held: &Held| Held {
            number: held.number,
            version: held.version.clone(),
            counter: held.counter,
            revisions: held.revisions.clone(),
        };
        let documents = documents.iter().map(|(id, held)| ((*id).to_owned(), copied(held)));
        Contents { documents: documents.collect(), indexed: (own, Vec::new()) }
    }

    fn lost(documents: &[(&str, Held)], ledger: &Ledger) -> Vec<String> {
        let mut wrong = Vec::new();
        check_ledger(&contents(documents), ledger, &mut wrong);
        wrong
    }

    #[test]
    fn what_was_acknowledged_must_be_there() {
        let mut ledger = Ledger::default();
        ledger.own.insert("own/a".to_owned(), vec![Some(1)]);
        assert!(lost(&[("own/a", held(1))], &ledger).is_empty());
        assert_eq!(lost(&[], &ledger).len(), 1, "it is missing");
        assert_eq!(lost(&[("own/a", held(2))], &ledger).len(), 1, "it is another one");
        ledger.own.insert("own/a".to_owned(), vec![Some(1), None]);
        assert!(lost(&[], &ledger).is_empty(), "it may have been deleted");
        ledger.own.insert("own/a".to_owned(), vec![None]);
        assert_eq!(lost(&[("own/a", held(1))], &ledger).len(), 1, "it is back");
    }

    #[test]
    fn counters_are_exact_but_for_what_is_unknown() {
        let mut ledger = Ledger::default();
        ledger.counted.insert("counted/0".to_owned(), (5, 2));
        for (counter, is_right) in [(4, false), (5, true), (7, true), (8, false)] {
            let held = Held { counter: Some(counter), ..Held::default() };
            assert_eq!(lost(&[("counted/0", held)], &ledger).is_empty(), is_right, "{counter}");
        }
    }

    #[test]
    fn an_index_must_have_every_document_and_shared_ones_must_have_been_written() {
        let mut indexed = contents(&[("own/a", held(1))]);
        indexed.indexed.0 = 0;
        let mut wrong = Vec::new();
        check_ledger(&indexed, &Ledger::default(), &mut wrong);
        assert_eq!(wrong.len(), 1);
        let mut ledger = Ledger::default();
        ledger.shared.insert("shared/1".to_owned(), vec![3, 4]);
        assert!(lost(&[("shared/1", held(4))], &ledger).is_empty());
        assert_eq!(lost(&[("shared/1", held(5))], &ledger).len(), 1);
    }

    #[test]
    fn nodes_that_differ_are_told_apart() {
        let version = |version: &str| Held { version: vec![version.to_owned()], ..held(1) };
        let one = contents(&[("own/a", version("A:1"))]);
        assert!(differences(&one, &contents(&[("own/a", version("A:1"))])).is_ok());
        assert!(differences(&one, &contents(&[("own/a", version("A:2"))])).is_err());
        assert!(differences(&one, &contents(&[])).is_err());
        let flags_of = |text: &str| flags(&Value::from(text));
        assert_eq!(flags_of("HasRevisions, FromReplication"), flags_of("HasRevisions"));
    }
}
