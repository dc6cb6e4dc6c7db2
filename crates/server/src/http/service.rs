//! From an HTTP request to an HTTP response: route, database, body, handler, headers.
//!
//! Invariant: every request gets a response in the protocol's form, even if a handler fails or
//! panics.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use database::{DatabaseLease, HeldSnapshot, RunningRequest};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use security::{Caller, Denial, PresentedKey, Requirement};
use tokio::{sync::mpsc, task::block_in_place};
use wire::{ErrorKind, QueryString, header_names};

use crate::{
    answers::{
        answer::{Answer, AnswerBody, Piece, Pieces},
        answer_share::count,
        long_answer::begun,
        piece_sender::PIECE_BYTES,
    },
    api_error::ApiError,
    audit::AuditedRequest,
    blocking::begin_blocking,
    call::Call,
    client_configuration,
    database_access::open_database,
    feeds::traffic_watch::AnswerFacts,
    handlers::operations::fault_unstarted,
    http::{
        admission::Head,
        answer_coding::AnswerCoder,
        body_share::{BodyShare, SMALL_BODY_BYTES, refuse_announced},
        connection_watch::ConnectionWatch,
        data_rate::BodyPace,
        request_body::RequestBody,
        request_coding::{Coding, body_too_large, check_transfer_coding},
        route_path::named_database,
        router::{BodyUse, Handler, Route, Router, route_not_found},
        web_socket::{self, ConnectionPlace, Handshake, Upgrade},
    },
    server_state::ServerState,
    snapshot_reads::snapshot_of,
    unbuilt_routes::UnbuiltRoute,
};

/// More bytes of a coded body may take long to decode.
const BRIEF_CODED_BYTES: u64 = 4 << 10;

/// The routing table with the state of the server: what a connection needs to answer requests.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) state: Arc<ServerState>,
    pub(crate) router: &'static Router,
}

/// Answers one request: admission, routing, handler, content coding, log.
pub(crate) async fn serve(
    service: Service,
    request: Request<Incoming>,
    watch: Arc<ConnectionWatch>,
    place: ConnectionPlace,
) -> Response<AnswerBody> {
    let state = Arc::clone(&service.state);
    let began = state.engine.clock().monotonic();
    let _running = state.engine.activity().begin_request();
    let (mut parts, incoming) = request.into_parts();
    let upgrade = Upgrade { connection: parts.extensions.remove(), place };
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let (method, mut headers) = (parts.method, parts.headers);
    let presented = presented_key(&mut headers);
    let authority = parts.uri.authority();
    let traffic = state.traffic.begin((&method, &target), &headers);
    let peer = upgrade.place.peer;
    let caller = state.engine.caller(&upgrade.place.client, presented.as_ref());
    let from = (peer, &caller);
    let now = || state.engine.clock().now().ticks();
    let audited = state.audit.begin((&method, &target), from, now());
    let path = target.split('?').next().unwrap_or(&target);
    let version = parts.version;
    let head = Head { version, method: &method, path, authority, headers: &headers };
    let admitted = state.admission.admit(head).and_then(|()| check_transfer_coding(&headers));
    let incoming = RequestBody::new(incoming, &headers, watch);
    let is_head = method == Method::HEAD;
    let coder = state.compression.for_client(&headers);
    let closes = closes_connection(&headers);
    let mut exchange = Exchange { audited, ..Exchange::default() };
    let answered = match admitted {
        Ok(()) => {
            let request = ReceivedHead { caller, method: method.clone(), target: &target, headers };
            exchange.answer(&service, request, incoming, upgrade).await
        }
        Err(refused) => Err(refused),
    };
    exchange.log_if_slow(&state, &method, began);
    let answered = match answered {
        // The client does not expect a body.
        Ok(answer) if is_head => Ok(answer),
        Ok(answer) => begun(answer, &state).await,
        Err(error) => Err(error),
    };
    state.note_request();
    let is_denied = is_denied(&answered);
    let mut answer = answered.unwrap_or_else(|error| error_answer(&error, &target));
    exchange.add_headers(&mut answer);
    if let Some(audited) = exchange.audited.take() {
        audited.end(answer.status, is_denied, now()).await;
    }
    if let Some(traffic) = traffic {
        let record = exchange.database.as_ref().map(|database| database.record());
        let database = record.as_ref().map(|record| record.name.as_str());
        let (status, bytes) = (answer.status, answer.body.size_hint().exact());
        state.traffic.end(traffic, &AnswerFacts { status, bytes }, database);
    }
    if let Some(coder) = coder.filter(|_| !answer.is_incompressible()) {
        compress(&mut answer, coder);
    }
    if let Err(error) = count(&mut answer, &state.engine.memory().answers, exchange.is_repeatable) {
        answer = error_answer(&error, &target);
        exchange.add_headers(&mut answer);
    }
    if closes {
        answer.body = unmeasured(answer.body);
    }
    to_response(answer, is_head, &state.version_header)
}

