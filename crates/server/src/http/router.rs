//! The table from method and path to handlers, and the lookup in it.
//!
//! Paths are compared ASCII case-insensitively; a `*` after `/databases/` stands for the name of a
//! database, and a `$` at the end of a route of the server for any rest of a path. Invariant: every route declares what a client must be allowed to do; `service` checks it before
//! the database is opened.

use std::{borrow::Cow, collections::HashMap, future::Future, pin::Pin};

use security::Requirement;
use wire::ErrorKind;

use crate::{
    answers::answer::Answer,
    api_error::ApiError,
    call::Call,
    http::{
        route_path::{percent_decode_path, split_database},
        web_socket::Session,
    },
};

/// The type of a handler's future.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Answer, ApiError>> + Send>>;

/// The code behind a route.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Responds immediately, on the thread that reads the connection.
    Inline(fn(&Call) -> Result<Answer, ApiError>),
    /// Runs on a thread of the blocking pool: it reads so much that others on the connection's
    /// thread would be delayed.
    Blocking(fn(&Call) -> Result<Answer, ApiError>),
    /// Asynchronous: waits for a body, a batch or another thread.
    Waiting(fn(Call) -> Answering),
    /// Responds immediately with a response that ends with the connection: it cannot be part of
    /// another one.
    Endless(fn(&Call) -> Result<Answer, ApiError>),
    /// Starts a session on a WebSocket, or rejects it.
    WebSocket(fn(&Call) -> Result<Session, ApiError>),
}

/// How the body of a request is processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyUse {
    /// It is not read.
    Ignored,
    /// It is read to the end before the handler is called.
    Whole,
    /// The handler reads it as it arrives.
    Streamed,
    /// The handler reads a multipart body as it arrives; any other is read to the end before.
    WholeOrParts,
}

/// One row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) requirement: Requirement,
    pub(crate) body: BodyUse,
    pub(crate) handler: Handler,
}

/// A matching route, and the name of the database in its path.
pub(crate) struct Match<'a> {
    pub(crate) route: Route,
    pub(crate) database: Option<Cow<'a, str>>,
}

/// The table, ready for lookups.
pub(crate) struct Router {
    server: HashMap<String, Vec<Route>>,
    database: HashMap<String, Vec<Route>>,
    /// By the beginning of their paths.
    beginnings: Vec<(String, Route)>,
}

impl Router {
    /// From the rows of the table.
    pub(crate) fn new(routes: &[Route]) -> Router {
        let mut router =
            Router { server: HashMap::new(), database: HashMap::new(), beginnings: Vec::new() };
        for route in routes {
            if let Some(beginning) = route.path.strip_suffix('$') {
                router.beginnings.push((beginning.to_ascii_lowercase(), *route));
                continue;
            }
            let (map, path) = match route.path.strip_prefix("/databases/*") {
                Some(rest) => (&mut router.database, rest),
                None => (&mut router.server, route.path),
            };
            map.entry(path.to_ascii_lowercase()).or_default().push(*route);
        }
        router
    }

    /// Looks up a request.
    pub(crate) fn find<'a>(&self, method: &str, path: &'a str) -> Option<Match<'a>> {
        if let Some((name, rest)) = split_database(path)
            && let Some(route) = lookup(&self.database, method, rest)
        {
            return Some(Match { route, database: Some(percent_decode_path(name)) });
        }
        let route =
            lookup(&self.server, method, path).or_else(|| self.find_beginning(method, path));
        route.map(|route| Match { route, database: None })
    }

    fn find_beginning(&self, method: &str, path: &str) -> Option<Route> {
        let begins = |beginning: &str| {
            path.get(..beginning.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(beginning))
        };
        let mut found = self.beginnings.iter().filter(|(beginning, _)| begins(beginning));
        found.find(|(_, route)| route.method.eq_ignore_ascii_case(method)).map(|(_, route)| *route)
    }
}

fn lookup(routes: &HashMap<String, Vec<Route>>, method: &str, path: &str) -> Option<Route> {
    let of_path = match routes.get(path) {
        Some(of_path) => of_path,
        None if path.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            routes.get(&path.to_ascii_lowercase())?
        }
        None => return None,
    };
    of_path.iter().find(|route| route.method.eq_ignore_ascii_case(method)).copied()
}

/// The error for a request without a route. `target` is the path with the query.
pub(crate) fn route_not_found(method: &str, target: &str) -> ApiError {
    let message = format!("There is no handler for path: {method} {target}");
    ApiError::new(ErrorKind::RouteNotFound, message)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    const ROUTES: &[Route] =
        &[route("GET", "/databases"), route("GET", "/databases/*/docs"), route("GET", "/studio/$")];

    const fn route(method: &'static str, path: &'static str) -> Route {
        Route {
            method,
            path,
            requirement: Requirement::Read,
            body: BodyUse::Ignored,
            handler: Handler::Inline(|_| Ok(Answer::empty(StatusCode::OK))),
        }
    }

    #[test]
    fn paths_lead_to_their_route_and_name_the_database() {
        let router = Router::new(ROUTES);
        let table = [
            ("GET", "/databases", Some(None)),
            ("GET", "/Databases", Some(None)),
            ("GET", "/databases/x/docs", Some(Some("x"))),
            ("get", "/databases/X/DOCS", Some(Some("X"))),
            ("GET", "/databases/a%2Bb/docs", Some(Some("a+b"))),
            ("GET", "/databases/a+b/docs", Some(Some("a+b"))),
            ("PUT", "/databases/x/docs", None),
            ("GET", "/databases/x/docs/", None),
            ("GET", "/databases//docs", None),
            ("GET", "/databases/x", None),
            ("GET", "/databases/", None),
            ("GET", "", None),
            ("GET", "/studio/", Some(None)),
            ("GET", "/Studio/databases/x/docs", Some(None)),
            ("PUT", "/studio/x", None),
            ("GET", "/studio", None),
        ];
        for (method, path, expected) in table {
            let found = router.find(method, path);
            let found = found.as_ref().map(|found| found.database.as_deref());
            assert_eq!(found, expected, "{method} {path}");
        }
    }
}
