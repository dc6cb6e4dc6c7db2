//! Requests to buckets, for the engine: the protocol of S3 is the library's, connections are made as all others to other
//! servers ([`super::outbound`]).

use std::{
    error::Error as _,
    io::{self, Read},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use engine::{CloudError, CloudObject, CloudStorage, StillWantedThere};
use futures_util::StreamExt;
use http::{HeaderValue, Uri, header};
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use object_store::{
    ClientOptions, MultipartUpload, ObjectStoreExt, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
        HttpResponse, HttpResponseBody, HttpService,
    },
    path::Path,
};
use tokio::{runtime::Handle, time::timeout};
use wire::{NodeAddress, S3Settings};

use super::outbound::HttpOutbound;

/// A part of an object that is stored in parts; at least 5 MB, as the protocol demands.
const PART_BYTES: u64 = 8 << 20;
/// Parts of an object: the protocol allows 10,000.
const PARTS_MAX: u64 = 9_000;
/// How long something is tried again that fails.
const RETRY_TIME_MAX: Duration = Duration::from_secs(60);
const RETRIES_MAX: usize = 5;
/// How long a request may take; the body of its answer is another matter.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(120);
/// How long nothing may arrive of a body.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How often it is asked whether what is waited for is still wanted.
const WANTED_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Causes of an error that are named.
const CAUSES_MAX: usize = 6;

/// See the module.
pub(crate) struct HttpCloudStorage {
    runtime: Handle,
    outbound: Arc<HttpOutbound>,
}

impl CloudStorage for HttpCloudStorage {
    fn upload(
        &self,
        bucket: &S3Settings,
        key: &str,
        (file, bytes): (&mut dyn Read, u64),
        is_wanted: StillWantedThere<'_>,
    ) -> Result<(), CloudError> {
        let (store, path) = (self.store(bucket)?, path_of(key)?);
        if bytes <= PART_BYTES {
            let whole = next_part(file, PART_BYTES)?;
            self.run(store.put(&path, whole.into()), is_wanted)?;
        } else {
            let mut upload = self.run(store.put_multipart(&path), is_wanted)?;
            let part_bytes = PART_BYTES.max(bytes.div_ceil(PARTS_MAX));
            let sent = self.send_parts(&mut *upload, file, part_bytes, is_wanted);
            if let Err(error) = sent {
                // What is left of it costs money there, and is no object.
                drop(self.run(upload.abort(), &|| true));
                return Err(error);
            }
        }
        let found = self.run(store.head(&path), is_wanted)?.size;
        match found == bytes {
            true => Ok(()),
            false => Err(failed(format!("{key} has {found} bytes there, and should have {bytes}"))),
        }
    }

    fn list(
        &self,
        bucket: &S3Settings,
        folder: &str,
        take: &mut dyn FnMut(CloudObject) -> bool,
        is_wanted: StillWantedThere<'_>,
    ) -> Result<(), CloudError> {
        let store = self.store(bucket)?;
        let prefix = (!folder.is_empty()).then(|| path_of(folder)).transpose()?;
        let mut listed = object_store::ObjectStore::list(&store, prefix.as_ref());
        loop {
            let next = async { listed.next().await.transpose() };
            let Some(found) = self.run(next, is_wanted)? else { return Ok(()) };
            if !take(CloudObject { key: found.location.to_string(), bytes: found.size }) {
                return Ok(());
            }
        }
    }

    fn download(
        &self,
        bucket: &S3Settings,
        key: &str,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
        is_wanted: StillWantedThere<'_>,
    ) -> Result<(), CloudError> {
        let store = self.store(bucket)?;
        let path = path_of(key)?;
        let found = self.run(store.get(&path), is_wanted)?;
        let (bytes, mut pieces) = (found.meta.size, found.into_stream());
        let mut read = 0;
        loop {
            let next = async { pieces.next().await.transpose() };
            let Some(piece) = self.run(next, is_wanted)? else { break };
            read += piece.len() as u64;
            take(&piece)
                .map_err(|error| failed(format!("{key} cannot be stored here: {error}")))?;
        }
        match read == bytes {
            true => Ok(()),
            false => Err(failed(format!("of {key}, {read} bytes of {bytes} arrived"))),
        }
    }

    fn delete(
        &self,
        bucket: &S3Settings,
        key: &str,
        is_wanted: StillWantedThere<'_>,
    ) -> Result<(), CloudError> {
        let (store, path) = (self.store(bucket)?, path_of(key)?);
        self.run(store.delete(&path), is_wanted)
    }
}

impl HttpCloudStorage {
    /// Requests run on the runtime of the caller.
    pub(crate) fn new(outbound: Arc<HttpOutbound>) -> HttpCloudStorage {
        HttpCloudStorage { runtime: Handle::current(), outbound }
    }