/// Answers a request inside another request; the database is that of the outer one, and so is the
/// snapshot, unless it names one itself.
pub(crate) async fn serve_inner(
    outer: &Call,
    database: &DatabaseLease,
    method: Method,
    target: String,
    headers: HeaderMap,
    body: Bytes,
) -> Option<Answer> {
    let state = &outer.state;
    let path = target.split('?').next().unwrap_or(&target);
    let found = outer.router.find(method.as_str(), path)?;
    let is_session = matches!(found.route.handler, Handler::WebSocket(_) | Handler::Endless(_));
    if found.database.is_none() || found.route.body == BodyUse::Streamed || is_session {
        return None;
    }
    let now = || state.engine.clock().now().ticks();
    let from = (outer.peer, &outer.caller);
    let mut audited = state.audit.begin((&method, &target), from, now());
    let shown = target.clone();
    let answered = async {
        let requirement = found.route.requirement;
        outer.caller.check(requirement, Some(database.record().name.as_str()))?;
        if let Some(audited) = &mut audited {
            audited.permit(requirement)?;
        }
        let snapshot = outer.snapshot.as_ref();
        let snapshot = snapshot_of(state, Some(database), &found.route, &headers, snapshot)?;
        let call = Call {
            state: Arc::clone(state),
            router: outer.router,
            caller: outer.caller.clone(),
            peer: outer.peer,
            method,
            target,
            headers,
            database: Some(database.clone()),
            snapshot,
            body,
            // The outer request was counted already.
            body_share: BodyShare::none_of(state),
            stream: None,
        };
        begun(run(found.route, call).await?, state).await
    };
    let answered = answered.await;
    let is_denied = is_denied(&answered);
    let answer = answered.unwrap_or_else(|error| error_answer(&error, &shown));
    if let Some(audited) = audited {
        audited.end(answer.status, is_denied, now()).await;
    }
    Some(answer)
}

fn is_denied(answered: &Result<Answer, ApiError>) -> bool {
    answered.as_ref().is_err_and(|error| error.kind == ErrorKind::InvalidAuth)
}

/// A request without its body.
struct ReceivedHead<'r> {
    /// The client, and what it may do.
    caller: Caller,
    method: Method,
    /// Path and query.
    target: &'r str,
    headers: HeaderMap,
}

/// The key that the client presents, if any. Nothing else sees the header: it contains a secret.
fn presented_key(headers: &mut HeaderMap) -> Option<PresentedKey> {
    let values = headers.get_all(header::AUTHORIZATION);
    let presented = PresentedKey::of_headers(values.iter().map(HeaderValue::as_bytes));
    headers.remove(header::AUTHORIZATION);
    presented
}

/// What is learned about a request on its way, for the headers of its response.
#[derive(Default)]
struct Exchange {
    database: Option<DatabaseLease>,
    /// Its entry among the running requests of the database.
    running: Option<RunningRequest>,
    snapshot: Option<Arc<HeldSnapshot>>,
    refresh: Refresh,
    /// It only reads, so it may be rejected after it was processed.
    is_repeatable: bool,
    /// Its entry in the audit log.
    audited: Option<AuditedRequest>,
    /// The path of its route, unless its duration depends on its client.
    path: Option<&'static str>,
}

