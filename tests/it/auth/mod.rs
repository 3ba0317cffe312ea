//! Tokens: every route against every scope (`table`), jobs of other topics (`topics`), and the real
//! program with a file of tokens (`program`).

mod program;
mod table;
mod topics;

use std::sync::Arc;

use linger::auth::{Gate, Scope, entry, parse};
use linger::job::TopicPattern;

use crate::harness::{
    api::{Api, Call, Setup},
    stores::Engine,
};

/// A server that knows these tokens: each is its own name, with scopes and topics as written.
async fn guarded(engine: Engine, tokens: &[(&str, &[Scope], &[&str])]) -> Api {
    let entries = tokens.iter().map(|(token, scopes, topics)| {
        let topics: Vec<_> = topics.iter().map(|t| TopicPattern::parse(t).expect("a pattern")).collect();
        entry(token, token, scopes, &topics)
    });
    let gate = Gate::guarded(parse(&entries.collect::<String>()).expect("valid entries"));
    Api::with(engine, Setup { gate: Some(Arc::new(gate)), ..Setup::default() }).await
}

/// `call` with a token.
fn with(call: Call, token: &str) -> Call {
    call.header("authorization", &format!("Bearer {token}"))
}