    fn store(&self, bucket: &S3Settings) -> Result<AmazonS3, CloudError> {
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&bucket.bucket)
            .with_region(&bucket.region)
            .with_access_key_id(&bucket.access_key)
            .with_secret_access_key(&bucket.secret_key.0)
            .with_virtual_hosted_style_request(!bucket.names_bucket_in_path)
            .with_client_options(ClientOptions::new())
            .with_retry(RetryConfig {
                max_retries: RETRIES_MAX,
                retry_timeout: RETRY_TIME_MAX,
                ..RetryConfig::default()
            })
            .with_http_connector(Connector { outbound: Arc::clone(&self.outbound) });
        if let Some(token) = &bucket.session_token {
            builder = builder.with_token(&token.0);
        }
        if let Some(server) = &bucket.server_url {
            builder =
                builder.with_endpoint(server.to_string()).with_allow_http(!server.is_encrypted());
        }
        builder.build().map_err(|error| failed(reasons(&error)))
    }

    fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        file: &mut dyn Read,
        part_bytes: u64,
        is_wanted: StillWantedThere<'_>,
    ) -> Result<(), CloudError> {
        loop {
            let part = next_part(file, part_bytes)?;
            if part.is_empty() {
                break;
            }
            self.run(upload.put_part(part.into()), is_wanted)?;
        }
        self.run(upload.complete(), is_wanted).map(drop)
    }

    /// Waits for something, for as long as it is wanted.
    fn run<T>(
        &self,
        work: impl Future<Output = object_store::Result<T>>,
        is_wanted: StillWantedThere<'_>,
    ) -> Result<T, CloudError> {
        let waiting = async {
            let mut work = std::pin::pin!(work);
            loop {
                match timeout(WANTED_CHECK_INTERVAL, &mut work).await {
                    Ok(done) => return done.map_err(|error| failed(reasons(&error))),
                    Err(_) if !is_wanted() => return Err(CloudError::Canceled),
                    Err(_) => {}
                }
            }
        };
        // A runtime that ends meanwhile panics.
        let done = catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(waiting)));
        done.unwrap_or_else(|_| Err(failed("the server is stopping".to_owned())))
    }
}

/// A key as it is: others than this server may have written below it.
fn path_of(key: &str) -> Result<Path, CloudError> {
    Path::parse(key)
        .map_err(|error| failed(format!("'{key}' cannot be the key of an object: {error}")))
}

fn next_part(file: &mut dyn Read, bytes_max: u64) -> Result<Vec<u8>, CloudError> {
    let mut part = Vec::new();
    let read = file.take(bytes_max).read_to_end(&mut part);
    read.map_err(|error| failed(format!("the backup cannot be read: {error}")))?;
    Ok(part)
}

fn failed(message: String) -> CloudError {
    CloudError::Failed { message }
}

/// An error with its causes. The library does not name credentials in them.
fn reasons(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(found) = cause else { break };
        let more = found.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = found.source();
    }
    text
}

/// Makes the connections of a store.
struct Connector {
    outbound: Arc<HttpOutbound>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Connector { outbound: Arc::clone(&self.outbound) }))
    }
}

type Answering<'s> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 's>>;

impl HttpService for Connector {
    fn call<'s, 'f>(&'s self, request: HttpRequest) -> Answering<'f>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let error = |kind, text: String| HttpError::new(kind, io::Error::other(text));
            match timeout(REQUEST_TIME_MAX, self.exchange(request)).await {
                Ok(answered) => answered.map_err(|(kind, text)| error(kind, text)),
                Err(_) => {
                    let seconds = REQUEST_TIME_MAX.as_secs();
                    let text = format!("there was no answer within {seconds} seconds");
                    Err(error(HttpErrorKind::Timeout, text))
                }
            }
        })
    }
}

impl Connector {
    async fn exchange(
        &self,
        mut request: HttpRequest,
    ) -> Result<HttpResponse, (HttpErrorKind, String)> {
        let unusable = |text: String| (HttpErrorKind::Unknown, text);
        let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let scheme = request.uri().scheme_str().unwrap_or("https");
        let server: NodeAddress = format!("{scheme}://{authority}")
            .parse()
            .map_err(|error| unusable(format!("{authority}: {error}")))?;
        let host = HeaderValue::from_str(&authority);
        let host = host.map_err(|error| unusable(format!("{authority}: {error}")))?;
        request.headers_mut().insert(header::HOST, host);
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let path: Result<Uri, _> = path.parse();
        *request.uri_mut() = path.map_err(|error| unusable(error.to_string()))?;
        let connected = self.outbound.connect_to::<HttpRequestBody>(&server).await;
        let mut sender =
            connected.map_err(|reason| (HttpErrorKind::Connect, format!("{server}: {reason}")))?;
        let answered = sender.send_request(request).await;
        let answered = answered.map_err(|error| {
            (HttpErrorKind::Request, format!("{server}: the connection broke: {error}"))
        })?;
        Ok(answered.map(|body| {
            HttpResponseBody::new(ArrivingBody { body, silence: None, _sender: sender })
        }))
    }
}

/// The body of an answer, which fails when nothing of it arrives.
struct ArrivingBody {
    body: Incoming,
    silence: Option<Pin<Box<tokio::time::Sleep>>>,
    /// The connection lives as long as it.
    _sender: SendRequest<HttpRequestBody>,
}

impl Body for ArrivingBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let broken = |error: io::Error| HttpError::new(HttpErrorKind::Interrupted, error);
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                self.silence = None;
                Poll::Ready(
                    frame.map(|frame| frame.map_err(|error| broken(io::Error::other(error)))),
                )
            }
            Poll::Pending => {
                let silence =
                    self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(SILENCE_MAX)));
                match silence.as_mut().poll(context) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => {
                        Poll::Ready(Some(Err(broken(io::ErrorKind::TimedOut.into()))))
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
