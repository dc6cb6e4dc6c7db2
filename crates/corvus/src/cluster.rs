//! `corvus cluster`: adds servers to a cluster, removes them, and shows its nodes.
//!
//! Exit codes: 0 done; 1 it failed; 2 the command was not understood.

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use lexopt::{Arg, Parser, ValueExt};
use platform::{Disk, Platform};
use serde_json::{Value, json};
use wire::percent_encode;

use crate::remote_server::{ACCESS_HELP, Access, RemoteServer, message_of, text_of};

const HELP: &str = "\
Usage: corvus cluster status <url>
       corvus cluster add <url> <new server's url>... [--tag=<tag>] [--watcher] [--database=<name>]
       corvus cluster join <new server's url> <url> [--tag=<tag>] [--watcher] [--database=<name>]
       corvus cluster remove <url> <tag>
       corvus cluster promote <url> <tag>
       corvus cluster demote <url> <tag>

<url> is that of any node of the cluster; a server is a cluster of its own from its first start.

  status   shows the nodes, and which of them leads
  add      makes servers that have no databases nodes of the cluster; it waits until they have started
  join     the same, said from the side of the new server
  remove   removes a node
  promote  gives a watcher a vote
  demote   makes a node a watcher, which follows without a vote

  --tag=<tag>              the tag of the new node, one to four letters A to Z; otherwise the first that is free
  --watcher                the new node follows and never votes
  --database=<name>        afterwards creates this database on all nodes, unless it exists
";

/// How long, and how often, is looked whether a server has started that was started just before this command.
const START_TIME_MAX: Duration = Duration::from_secs(10);
const START_LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `corvus cluster` with the arguments that follow this word.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let command = match ClusterCommand::read(arguments) {
        Ok(Some(command)) => command,
        Ok(None) => {
            say(&format!("{HELP}{ACCESS_HELP}"));
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            complain(&format!("corvus cluster: {reason}. See corvus cluster --help"));
            return ExitCode::from(2);
        }
    };
    match command.run(&*Platform::real().disk) {
        Ok(text) => {
            say(&text);
            ExitCode::SUCCESS
        }
        Err(reason) => {
            complain(&format!("corvus cluster: {reason}"));
            ExitCode::FAILURE
        }
    }
}

fn say(text: &str) {
    // A closed pipe is not a failure.
    drop(io::stdout().write_all(text.as_bytes()));
}

fn complain(text: &str) {
    // Without standard error there is nowhere to report this.
    drop(writeln!(io::stderr(), "{text}"));
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    Status,
    Add {
        urls: Vec<String>,
        tag: Option<String>,
        is_watcher: bool,
        database: Option<String>,
    },
    /// The method and the path of a request that names a node.
    OfNode {
        method: &'static str,
        path: &'static str,
        tag: String,
    },
}

#[derive(Debug)]
struct ClusterCommand {
    url: String,
    action: Action,
    access: Access,
}

impl ClusterCommand {
    /// `None` if help was asked for; the reason why the arguments are not understood.
    fn read(arguments: &[OsString]) -> Result<Option<ClusterCommand>, String> {
        let mut parser = Parser::from_args(arguments);
        let (mut words, mut tag, mut is_watcher, mut database) = (Vec::new(), None, false, None);
        let mut access = Access::default();
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            match argument {
                Arg::Long("help") | Arg::Short('h') => return Ok(None),
                Arg::Long("tag") => tag = Some(text(&mut parser)?),
                Arg::Long("watcher") => is_watcher = true,
                Arg::Long("database") => database = Some(text(&mut parser)?),
                Arg::Long(name) => {
                    let name = name.to_owned();
                    if !access.take(&name, &mut parser)? {
                        return Err(format!("unknown option --{name}"));
                    }
                }
                Arg::Value(word) => words.push(word.string().map_err(|error| error.to_string())?),
                Arg::Short(_) => return Err(argument.unexpected().to_string()),
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let of_node =
            |method, path, tag: &str| Action::OfNode { method, path, tag: tag.to_owned() };
        let (url, action) = match words[..] {
            ["status", url] => (url, Action::Status),
            ["add", url, ref new @ ..] | ["join", ref new @ .., url] if !new.is_empty() => {
                if tag.is_some() && new.len() != 1 {
                    return Err("--tag is that of one server".to_owned());
                }
                let urls = new.iter().map(|&url| url.to_owned()).collect();
                let (tag, database) = (tag.take(), database.take());
                (url, Action::Add { urls, tag, is_watcher, database })
            }
            ["remove", url, tag] => (url, of_node("DELETE", "/admin/cluster/node", tag)),
            ["promote", url, tag] => (url, of_node("POST", "/admin/cluster/promote", tag)),
            ["demote", url, tag] => (url, of_node("POST", "/admin/cluster/demote", tag)),
            _ => return Err("a command with its addresses is needed".to_owned()),
        };
        let is_adding = matches!(action, Action::Add { .. });
        if tag.is_some() || database.is_some() || is_watcher && !is_adding {
            return Err("--tag, --watcher and --database are for add and join".to_owned());
        }
        Ok(Some(ClusterCommand { url: url.to_owned(), action, access }))
    }

    fn run(&self, disk: &dyn Disk) -> Result<String, String> {
        let server = RemoteServer::new(disk, &self.url, &self.access)?;
        match &self.action {
            Action::Status => {}
            Action::Add { urls, tag, is_watcher, database } => {
                await_start(&server)?;
                for url in urls {
                    // Perhaps only the other nodes reach it; they say why it does not join.
                    drop(await_start(&RemoteServer::new(disk, url, &self.access)?));
                }
                for url in urls {
                    let tag = tag.as_deref().unwrap_or_default();
                    let [url, tag] = [url, tag].map(percent_encode);
                    let path =
                        format!("/admin/cluster/node?url={url}&tag={tag}&watcher={is_watcher}");
                    request(&server, "PUT", &path)?;
                }
                if let Some(database) = database {
                    create_everywhere(&server, database)?;
                }
            }
            Action::OfNode { method, path, tag } => {
                request(&server, method, &format!("{path}?nodeTag={}", percent_encode(tag)))?;
            }
        }
        Ok(shown(&topology_of(&server)?))
    }
}

/// Waits until the server answers, or for as long as a start may take.
#[expect(
    clippy::disallowed_methods,
    reason = "a command of a person at a terminal, which has no simulation"
)]
fn await_start(server: &RemoteServer) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let left = START_TIME_MAX.saturating_sub(began.elapsed());
        match server.answers_within("/build/version", left.max(START_LOOK_INTERVAL)) {
            Ok(()) => return Ok(()),
            Err(reason) if left.is_zero() => return Err(reason),
            Err(_) => std::thread::sleep(START_LOOK_INTERVAL),
        }
    }
}