/// Configurations that the client has and should request again.
#[derive(Clone, Copy, Default)]
struct Refresh {
    topology: bool,
    client_configuration: bool,
}

impl Exchange {
    async fn answer(
        &mut self,
        service: &Service,
        request: ReceivedHead<'_>,
        incoming: RequestBody,
        upgrade: Upgrade,
    ) -> Result<Answer, ApiError> {
        let Service { state, router } = service;
        let ReceivedHead { caller, method, target, headers } = request;
        let line_max = state.engine.settings().http.request_line_bytes_max;
        if target.len() > line_max {
            let message = format!("The address of the request exceeds {line_max} bytes");
            return Err(ApiError::new(ErrorKind::UriTooLong, message));
        }
        let path = target.split('?').next().unwrap_or(target);
        let Some(found) = router.find(method.as_str(), path) else {
            // Clients that may not use the server must not learn which routes exist.
            let (database, unbuilt) =
                (named_database(path), UnbuiltRoute::find(method.as_str(), path));
            let requirement = match unbuilt {
                Some(_) => requirement_of_unbuilt(&method, path, database.is_some()),
                None => Requirement::ValidUser,
            };
            caller.check(requirement, database.as_deref())?;
            return Err(match unbuilt {
                Some(route) => refuse_unbuilt(state, route, target).await,
                None => route_not_found(method.as_str(), target),
            });
        };
        check(state, &caller, (found.route.requirement, found.database.as_deref()))?;
        if let Some(audited) = &mut self.audited {
            audited.permit(found.route.requirement)?;
        }
        self.is_repeatable =
            matches!(found.route.requirement, Requirement::Read) || method == Method::GET;
        let lasts = matches!(found.route.handler, Handler::WebSocket(_) | Handler::Endless(_))
            || found.route.body == BodyUse::Streamed
            // A hub answers when it has something.
            || found.route.requirement == Requirement::Sink;
        self.path = (!lasts).then_some(found.route.path);
        if let Some(name) = found.database {
            let database = open_database(state, &name).await?;
            self.running = Some(database.activity().begin_request());
            self.refresh = refresh(state, &database, &headers);
            self.database = Some(database);
        }
        let database = self.database.as_ref();
        self.snapshot = snapshot_of(state, database, &found.route, &headers, None)?;
        let mut body_share = BodyShare::none_of(state);
        let (body, stream) = match found.route.body {
            BodyUse::Ignored => (Bytes::new(), None),
            BodyUse::Streamed => {
                state.engine.memory().refuse_when_critical()?;
                (Bytes::new(), Some(incoming))
            }
            BodyUse::WholeOrParts if has_parts(&headers) => {
                state.engine.memory().refuse_when_critical()?;
                (Bytes::new(), Some(incoming))
            }
            BodyUse::Whole | BodyUse::WholeOrParts => {
                (read_body(state, database, &headers, incoming, &mut body_share).await?, None)
            }
        };
        let call = Call {
            state: Arc::clone(state),
            router,
            caller,
            peer: upgrade.place.peer,
            method,
            target: target.to_owned(),
            headers,
            database: self.database.clone(),
            snapshot: self.snapshot.clone(),
            body,
            body_share,
            stream,
        };
        match found.route.handler {
            Handler::WebSocket(handler) => {
                let handshake = Handshake::read(&call.headers)?;
                web_socket::begin(&handshake, upgrade, handler(&call)?)
            }
            Handler::Inline(_)
            | Handler::Blocking(_)
            | Handler::Waiting(_)
            | Handler::Endless(_) => run(found.route, call).await,
        }
    }

    /// Neither ids nor conditions are logged: they are data.
    fn log_if_slow(&self, state: &ServerState, method: &Method, began: Duration) {
        let (Some(slow), Some(path)) = (state.engine.settings().logs.slow_request_min, self.path)
        else {
            return;
        };
        let took = state.engine.clock().monotonic().saturating_sub(began);
        if took < slow {
            return;
        }
        let record = self.database.as_ref().map(|database| database.record());
        let database = record.as_ref().map_or("", |record| record.name.as_str());
        let milliseconds = took.as_millis() as u64;
        tracing::warn!(database, %method, path, milliseconds, "a request was slow");
    }

