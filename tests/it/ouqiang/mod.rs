//! The dialect of ouqiang/delay-queue: the real program on both engines, called as the old clients call, byte for byte.
//!
//! Delays and TTRs are whole seconds there, so that a pop waits for its job for about a second.

mod calls;
mod frame;
mod neighbors;
mod refusals;

use std::net::SocketAddr;

use crate::harness::{
    dialect::{Dialect, DialectSite, Engine, address_of as address_in_log, on_each_engine},
    process::Server,
};

/// What the log says when the dialect listens.
const LISTENING: &str = "listening for clients of ouqiang/delay-queue";

/// The answer to a call that succeeded and has no data.
const DONE: &str = r#"{"code":0,"message":"操作成功","data":null}"#;
/// The answer to a push that succeeded.
const ADDED: &str = r#"{"code":0,"message":"添加成功","data":null}"#;

/// The dialect.
struct Ouqiang;

impl Dialect for Ouqiang {
    const LISTEN: &str = "LINGER__COMPAT__OUQIANG__LISTEN";
    const LISTENING: &str = LISTENING;
}

/// The address at which a server speaks the dialect, once it does.
#[track_caller]
pub fn address_of(server: &Server) -> SocketAddr {
    address_in_log(server, LISTENING)
}

/// A server that speaks the dialect on a port of its own.
type Site = DialectSite<Ouqiang>;

impl Site {
    /// Calls the dialect; the answer must have the status 200.
    #[track_caller]
    fn call(&self, path: &str, body: impl AsRef<[u8]>) -> String {
        let answer = self.send("POST", path, "", body);
        assert!(answer.head.starts_with("HTTP/1.1 200 "), "{answer:?}");
        answer.body
    }

    /// Pushes a job of `topic` that is due in a second and has this TTR in seconds.
    #[track_caller]
    fn push(&self, topic: &str, id: &str, ttr: u32, body: &str) {
        let job = serde_json::json!({"topic": topic, "id": id, "delay": 1, "ttr": ttr, "body": body});
        assert_eq!(self.call("/push", job.to_string()), ADDED);
    }

    /// Pops a job of these topics; waits for it.
    #[track_caller]
    fn pop(&self, topics: &str) -> serde_json::Value {
        let answer = self.call("/pop", serde_json::json!({"topic": topics}).to_string());
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("is JSON");
        assert_eq!((&answer["code"], &answer["message"]), (&0.into(), &"操作成功".into()), "{answer}");
        answer["data"].clone()
    }
}

/// An answer with the code 1.
fn refusal(message: &str) -> String {
    format!(r#"{{"code":1,"message":"{message}","data":null}}"#)
}
