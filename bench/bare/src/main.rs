//! bare: axum answering every GET with the bytes of a file. The driver compares reads with it, to see
//! what Corvus adds to its HTTP framework.

#![forbid(unsafe_code)]

use std::{env, fs, io};

use axum::{Router, body::Bytes, http::header, routing::get};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> io::Result<()> {
    let Some(path) = env::args_os().nth(1) else {
        eprintln!("usage: bare FILE");
        std::process::exit(2);
    };
    let body = Bytes::from(fs::read(path)?);
    let answer = move || {
        let body = body.clone();
        let headers = [
            (header::CONTENT_TYPE, "application/json; charset=utf-8"),
            (header::ETAG, "\"A:100000-0000000000000000000000\""),
        ];
        async move { (headers, body) }
    };
    let app = Router::new().fallback(get(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("Server available on: http://{}", listener.local_addr()?);
    axum::serve(listener, app).await
}
