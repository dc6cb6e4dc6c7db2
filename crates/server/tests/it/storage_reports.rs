//! Reports about the files of a database.

use serde_json::json;

use crate::test_server::TestServer;

#[test]
fn storage_reports_list_files_trees_and_tables() {
    let server = TestServer::with_database();
    for number in 0..20 {
        let target = format!("/databases/db/docs?id=users/{number}");
        let body = br#"{"A":1,"@metadata":{"@collection":"Users"}}"#;
        assert_eq!(server.send_with("PUT", &target, &[], body).status, 201);
    }
    let totals = server.get("/databases/db/debug/storage/report").json();
    let environment = &totals["Results"][0];
    assert_eq!((&environment["Name"], &environment["Type"]), (&json!("db"), &json!("Documents")));
    let data_file = &environment["Report"]["DataFile"];
    let bytes = |name: &str| data_file[name].as_u64().unwrap();
    assert_eq!(
        bytes("AllocatedSpaceInBytes"),
        bytes("UsedSpaceInBytes") + bytes("FreeSpaceInBytes")
    );
    assert_eq!(environment["Report"]["CountOfTables"], 1);

    let target = "/databases/db/debug/storage/environment/report?name=DB&type=Documents";
    let report = server.get(target).json()["Report"].clone();
    assert_eq!(report["Tables"][0]["NumberOfEntries"], 20);
    let trees = report["Trees"].as_array().unwrap();
    let log = trees.iter().find(|tree| tree["Name"] == "Log").unwrap();
    assert_eq!((&log["NumberOfEntries"], &log["Depth"]), (&json!(20), &json!(1)));
    assert!(report["Journals"]["Journals"][0]["AllocatedSpaceInBytes"].as_u64().unwrap() > 0);

    let index = br#"{"Indexes":[{"Name":"I","Maps":["from u in docs.Users select new { u.A }"]}]}"#;
    assert_eq!(server.send("PUT", "/databases/db/admin/indexes", index).status, 201);
    let totals = server.get("/databases/db/debug/storage/report").json();
    let of_index = &totals["Results"][1];
    assert_eq!((&of_index["Name"], &of_index["Type"]), (&json!("I"), &json!("Index")));
    let target = "/databases/db/debug/storage/environment/report?name=i&type=Index";
    assert!(server.get(target).json()["Report"]["Trees"].is_array());

    let all = server.get("/databases/db/debug/storage/all-environments/report").json();
    assert_eq!(all["Environments"][1]["Name"], "I");
    assert_eq!(all["Environments"][0]["Report"]["Tables"], report["Tables"]);
    let unknown = "/databases/db/debug/storage/environment/report?name=x&type=Documents";
    assert_eq!(server.get(unknown).status, 404);
}
