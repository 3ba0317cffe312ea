//! A server that stores nothing: what HTTP by axum costs by itself. It reads a job and answers with one, as
//! Linger does, and keeps polls waiting.
#![forbid(unsafe_code)]

use std::time::Duration;

use axum::{
    Json, Router,
    http::StatusCode,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct NewJob {
    topic: String,
    id: String,
    delay: f64,
    body: String,
}

#[derive(Serialize)]
struct Job {
    topic: String,
    id: String,
    receipt: &'static str,
    body: String,
}

async fn add(Json(job): Json<NewJob>) -> (StatusCode, Json<Job>) {
    std::hint::black_box(job.delay);
    let NewJob { topic, id, body, .. } = job;
    (StatusCode::CREATED, Json(Job { topic, id, receipt: "0123456789abcdef0123456789abcdef", body }))
}

async fn nothing() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn park() -> StatusCode {
    tokio::time::sleep(Duration::from_secs(600)).await;
    StatusCode::NO_CONTENT
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let routes = Router::new()
        .route("/jobs", post(add))
        .route("/topics/{topic}/pop", get(nothing))
        .route("/topics/{topic}/held", get(park));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    use axum::serve::ListenerExt;
    axum::serve(listener.tap_io(|stream| drop(stream.set_nodelay(true))), routes).await
}
