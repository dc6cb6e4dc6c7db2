//! The files of the Studio: what is served, with which headers.

#![expect(
    clippy::disallowed_methods,
    reason = "files of the web interface are read from the machine's disk"
)]

use std::path::PathBuf;

use platform::Platform;

use crate::test_server::TestServer;

const PAGE: &str = "<!doctype html><title>Corvus</title>";
const SCRIPT: &str = "'script'";

/// A directory of its own for a test, removed at its end.
struct Directory(PathBuf);

impl Directory {
    fn with_a_studio(name: &str) -> Directory {
        let directory = std::env::temp_dir().join(format!("corvus-{name}-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("studio/assets")).unwrap();
        std::fs::write(directory.join("studio/index.html"), PAGE).unwrap();
        std::fs::write(directory.join("studio/assets/index-x1.js"), SCRIPT).unwrap();
        std::fs::write(directory.join("secret.txt"), "secret").unwrap();
        Directory(directory)
    }

    fn server(&self) -> TestServer {
        let path = format!("--Studio.Path={}", self.0.join("studio").display());
        TestServer::start(Platform::memory(), &[&path])
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn a_browser_is_led_to_the_studio_and_a_program_gets_json() {
    let directory = Directory::with_a_studio("studio-root");
    let server = directory.server();
    let browser = server.send_with("GET", "/", &[("Accept", "text/html,*/*;q=0.8")], b"");
    assert_eq!((browser.status, browser.header("location")), (302, Some("/studio/index.html")));
    assert_eq!(server.get("/").json()["Product"], "Corvus");
}

#[test]
fn every_address_that_is_no_file_is_the_page() {
    let directory = Directory::with_a_studio("studio-page");
    let server = directory.server();
    for target in [
        "/studio/index.html",
        "/studio/",
        "/studio/databases/my.shop/query?q=from%20x",
        "/Studio/x",
    ] {
        let page = server.get(target);
        assert_eq!((page.status, page.text()), (200, PAGE.to_owned()), "{target}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    }
}

#[test]
fn files_of_the_directory_are_read_anew_and_none_outside_of_it() {
    let directory = Directory::with_a_studio("studio-files");
    let server = directory.server();
    let script = server.get("/studio/assets/index-x1.js");
    assert_eq!(script.text(), SCRIPT);
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(script.header("cache-control"), Some("no-store"));
    std::fs::write(directory.0.join("studio/assets/index-x1.js"), "'changed'").unwrap();
    assert_eq!(server.get("/studio/assets/index-x1.js").text(), "'changed'");
    assert_eq!(server.get("/studio/assets/missing.js").status, 404);
    for target in
        ["/studio/../secret.txt", "/studio/%2e%2e/secret.txt", "/studio/assets/../../secret.txt"]
    {
        assert_ne!(server.get(target).text(), "secret", "{target}");
    }
    assert_eq!(server.send("PUT", "/studio/index.html", b"x").status, 400);
}

#[test]
fn a_link_of_another_site_opens_the_page_and_nothing_else() {
    let directory = Directory::with_a_studio("studio-links");
    let server = directory.server();
    let send = |target: &str, mode: &str, dest: &str| {
        let headers =
            [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", mode), ("Sec-Fetch-Dest", dest)];
        server.send_with("GET", target, &headers, b"").status
    };
    assert_eq!(send("/studio/databases/shop/documents", "navigate", "document"), 200);
    assert_eq!(send("/studio/index.html", "navigate", "iframe"), 403);
    assert_eq!(send("/studio/assets/index-x1.js", "no-cors", "script"), 403);
    assert_eq!(send("/databases", "navigate", "document"), 403);
    assert_eq!(send("/studio/../databases", "navigate", "document"), 200);
    let foreign = [("Origin", "http://evil.example"), ("Sec-Fetch-Mode", "navigate")];
    assert_eq!(server.send_with("GET", "/studio/index.html", &foreign, b"").status, 403);
}

/// Where the tests were built after the Studio; otherwise there is nothing to check.
#[test]
fn embedded_files_are_compressed_and_kept_by_browsers() {
    let server = TestServer::start(Platform::memory(), &[]);
    for file in studio_files::FILES {
        let target = format!("/studio/{}", file.path);
        let send = |coding| server.send_with("GET", &target, &[("Accept-Encoding", coding)], b"");
        let brotli = send("gzip, br");
        assert_eq!(
            (brotli.header("content-encoding"), brotli.body.as_slice()),
            (Some("br"), file.brotli)
        );
        let gzip = send("gzip");
        assert_eq!(
            (gzip.header("content-encoding"), gzip.body.as_slice()),
            (Some("gzip"), file.gzip)
        );
        let plain = send("identity");
        assert_eq!(plain.header("content-encoding"), None);
        assert!(file.gzip.len() <= plain.body.len() + 64, "{target}");
        let kept = file.path.starts_with("assets/");
        let control = if kept { "public, max-age=31536000, immutable" } else { "no-cache" };
        assert_eq!(plain.header("cache-control"), Some(control), "{target}");
        let tag = format!("\"{}\"", file.hash);
        assert_eq!(plain.header("etag"), Some(tag.as_str()));
        let again = server.send_with("GET", &target, &[("If-None-Match", &tag)], b"");
        assert_eq!((again.status, again.body.len()), (304, 0));
    }
}
