//! Tokens: every route with every scope (`table`), jobs of other topics (`topics`), and the program with a file of
//! tokens (`program`).

mod program;
mod table;
mod topics;

use std::sync::Arc;

use linger::auth::{Authenticator, Scope, parse_tokens, token_entry};
use linger::job::TopicPattern;

use crate::harness::{
    api::{Api, Call, Setup},
    stores::Engine,
};

/// A server with these tokens. Each token is its own name, followed by its scopes and topics.
pub async fn api_with_tokens(engine: Engine, tokens: &[(&str, &[Scope], &[&str])]) -> Api {
    let entries = tokens.iter().map(|(token, scopes, topics)| {
        let topics: Vec<_> = topics.iter().map(|t| TopicPattern::parse(t).expect("a pattern")).collect();
        token_entry(token, token, scopes, &topics)
    });
    let authenticator =
        Authenticator::with_tokens(parse_tokens(&entries.collect::<String>()).expect("valid entries"));
    Api::with(engine, Setup { auth: Some(Arc::new(authenticator)), ..Setup::default() }).await
}

/// `call` with a token.
pub fn with(call: Call, token: &str) -> Call {
    call.header("authorization", &format!("Bearer {token}"))
}

/// The error for each wrong way to send a token describes the right way, and the challenge names the scheme.
#[tokio::test]
async fn the_error_says_what_is_wrong_with_the_authorization() {
    let api = api_with_tokens(Engine::Naive, &[("secret", &[Scope::Read], &[])]).await;
    let how = "Authorization: Bearer TOKEN";
    for (header, expected, challenge) in [
        (None, how, "Bearer"),
        (Some("secret"), how, "Bearer"),
        (Some("Basic c2VjcmV0"), how, "Bearer"),
        (Some("Token secret"), how, "Bearer"),
        (Some("Bearer"), how, "Bearer"),
        (Some("Bearer wrong"), "this token is not known", "Bearer error=\"invalid_token\""),
    ] {
        let call = api.call("GET", "/version");
        let call = header.into_iter().fold(call, |call, value| call.header("authorization", value));
        let response = call.send().await;
        assert_eq!(response.header("www-authenticate"), challenge, "{header:?}");
        let problem = response.expect_problem(401, "unauthorized");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(expected), "{header:?}: {detail}");
        assert!(!detail.contains("secret"), "{detail}");
        if header.is_some_and(|header| header != "Bearer wrong") {
            assert!(detail.contains("scheme"), "{header:?}: {detail}");
        }
    }
    let twice = api.call("GET", "/version").header("authorization", "Bearer secret");
    let problem =
        twice.header("authorization", "Bearer secret").send().await.expect_problem(401, "unauthorized");
    assert!(problem["detail"].as_str().expect("a detail").contains("once"), "{problem}");
}