/// Creates a database on all nodes; one that exists is left as it is.
fn create_everywhere(server: &RemoteServer, name: &str) -> Result<(), String> {
    let nodes = topology_of(server)?["Topology"]["AllNodes"].as_object().map_or(1, |all| all.len());
    let path = format!("/admin/databases?replicationFactor={nodes}");
    let response = server.put(&path, &json!({"DatabaseName": name}).to_string())?;
    match response.status().as_u16() {
        200..=299 | 409 => Ok(()),
        status => Err(message_of(status, &text_of(response)?)),
    }
}

fn topology_of(server: &RemoteServer) -> Result<Value, String> {
    let topology = request(server, "GET", "/cluster/topology")?;
    serde_json::from_str(&topology).map_err(|error| format!("the topology cannot be read: {error}"))
}

fn text(parser: &mut Parser) -> Result<String, String> {
    let value = parser.value().and_then(ValueExt::string);
    value.map_err(|error| error.to_string())
}

fn request(server: &RemoteServer, method: &str, path: &str) -> Result<String, String> {
    let response = server.request(method, path)?;
    let status = response.status().as_u16();
    let text = text_of(response)?;
    if (200..300).contains(&status) { Ok(text) } else { Err(message_of(status, &text)) }
}

/// A line for each node, and one that adds another.
fn shown(topology: &Value) -> String {
    let leader = topology["Leader"].as_str();
    let all = topology["Topology"]["AllNodes"].as_object();
    let role_of = |tag: &str| {
        let roles = [("Members", "member"), ("Promotables", "promotable"), ("Watchers", "watcher")];
        let role = roles.iter().find(|(name, _)| topology["Topology"][name].get(tag).is_some());
        role.map_or("", |(_, role)| *role)
    };
    let mut text = String::new();
    for (tag, url) in all.into_iter().flatten() {
        let leads = if leader == Some(tag) { ", leads" } else { "" };
        let url = url.as_str().unwrap_or_default();
        text.push_str(&format!("{tag:4} {url}  {}{leads}\n", role_of(tag)));
    }
    if leader.is_none() {
        text.push_str("No node leads: a majority of the members cannot reach each other.\n");
    }
    if let Some(url) = all.into_iter().flatten().next().and_then(|(_, url)| url.as_str()) {
        text.push_str(&format!(
            "\nTo add another server, start it and run there, with its own address:\n  corvus cluster join \
             <address> {url}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(line: &str) -> Result<Option<ClusterCommand>, String> {
        let arguments: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        ClusterCommand::read(&arguments)
    }

    #[test]
    fn a_server_is_added_from_either_side() {
        let adding = "add http://a http://b --tag=X --watcher --database=d --api-key-file=k";
        let joining = "join http://b http://a --watcher --database=d --tag X --api-key-file k";
        for line in [adding, joining] {
            let command = read(line).unwrap().unwrap();
            let (tag, database) = (Some("X".to_owned()), Some("d".to_owned()));
            let urls = vec!["http://b".to_owned()];
            let action = Action::Add { urls, tag, is_watcher: true, database };
            assert_eq!((command.url.as_str(), command.action), ("http://a", action));
            assert_eq!(command.access.api_key, Some("k".into()));
        }
    }

    #[test]
    fn several_servers_are_added_at_once() {
        let command = read("add http://a http://b http://c").unwrap().unwrap();
        let urls = vec!["http://b".to_owned(), "http://c".to_owned()];
        let action = Action::Add { urls, tag: None, is_watcher: false, database: None };
        assert_eq!((command.url.as_str(), command.action), ("http://a", action));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert!(read("--help").unwrap().is_none());
        for line in [
            "",
            "add http://a",
            "join http://a",
            "add http://a http://b http://c --tag=B",
            "status http://a --tag=B",
            "status http://a --database=d",
            "remove http://a B --watcher",
            "x --y",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_nodes_are_shown_with_their_parts() {
        let topology = json!({
            "Leader": "A",
            "Topology": {
                "AllNodes": {"A": "http://a", "B": "http://b"}, "Members": {"A": "http://a"},
                "Promotables": {}, "Watchers": {"B": "http://b"}
            }
        });
        let text = shown(&topology);
        assert!(
            text.starts_with("A    http://a  member, leads\nB    http://b  watcher\n"),
            "{text}"
        );
        assert!(text.ends_with("corvus cluster join <address> http://a\n"), "{text}");
        let text = shown(&json!({"Leader": null, "Topology": {"AllNodes": {"A": "http://a"}}}));
        assert!(text.contains("No node leads"), "{text}");
    }
}
