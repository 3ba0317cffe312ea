//! The dialect of lmstfy: the real program on both engines, called as its clients call, byte for byte.

mod calls;
mod dead_letters;
mod frame;
mod neighbors;
mod refusals;
mod tokens;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::harness::dialect::{Answer, Dialect, DialectSite, Engine, on_each_engine};

/// The dialect.
struct Lmstfy;

impl Dialect for Lmstfy {
    const LISTEN: &str = "LINGER__COMPAT__LMSTFY__LISTEN";
    const LISTENING: &str = "listening for clients of lmstfy";
}

/// Any token: without a file of tokens each is accepted.
const TOKEN: &str = "X-Token: 01HXTEST\r\n";

/// A server that speaks the dialect on a port of its own.
type Site = DialectSite<Lmstfy>;

impl Site {
    /// Calls the dialect with a token. `path` is behind `/api/`.
    #[track_caller]
    fn call(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.send(method, &format!("/api/{path}"), TOKEN, body)
    }

    /// As [`call`](Self::call), with an answer of this status.
    #[track_caller]
    fn expect(&self, status: u16, method: &str, path: &str, body: impl AsRef<[u8]>) -> String {
        let answer = self.call(method, path, body);
        assert_eq!(answer.status(), status, "{method} {path}: {answer:?}");
        answer.body
    }

    /// Publishes a job. Returns its id.
    #[track_caller]
    fn publish(&self, path: &str, body: impl AsRef<[u8]>) -> String {
        let published = self.expect(201, "PUT", path, body);
        let parsed: Value = serde_json::from_str(&published).expect("is JSON");
        let id = parsed["job_id"].as_str().expect("has an id").to_owned();
        assert_eq!(published, format!(r#"{{"job_id":"{id}","msg":"published"}}"#));
        id
    }

    /// Consumes a job.
    #[track_caller]
    fn consume(&self, path: &str) -> Value {
        serde_json::from_str(&self.expect(200, "GET", path, "")).expect("is JSON")
    }

    #[track_caller]
    fn size(&self, path: &str) -> u64 {
        let size: Value = serde_json::from_str(&self.expect(200, "GET", path, "")).expect("is JSON");
        size["size"].as_u64().expect("is a number")
    }
}

/// What a job's `data` stands for.
fn payload(job: &Value) -> Vec<u8> {
    STANDARD.decode(job["data"].as_str().expect("is text")).expect("is Base64")
}

/// An answer with an error.
fn error(text: &str) -> String {
    format!(r#"{{"error":"{text}"}}"#)
}
