//! bare: axum answering every GET with the bytes of one file and every PUT, once its body is read,
//! with those of another. Attachments are stored in plain files, synced, and returned by GET. The
//! driver compares Corvus with it, to see what a database adds to its HTTP framework, and how much
//! of a figure is the machine's limit.

#![forbid(unsafe_code)]

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract,
    http::{HeaderName, StatusCode, header},
    routing::get,
    serve::ListenerExt,
};
use futures_util::stream;
use http_body_util::BodyExt;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// The size of the chunks in which a file is sent.
const PIECE_BYTES: usize = 256 << 10;

const CONTENT_TYPE: (HeaderName, &str) = (header::CONTENT_TYPE, "application/json; charset=utf-8");
const ETAG: (HeaderName, &str) = (header::ETAG, "\"A:100000-0000000000000000000000\"");

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut paths = env::args_os().skip(1);
    let (Some(document), Some(stored), Some(directory)) =
        (paths.next(), paths.next(), paths.next())
    else {
        eprintln!("usage: bare FILE_FOR_GET FILE_FOR_PUT DIRECTORY");
        std::process::exit(2);
    };
    let document = Bytes::from(fs::read(document)?);
    let stored = Bytes::from(fs::read(stored)?);
    let on_get = move || {
        let body = document.clone();
        async move { ([CONTENT_TYPE, ETAG], body) }
    };
    let on_put = move |_read_and_dropped: Bytes| {
        let body = stored.clone();
        async move { (StatusCode::CREATED, [CONTENT_TYPE], body) }
    };
    let directory = PathBuf::from(directory);
    fs::create_dir_all(&directory)?;
    let (to, from) = (directory.clone(), directory);
    let on_file_put = move |query: extract::RawQuery, body: Body| async move {
        match store(&to.join(file_name(query)), body).await {
            Ok(()) => StatusCode::CREATED,
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    };
    let on_file_get = move |query: extract::RawQuery| async move {
        File::open(from.join(file_name(query))).await.map(send).map_err(|_| StatusCode::NOT_FOUND)
    };
    let files = get(on_file_get).put(on_file_put).layer(extract::DefaultBodyLimit::disable());
    let app = Router::new()
        .route("/databases/{database}/attachments", files)
        .fallback(get(on_get).put(on_put));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("Server available on: http://{}", listener.local_addr()?);
    // Otherwise the end of a file waits for the acknowledgement of the data before it.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, app).await
}

/// The path of an attachment, from the query string that names it.
fn file_name(extract::RawQuery(query): extract::RawQuery) -> String {
    let query = query.unwrap_or_default();
    query.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '_' }).collect()
}

/// Writes a body to a file as it arrives, and syncs the file.
async fn store(path: &Path, mut body: Body) -> io::Result<()> {
    let mut file = File::create(path).await?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(io::Error::other)?;
        if let Some(piece) = frame.data_ref() {
            file.write_all(piece).await?;
        }
    }
    file.flush().await?;
    file.sync_data().await
}

fn send(file: File) -> Body {
    Body::from_stream(stream::unfold(file, |mut file| async move {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        match (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(Bytes::from(piece)), file)),
            Err(error) => Some((Err(error), file)),
        }
    }))
}
