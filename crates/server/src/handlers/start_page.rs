//! `GET /`: the Studio for browsers, and JSON for programs.
//!
//! Where there is no Studio, a page takes its place: it is self-contained: it loads nothing, runs no script, and all names are escaped.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    sync::Arc,
};

use bytes::Bytes;
use http::{StatusCode, header};
use model::DatabaseRecord;
use security::{Caller, Denial};
use serde_json::json;

use crate::{
    answers::answer::{Answer, AnswerBody},
    api_error::ApiError,
    call::Call,
    handlers::studio::{PAGE_TARGET, how_to_get_it},
};

/// Maximum number of listed databases.
const LISTED_MAX: usize = 500;
const HTML: &str = "text/html; charset=utf-8";
/// Nothing may be loaded, and the page may not be framed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid; border-radius: 4px; }
td, th { text-align: left; padding: .2rem 1.2rem .2rem 0; vertical-align: top; }";

/// The links of each database: a label, and the rest of the address.
const ROUTES: [(&str, &str); 5] = [
    ("documents", "docs?pageSize=25"),
    ("collections", "collections/stats"),
    ("indexes", "indexes/stats"),
    ("index errors", "indexes/errors"),
    ("statistics", "stats"),
];

/// `GET /`: the way to the Studio for browsers, and the versions as JSON for any other client.
pub(crate) fn start_page(call: &Call) -> Result<Answer, ApiError> {
    let accepts = call.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let is_browser = accepts.is_some_and(|accepts| accepts.contains("text/html"));
    let denial = match call.caller {
        Caller::Unsecured => None,
        _ => call.caller.grant().err(),
    };
    match denial {
        _ if !is_browser => Ok(facts(call)),
        Some(denial) => Ok(refusal_page(&denial)),
        None if call.state.studio.is_there() => Ok(Answer::empty(StatusCode::FOUND)
            .with_header("Location", PAGE_TARGET)
            .with_header("Cache-Control", "no-store")
            .with_header("Vary", "Accept")),
        None => Ok(page(call, &call.state.address_in_passing(&call.headers))),
    }
}

fn facts(call: &Call) -> Answer {
    let studio = match call.state.studio.is_there() {
        true => Cow::Borrowed("Open this address in a browser."),
        false => how_to_get_it(call),
    };
    let facts = json!({
        "Product": "Corvus",
        "Version": env!("CARGO_PKG_VERSION"),
        "ProtocolVersion": call.state.engine.settings().protocol_version.as_str(),
        "Documentation": "README.md and the folder docs of Corvus' source code",
        "Studio": studio,
    });
    let mut body = serde_json::to_vec_pretty(&facts).expect("a map with text keys can be written");
    body.push(b'\n');
    Answer::json(body)
}

fn page(call: &Call, address: &str) -> Answer {
    let mut html = String::new();
    write_page(&mut html, call, address).expect("writing to a String cannot fail");
    html_answer(html)
}

/// What a person sees whose browser has no certificate that is registered here.
fn refusal_page(denial: &Denial) -> Answer {
    let reason = denial.to_string();
    html_answer(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Corvus</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>Corvus</h1>\n\
         <p>This server is for clients with a certificate that is registered here. {}</p>\n\
         <p>An administrator registers or makes one: <code>POST /admin/certificates</code> returns an archive \
         with a file <code>.pfx</code>, which is imported into the browser. <code>corvus setup secure</code> \
         makes the first one. A browser that was asked before remembers its choice: close all of its windows, \
         or open a private one.</p>\n</body>\n</html>\n",
        Escaped(&reason)
    ))
}

fn html_answer(html: String) -> Answer {
    let body = AnswerBody::Whole(Bytes::from(html));
    Answer { status: StatusCode::OK, headers: Vec::new(), body }
        .with_content_type(HTML)
        .with_header("Content-Security-Policy", POLICY)
        .with_header("X-Content-Type-Options", "nosniff")
        .with_header("Cache-Control", "no-store")
        .with_header("Vary", "Accept")
}

fn write_page(html: &mut String, call: &Call, address: &str) -> fmt::Result {
    let version = env!("CARGO_PKG_VERSION");
    let protocol = Escaped(call.state.engine.settings().protocol_version.as_str());
    let address = Escaped(address);
    let studio = how_to_get_it(call);
    let studio = Escaped(&studio);
    write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Corvus</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>Corvus {version}</h1>\n\
         <p>The server is running. Connect RavenDB's client libraries to <code>{address}</code>; they \
         see RavenDB {protocol}. {studio} The links below return JSON.</p>\n\
         <h2>Databases</h2>\n"
    )?;
    write_databases(html, &call.visible_records(), &address)?;
    write!(
        html,
        "<h2>The server</h2>\n<p><a href=\"/databases\">databases</a> · \
         <a href=\"/cluster/node-info\">node</a> · <a href=\"/admin/debug/memory/stats\">memory</a> · \
         <a href=\"/build/version\">version</a></p>\n\
         <h2>Documentation</h2>\n<p>In the source code of Corvus: <code>README.md</code> for the first \
         steps, <code>docs/tutorial.md</code> for a program in Node.js and Python, \
         <code>docs/configuration.md</code> for every setting, <code>docs/compatibility.md</code> for the \
         features of RavenDB that work.</p>\n</body>\n</html>\n"
    )
}

fn write_databases(
    html: &mut String,
    records: &[Arc<DatabaseRecord>],
    address: &Escaped<'_>,
) -> fmt::Result {
    if records.is_empty() {
        return write!(
            html,
            "<p>None yet. Create one with a client library (<code>CreateDatabaseOperation</code>), or with:</p>\n\
             <pre>curl -X PUT '{address}/admin/databases?name=shop' -d '{{\"DatabaseName\":\"shop\"}}'</pre>\n"
        );
    }
    html.push_str("<table>\n<tr><th>Name</th><th>Links</th></tr>\n");
    for record in records.iter().take(LISTED_MAX) {
        let name = record.name.as_str();
        let note = if record.disabled { " (disabled)" } else { "" };
        write!(html, "<tr><td>{}{note}</td><td>", Escaped(name))?;
        for (word, rest) in ROUTES {
            write!(html, "<a href=\"/databases/{}/{rest}\">{word}</a> ", InPath(name))?;
        }
        html.push_str("</td></tr>\n");
    }
    html.push_str("</table>\n");
    match records.len().checked_sub(LISTED_MAX) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(html, "<p>and {more} more</p>"),
    }
}

/// Text in HTML, also within quotation marks.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            letter => f.write_char(letter),
        })
    }
}

/// A name as a path segment.
struct InPath<'t>(&'t str);

impl fmt::Display for InPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                f.write_char(char::from(byte))
            }
            byte => write!(f, "%{byte:02X}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_the_text_or_the_address_that_they_are_in() {
        let name = "<a href=\"x\">'&é/..";
        assert_eq!(Escaped(name).to_string(), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;é/..");
        assert_eq!(InPath(name).to_string(), "%3Ca%20href%3D%22x%22%3E%27%26%C3%A9%2F..");
    }
}