    fn add_headers(&self, answer: &mut Answer) {
        let mut add = |name: &'static str, value: HeaderValue| {
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                answer.headers.retain(|(there, _)| *there != name);
                answer.headers.push((name, value));
            }
        };
        if let Some(database) = &self.database {
            let id = database.record().cluster_transaction_id.text();
            if let Ok(value) = HeaderValue::from_bytes(&id) {
                add(header_names::DATABASE_CLUSTER_TX_ID, value);
            }
        }
        if let Some(held) = &self.snapshot
            && let Ok(value) = HeaderValue::from_str(held.token())
        {
            add(header_names::SNAPSHOT, value);
        }
        if self.refresh.topology {
            add(header_names::REFRESH_TOPOLOGY, HeaderValue::from_static("true"));
        }
        if self.refresh.client_configuration {
            add(header_names::REFRESH_CLIENT_CONFIGURATION, HeaderValue::from_static("true"));
        }
    }
}

/// Whether the client may do this. Sinks of hubs are known by the database alone.
fn check(
    state: &ServerState,
    caller: &Caller,
    (requirement, database): (Requirement, Option<&str>),
) -> Result<(), Denial> {
    caller.check(requirement, database).or_else(|denial| {
        let certificate = caller.certificate().filter(|_| requirement == Requirement::Sink);
        let is_sink = certificate.zip(database).is_some_and(|(certificate, database)| {
            state.engine.is_known_to_hubs(database, certificate.thumbprint())
        });
        if is_sink { Ok(()) } else { Err(denial) }
    })
}

/// The error for a route that is not implemented yet. The operation that the request was to start,
/// under an id that the client requested before, ends with it, since some clients wait for the
/// operation only.
async fn refuse_unbuilt(state: &ServerState, route: UnbuiltRoute, target: &str) -> ApiError {
    let error = route.refusal();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let operation = QueryString::parse(query).long("operationId");
    if let (Some(name), Ok(Some(id))) = (named_database(path), operation) {
        match open_database(state, &name).await {
            Ok(database) => fault_unstarted(state, &database, id, route.name, &error),
            Err(missing) => return missing,
        }
    }
    error
}

/// What a route that is not implemented would at least require: its operation appears among those of the database.
fn requirement_of_unbuilt(method: &Method, path: &str, has_database: bool) -> Requirement {
    let is_reading = matches!(*method, Method::GET | Method::HEAD);
    match (has_database, path.to_ascii_lowercase().contains("/admin/")) {
        (true, true) => Requirement::DatabaseAdmin,
        (true, false) if is_reading => Requirement::Read,
        (true, false) => Requirement::Write,
        (false, false) if is_reading => Requirement::ValidUser,
        (false, _) => Requirement::Operator,
    }
}

/// Whether the body is multipart.
fn has_parts(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("multipart/"))
}

fn refresh(state: &ServerState, database: &DatabaseLease, headers: &HeaderMap) -> Refresh {
    let known = |name: &str| -> Option<i64> {
        header_names::unquote(headers.get(name)?.to_str().ok()?).parse().ok()
    };
    let older = |known: i64, current: u64| i128::from(known) < i128::from(current);
    Refresh {
        topology: known(header_names::TOPOLOGY_ETAG)
            .is_some_and(|known| older(known, database.record().topology_index)),
        client_configuration: known(header_names::CLIENT_CONFIGURATION_ETAG)
            .is_some_and(|known| client_configuration::is_older(&state.engine, database, known)),
    }
}

