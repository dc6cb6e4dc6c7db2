//! bare: axum answering every GET with the bytes of one file and every PUT, once its body is read,
//! with those of another. The driver compares Corvus with it, to see what a database adds to its HTTP
//! framework, and what of a figure is the machine's limit.

#![forbid(unsafe_code)]

use std::{env, fs, io};

use axum::{
    Router,
    body::Bytes,
    http::{HeaderName, StatusCode, header},
    routing::get,
};
use tokio::net::TcpListener;

const CONTENT_TYPE: (HeaderName, &str) = (header::CONTENT_TYPE, "application/json; charset=utf-8");
const ETAG: (HeaderName, &str) = (header::ETAG, "\"A:100000-0000000000000000000000\"");

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut paths = env::args_os().skip(1);
    let (Some(document), Some(stored)) = (paths.next(), paths.next()) else {
        eprintln!("usage: bare FILE_FOR_GET FILE_FOR_PUT");
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
    let app = Router::new().fallback(get(on_get).put(on_put));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("Server available on: http://{}", listener.local_addr()?);
    axum::serve(listener, app).await
}
