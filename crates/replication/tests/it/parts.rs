//! What belongs to documents.

use crate::world::{
    World, append, delete, delete_counter, delete_range, increment, put, put_attachment,
};

/// Two nodes that have the same document.
fn pair() -> World {
    let mut world = World::new(2, 1);
    world.execute(0, vec![put("d", "{}")]);
    world.settle();
    world
}

fn key(name: &str) -> (String, String) {
    ("d".to_owned(), name.to_owned())
}

#[test]
fn a_counter_is_the_sum_of_what_each_node_has_counted() {
    let mut world = pair();
    for by in 1..=10 {
        world.execute(0, vec![increment("d", "n", by)]);
        world.execute(1, vec![increment("d", "n", 100 * by)]);
    }
    world.settle();
    assert_eq!(world.agreed().counted("d", "n"), 55 + 5500);
    let json = world.agreed().documents["d"].json.clone().unwrap();
    assert!(json.contains(r#""@counters":["n"]"#), "{json}");
}

#[test]
fn a_deletion_removes_what_it_has_seen_of_a_counter() {
    let mut world = pair();
    world.execute(0, vec![increment("d", "n", 1)]);
    world.execute(1, vec![increment("d", "n", 10)]);
    world.settle();
    world.execute(0, vec![delete_counter("d", "n")]);
    world.execute(0, vec![increment("d", "n", 1000)]);
    world.settle();
    assert_eq!(world.agreed().counted("d", "n"), 1000);
}

#[test]
fn the_content_of_an_attachment_is_sent_once() {
    let mut world = pair();
    world.execute(0, vec![put_attachment("d", "a", "content")]);
    world.execute(0, vec![put("e", "{}"), put_attachment("e", "b", "content")]);
    world.settle();
    let agreed = world.agreed();
    assert_eq!(agreed.attachments[&key("a")].1, Some(documents::hash_of(b"content")));
    let json = agreed.documents["d"].json.clone().unwrap();
    assert!(json.contains(r#""@attachments":[{"Name":"a""#), "{json}");
    let counts = documents::attachment_counts(&world.nodes[1].read()).unwrap();
    assert_eq!((counts.attachments, counts.contents), (2, 1));
}

#[test]
fn of_two_attachments_of_one_name_both_are_kept() {
    let mut world = pair();
    world.execute(0, vec![put_attachment("d", "a", "one")]);
    world.execute(1, vec![put_attachment("d", "a", "other")]);
    world.settle();
    let agreed = world.agreed();
    let contents: Vec<_> = agreed.attachments.values().filter_map(|found| found.1).collect();
    assert_eq!(contents.len(), 2, "{:?}", agreed.attachments);
    for content in ["one", "other"] {
        assert!(contents.contains(&documents::hash_of(content.as_bytes())), "{content}");
    }
    assert!(agreed.attachments.keys().any(|(_, name)| name.starts_with("resolved_#")));
}

#[test]
fn an_attachment_that_was_written_over_another_one_replaces_it() {
    let mut world = pair();
    world.execute(0, vec![put_attachment("d", "a", "one")]);
    world.settle();
    world.execute(1, vec![put_attachment("d", "a", "other")]);
    world.settle();
    let agreed = world.agreed();
    assert_eq!(agreed.attachments.len(), 1);
    assert_eq!(agreed.attachments[&key("a")].1, Some(documents::hash_of(b"other")));
}

#[test]
fn entries_of_both_nodes_are_in_a_time_series_without_what_was_deleted() {
    let mut world = pair();
    world.execute(0, vec![append("d", "s", &[(1, 1.0), (3, 3.0), (5, 5.0)])]);
    world.settle();
    world.execute(0, vec![append("d", "s", &[(3, 30.0), (7, 7.0)])]);
    world.execute(1, vec![append("d", "s", &[(2, 2.0), (9, 9.0)])]);
    world.settle();
    let agreed = world.agreed();
    let moments: Vec<i64> = agreed.series[&key("s")].iter().map(|entry| entry.0).collect();
    assert_eq!(moments, [1, 2, 3, 5, 7, 9]);
    assert_eq!(agreed.series[&key("s")][2].1, [30.0_f64.to_bits()]);
    world.execute(1, vec![delete_range("d", "s", 2, 6)]);
    world.settle();
    world.execute(0, vec![append("d", "s", &[(4, 4.0)])]);
    world.settle();
    let agreed = world.agreed();
    let moments: Vec<i64> = agreed.series[&key("s")].iter().map(|entry| entry.0).collect();
    assert_eq!(moments, [1, 4, 7, 9]);
}

#[test]
fn nothing_is_left_of_a_document_that_was_deleted() {
    let mut world = pair();
    world.execute(
        0,
        vec![
            increment("d", "n", 1),
            put_attachment("d", "a", "content"),
            append("d", "s", &[(1, 1.0)]),
        ],
    );
    world.settle();
    world.execute(1, vec![delete("d")]);
    world.settle();
    let agreed = world.agreed();
    assert!(agreed.counters.is_empty() && agreed.series.is_empty());
    assert_eq!(agreed.attachments[&key("a")].1, None);
    let counts = documents::attachment_counts(&world.nodes[0].read()).unwrap();
    assert_eq!((counts.attachments, counts.contents), (0, 0));
}