async fn run(route: Route, call: Call) -> Result<Answer, ApiError> {
    let caught = match route.handler {
        Handler::Inline(handler) | Handler::Endless(handler) => {
            catch_unwind(AssertUnwindSafe(|| handler(&call)))
        }
        Handler::Blocking(handler) => {
            let work = move || catch_unwind(AssertUnwindSafe(|| handler(&call)));
            match begin_blocking(work).await {
                Ok(caught) => caught,
                Err(error) => {
                    let message = format!("The handler was not run: {error}");
                    Ok(Err(ApiError::new(ErrorKind::Internal, message)))
                }
            }
        }
        Handler::Waiting(handler) => match catch_unwind(AssertUnwindSafe(|| handler(call))) {
            Ok(answering) => CatchUnwind(answering).await,
            Err(panic) => Err(panic),
        },
        Handler::WebSocket(_) => Ok(Err(ApiError::invalid_operation("Not a WebSocket request."))),
    };
    caught.unwrap_or_else(|panic| {
        let message = panic_message(panic.as_ref());
        tracing::error!(method = route.method, path = route.path, %message, "a handler panicked");
        Err(ApiError::new(ErrorKind::Internal, format!("The handler failed: {message}")))
    })
}

type Panic = Box<dyn std::any::Any + Send>;

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// A future that converts panics into errors.
struct CatchUnwind<F>(F);

impl<F: Future + Unpin> Future for CatchUnwind<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| Pin::new(&mut self.0).poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

/// Reads and decodes a whole body, unless its database, if it is for one, is closed before all of it has arrived.
async fn read_body(
    state: &ServerState,
    database: Option<&DatabaseLease>,
    headers: &HeaderMap,
    incoming: RequestBody,
    share: &mut BodyShare,
) -> Result<Bytes, ApiError> {
    let bytes_max = state.engine.settings().http.request_body_bytes_max;
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let announced = announced.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    if announced > bytes_max {
        return Err(body_too_large(bytes_max));
    }
    refuse_announced(announced, state)?;
    if announced <= SMALL_BODY_BYTES {
        // Charged in one step: a body in progress does not wait for others in progress.
        share.grow_when_there_is_room(announced).await?;
    }
    let coding = Coding::of_request(headers)?;
    let body_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let connection = Arc::clone(incoming.connection());
    let mut pace = BodyPace::of(&state.engine.settings().http, connection);
    if let Some(database) = database {
        pace = pace.until_closed(database);
    }
    let mut limited = Limited::new(incoming, body_max);
    let mut pieces = BodyPieces::default();
    loop {
        match pace.next(limited.frame(), share).await? {
            None => break,
            Some(Ok(frame)) => {
                let piece = frame.into_data().unwrap_or_default();
                pace.received(piece.len());
                pieces.add(piece);
                match pieces.bytes() {
                    bytes if bytes <= SMALL_BODY_BYTES => {
                        share.grow_when_there_is_room(bytes).await?;
                    }
                    bytes => share.grow_to(bytes)?,
                }
            }
            Some(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(body_too_large(bytes_max));
            }
            Some(Err(error)) => {
                let message = format!("The body of the request could not be read: {error}");
                return Err(ApiError::new(ErrorKind::EndOfStream, message));
            }
        }
    }
    let coded_bytes = pieces.bytes();
    let charge = |bytes: u64| share.grow_to(coded_bytes + bytes);
    let decode = || coding.decode(pieces.joined(), bytes_max, charge);
    // What is coded may stand for very much: the thread passes its other tasks on.
    let takes_long = coding != Coding::Plain && BRIEF_CODED_BYTES < coded_bytes;
    let decoded = if takes_long { block_in_place(decode)? } else { decode()? };
    share.shrink_to(decoded.len() as u64);
    Ok(decoded)
}

/// The pieces of a body; a single piece is not copied.
#[derive(Default)]
struct BodyPieces {
    first: Bytes,
    joined: Vec<u8>,
}

impl BodyPieces {
    fn add(&mut self, piece: Bytes) {
        if self.first.is_empty() && self.joined.is_empty() {
            self.first = piece;
            return;
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&piece);
    }

    fn bytes(&self) -> u64 {
        self.first.len().max(self.joined.len()) as u64
    }

    fn joined(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { Bytes::from(self.joined) }
    }
}

/// The response for an error.
pub(crate) fn error_answer(error: &ApiError, target: &str) -> Answer {
    let status = StatusCode::from_u16(error.kind.status()).unwrap_or(StatusCode::IM_A_TEAPOT);
    let mut body = Vec::new();
    error.write_body(target, &mut body);
    let answer = Answer::json_with(status, body);
    match error.kind {
        // The rest of the body is not read, so the connection cannot serve another request.
        ErrorKind::RequestTooLarge | ErrorKind::UriTooLong | ErrorKind::RequestTimeout => {
            answer.with_header("connection", "close")
        }
        _ => answer,
    }
}

