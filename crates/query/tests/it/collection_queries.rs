//! Collection queries: order, totals, paging, includes, projections and the result's etag.

use std::sync::{Arc, atomic::AtomicBool};

use query::{Family, Paging};

use crate::fixture::Database;

/// Boats and crews, written so that neither id order nor case order is the order of writing.
fn harbour() -> Database {
    let database = Database::new();
    database.put(
        "boats/3",
        "Boats",
        r#""Name":"Gull","Captain":"crews/1","Crew":["crews/1","crews/9"]"#,
    );
    database.put(
        "Boats/1",
        "Boats",
        r#""Name":"Tern","Captain":"CREWS/2","Stops":[{"Port":"ports/1"},{}]"#,
    );
    database.put("crews/1", "Crews", r#""Name":"Ann","Boat":"boats/3""#);
    database.put("boats/20", "Boats", r#""Name":"Auk","Captain":null"#);
    database.put("yacht", "Boats", r#""Name":"Moth","Captain":"boats/3""#);
    database.put("crews/2", "Crews", r#""Name":"Bob""#);
    database.put("boats/2/log", "Logs", "");
    database
}

#[test]
fn each_form_chooses_its_documents_in_its_order() {
    let database = harbour();
    let all = "boats/3 Boats/1 crews/1 boats/20 yacht crews/2 boats/2/log";
    for (text, ids, total, index_name) in [
        ("from Boats", "boats/3 Boats/1 boats/20 yacht", 4, "collection/Boats"),
        ("from BOATS as b", "boats/3 Boats/1 boats/20 yacht", 4, "collection/BOATS"),
        ("from @all_docs", all, 7, "AllDocs"),
        ("from Nothing", "", 0, "collection/Nothing"),
        ("from Boats where id() = 'BOATS/1'", "Boats/1", 1, "collection/Boats"),
        ("from Boats where id() = 'crews/1'", "", 0, "collection/Boats"),
        ("from @all_docs where id() = 'crews/1'", "crews/1", 1, "AllDocs"),
        (
            "from Boats where id() in ('yacht','boats/20','x','crews/1')",
            "boats/20 yacht",
            2,
            "collection/Boats",
        ),
        (
            "from Boats where startsWith(id(), 'BOATS/')",
            "Boats/1 boats/20 boats/3",
            -1,
            "collection/Boats",
        ),
        ("from @all_docs where startsWith(id(), 'boats/2')", "boats/2/log boats/20", -1, "AllDocs"),
        ("from Nothing where startsWith(id(), 'b')", "", 0, "collection/Nothing"),
        ("from Boats order by id()", "Boats/1 boats/20 boats/3 yacht", 4, "collection/Boats"),
        ("from Boats order by id() desc", "yacht boats/3 boats/20 Boats/1", 4, "collection/Boats"),
        (
            "from Boats where startsWith(id(), 'boats/') order by id() desc",
            "boats/3 boats/20 Boats/1",
            3,
            "collection/Boats",
        ),
        (
            "from Boats where id() = 'yacht' or startsWith(id(), 'boats/2')",
            "boats/20 yacht",
            2,
            "collection/Boats",
        ),
        (
            "from Boats where startsWith(id(), 'boats/') and id() in ('yacht', 'boats/3')",
            "boats/3",
            1,
            "collection/Boats",
        ),
        ("from Boats where true and not_a_method() = 1 or true", "", 0, ""),
    ] {
        if index_name.is_empty() {
            let refused = database.try_ask(text, Paging::default()).unwrap_err();
            assert_eq!(refused.family(), Family::NotSupported, "{text}");
            continue;
        }
        let answer = database.ask(text);
        assert_eq!(answer.ids.join(" "), ids, "{text}");
        assert_eq!(answer.total, total, "{text}");
        assert_eq!(answer.index_name, index_name, "{text}");
    }
}

#[test]
fn an_updated_document_moves_to_the_end_and_a_deleted_one_is_gone() {
    let database = harbour();
    database.put("boats/3", "Boats", r#""Name":"Gull II""#);
    database.delete("Boats/1");
    let answer = database.ask("from Boats");
    assert_eq!(answer.ids, ["boats/20", "yacht", "boats/3"]);
    assert_eq!(answer.total, 3);
}

#[test]
fn a_page_is_cut_from_the_rows_and_the_totals_stay() {
    let database = harbour();
    let page = |start, page_size| Paging { start, page_size: Some(page_size) };
    for (text, paging, ids, total, capped) in [
        ("from Boats", page(1, 2), "Boats/1 boats/20", 4, None),
        ("from Boats", page(9, 2), "", 4, None),
        ("from Boats", page(0, 0), "", 4, None),
        ("from Boats limit 2 offset 1", page(0, 10), "Boats/1 boats/20", 4, Some(2)),
        ("from Boats limit 3 offset 1", page(2, 2), "boats/20 yacht", 4, Some(3)),
        ("from Boats limit 3, 5", page(0, 10), "yacht", 4, Some(1)),
        ("from Boats order by id() desc limit 2", page(1, 9), "boats/3 boats/20", 4, Some(2)),
        (
            "from Boats where startsWith(id(), 'boats/') limit 1",
            page(1, 9),
            "boats/20",
            -1,
            Some(1),
        ),
        ("from Boats where startsWith(id(), 'boats/')", page(0, 0), "", 3, None),
        ("from Boats where id() in ('yacht','boats/3') offset 1", page(0, 9), "yacht", 2, Some(1)),
    ] {
        let answer = database.ask_page(text, paging);
        assert_eq!(answer.ids.join(" "), ids, "{text}");
        assert_eq!((answer.total, answer.capped), (total, capped), "{text}");
    }
}

#[test]
fn includes_follow_the_rows_of_the_page_and_repeat_none_of_them() {
    let database = harbour();
    for (text, paths, includes) in [
        ("from Boats include Captain", "Captain", "crews/1 crews/2"),
        ("from Boats as b include b.Captain, Crew", "Captain Crew", "crews/1 crews/2"),
        ("from Boats include Captain limit 1", "Captain", "crews/1"),
        ("from Boats include Captain limit 1 offset 3", "Captain", "boats/3"),
        ("from Boats include Nope", "Nope", ""),
        ("from Boats select Captain include Captain", "Captain", "crews/1 crews/2 boats/3"),
        ("from Boats select Captain as C include C", "C", "crews/1 crews/2 boats/3"),
        ("from Boats select Name include Captain", "Captain", ""),
    ] {
        let answer = database.ask(text);
        assert_eq!(answer.included_paths.unwrap().join(" "), paths, "{text}");
        assert_eq!(answer.includes.join(" "), includes, "{text}");
    }
    assert_eq!(database.ask("from Boats").included_paths, None);
}

#[test]
fn a_projection_shows_the_selected_fields_and_marks_itself() {
    let database = harbour();
    let check = |text: &str, expected: &str| {
        let row = database.ask(text).rows.remove(0);
        let (fields, metadata) = row.split_once(r#""@metadata":"#).unwrap();
        assert_eq!(fields.trim_end_matches(','), format!("{{{expected}"), "{text}");
        let marked = r#"{"@projection":true,"@change-vector":"A:2-BwcHBwcHBwcHBwcHBwcHBw","@id":"Boats/1","@index-score":0,"@last-modified":"#;
        assert!(metadata.starts_with(marked), "{metadata}");
    };
    check("from Boats where id()='boats/1' select Name, Nope", r#""Name":"Tern","Nope":null"#);
    check("from Boats as b where id()='boats/1' select b.Name, b.Nope", r#""Name":"Tern""#);
    check(
        "from Boats where id()='boats/1' select id(), Name as N",
        r#""id()":"Boats/1","N":"Tern""#,
    );
    check("from Boats where id()='boats/1' select Stops[].Port as P", r#""P":["ports/1",null]"#);
    check(
        "from Boats where id()='boats/1' select @metadata.@collection, @metadata.@id as I, 'x', 2.",
        r#""@metadata.@collection":"Boats","I":null,"x":"x","2.":2.0"#,
    );
}

#[test]
fn a_whole_document_is_printed_with_its_metadata() {
    let row = harbour().ask("from Crews limit 1").rows.remove(0);
    let expected = r#"{"Name":"Ann","Boat":"boats/3","@metadata":{"@collection":"Crews","@change-vector":"A:3-BwcHBwcHBwcHBwcHBwcHBw","@id":"crews/1","@last-modified":"#;
    assert!(row.starts_with(expected), "{row}");
}

#[test]
fn the_result_etag_changes_with_the_documents_looked_at() {
    let database = harbour();
    let etags = || {
        ["from Boats", "from Boats include Captain", "from @all_docs", "from Nothing"]
            .map(|text| database.ask(text).etag)
    };
    let first = etags();
    assert_eq!(etags(), first, "nothing changed");

    database.put("crews/3", "Crews", "");
    let crew_added = etags();
    assert_eq!(crew_added[0], first[0], "another collection does not matter");
    assert_ne!(crew_added[1], first[1], "an included document may be in any collection");
    assert_ne!(crew_added[2], first[2]);

    database.put("boats/4", "Boats", "");
    let boat_added = etags();
    database.delete("boats/4");
    let boat_deleted = etags();
    assert_ne!(boat_added[0], first[0]);
    assert_ne!(boat_deleted[0], boat_added[0]);
    assert_eq!(boat_deleted[0], first[0], "the same documents produce the same answer");
    assert_eq!(boat_deleted[3], first[3]);

    database.put("n/1", "Nothing", "");
    assert_ne!(etags()[3], first[3]);
}

#[test]
fn distinct_rows_are_shown_once_and_the_others_are_counted() {
    let database = Database::new();
    for (id, body) in [
        ("u/1", r#""Age":1,"K":"x""#),
        ("u/2", r#""Age":1,"K":"y""#),
        ("u/3", r#""Age":1,"K":"x""#),
        ("u/4", r#""Age":2"#),
        ("u/5", r#""Age":"1","L":[1,2]"#),
        ("u/6", r#""L":[1,2]"#),
    ] {
        database.put(id, "Users", body);
    }
    let page = |start, page_size| Paging { start, page_size: Some(page_size) };
    let all = Paging::default();
    for (text, paging, ids, skipped) in [
        ("from Users select distinct Age", all, "u/1 u/4 u/5 u/6", 2),
        ("from Users as u select distinct u.Age", all, "u/1 u/4 u/5 u/6", 2),
        ("from Users select distinct Age, K", all, "u/1 u/2 u/4 u/5 u/6", 1),
        ("from Users select distinct L", all, "u/1 u/5", 4),
        ("from Users select distinct id()", all, "u/1 u/2 u/3 u/4 u/5 u/6", 0),
        ("from Users select distinct Age limit 1", all, "u/1", 0),
        ("from Users select distinct Age", page(1, 2), "u/4 u/5", 2),
        ("from Users select distinct Age", page(0, 0), "", 2),
        ("from Users select distinct Age limit 0", all, "", 2),
        ("from Users where id() in ('u/3', 'u/1') select distinct Age", all, "u/1", 1),
    ] {
        let answer = database.ask_page(text, paging);
        assert_eq!(answer.ids.join(" "), ids, "{text}");
        assert_eq!(answer.skipped, skipped, "{text}");
    }
    assert_eq!(database.ask("from Users select distinct Age").total, 6);
    assert_eq!(database.ask("from Users select distinct Age limit 1").total, 6);
    // A client that requests zero rows counts the distinct ones.
    for (text, total, skipped) in [
        ("from Users select distinct Age limit 0", 4, 2),
        ("from Users as u select distinct { A: u.Age } limit 0", 4, 2),
        ("from Users filter K = 'x' select distinct Age limit 0", 1, 5),
    ] {
        let answer = database.ask(text);
        assert_eq!((answer.total, answer.skipped), (total, skipped), "{text}");
    }
    let whole = database.ask("from Users select distinct *");
    assert_eq!((whole.ids.len(), whole.skipped), (6, 0));
}

#[test]
fn looking_for_different_rows_can_be_stopped() {
    let database = harbour();
    for text in [
        "from Boats select distinct Name",
        "from Boats select distinct Name limit 0",
        "from Boats as b select distinct { N: b.Name } limit 0",
        "from Boats filter Name != null select Name",
    ] {
        let stop = Arc::new(AtomicBool::new(true));
        let error = database.try_ask_until(text, Paging::default(), stop).map(|_| ()).unwrap_err();
        assert_eq!(error.family(), Family::Interrupted, "{text}");
    }
}

#[test]
fn documents_are_no_index() {
    let database = harbour();
    for text in ["from index 'no/such'", "from index X where A = $p select distinct B"] {
        let missing = database.try_ask(text, Paging::default()).unwrap_err();
        assert_eq!(missing.family(), Family::MissingIndex, "{text}");
    }
}