fn compress(answer: &mut Answer, coder: AnswerCoder) {
    answer.body = match std::mem::replace(&mut answer.body, AnswerBody::Empty) {
        AnswerBody::Empty => return,
        AnswerBody::Whole(bytes) => match coder.whole(&bytes) {
            Some(compressed) => AnswerBody::Whole(compressed),
            None => {
                answer.body = AnswerBody::Whole(bytes);
                return;
            }
        },
        uncompressed @ (AnswerBody::Counted { .. } | AnswerBody::Long(_)) => {
            answer.body = uncompressed;
            return;
        }
        AnswerBody::Stream(pieces) => AnswerBody::Stream(compress_stream(pieces, coder)),
    };
    answer.headers.push((header::CONTENT_ENCODING, coder.header()));
    answer.headers.push((header::VARY, HeaderValue::from_static("Accept-Encoding")));
}

fn compress_stream(mut pieces: Pieces, coder: AnswerCoder) -> Pieces {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        // A failed compression aborts the response, as does the end without a last piece.
        let Ok(mut stream) = coder.stream() else { return };
        // Where the client has gone, the pieces are dropped, which stops the work that makes them.
        while let Some(Some(piece)) = unless_closed(&sender, pieces.next()).await {
            let (mut bytes, is_last) = match piece {
                Piece::Part(bytes) => (bytes, false),
                Piece::Last(bytes) => (bytes, true),
                Piece::Failed(_) => return,
            };
            // A large piece must not be copied into another large one.
            while PIECE_BYTES < bytes.len() {
                let Ok(compressed) = stream.push(&bytes.split_to(PIECE_BYTES)) else { return };
                if sender.send(Piece::Part(compressed)).await.is_err() {
                    return;
                }
            }
            let compressed = match is_last {
                false => stream.push(&bytes).map(Piece::Part),
                true => stream.finish(&bytes).map(Piece::Last),
            };
            let Ok(compressed) = compressed else { return };
            if sender.send(compressed).await.is_err() || is_last {
                return;
            }
        }
    });
    Pieces::begun(None, receiver)
}

/// The result of `work`; `None` as soon as nobody receives what is sent.
async fn unless_closed<T>(
    sender: &mpsc::Sender<Piece>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = sender.closed() => None,
    }
}

/// Whether the client wants the connection closed after this request.
fn closes_connection(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONNECTION).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

/// The client library undici, which closes connections after each request, fails when the end of
/// the connection follows the last byte of a body of known length while its reader lags behind.
/// With chunked encoding, the last byte is followed by the end marker.
fn unmeasured(body: AnswerBody) -> AnswerBody {
    match body {
        // Short ones are not charged.
        AnswerBody::Whole(bytes) => AnswerBody::Counted { bytes, is_measured: false, share: None },
        AnswerBody::Counted { bytes, share, .. } => {
            AnswerBody::Counted { bytes, is_measured: false, share }
        }
        other => other,
    }
}

fn to_response(answer: Answer, is_head: bool, version: &HeaderValue) -> Response<AnswerBody> {
    // Without a body there is nothing with a type; clients expect one with other statuses.
    let is_bare = answer.status == StatusCode::NO_CONTENT
        || (answer.status == StatusCode::CREATED && matches!(answer.body, AnswerBody::Empty));
    let body = if is_head { AnswerBody::Empty } else { answer.body };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.reserve(answer.headers.len() + 2);
    headers.extend(answer.headers);
    headers.insert(HeaderName::from_static("raven-server-version"), version.clone());
    let has_no_type = !headers.contains_key(header::CONTENT_TYPE);
    if has_no_type && !is_bare {
        let json = HeaderValue::from_static(header_names::JSON_CONTENT_TYPE);
        headers.insert(header::CONTENT_TYPE, json);
    }
    response
}
