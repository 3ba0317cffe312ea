//! `linger token new`: a token for a client, and the entry by which the server knows it.

use std::process::ExitCode;

use super::{WRONG, complain, print};
use crate::{
    auth::{self, Scope},
    job::TopicPattern,
};

/// Makes a token and prints it with its entry. The two stand apart, and what is printed as a whole is no
/// TOML, so that the token does not end up in the server's file by mistake.
pub(super) fn new(name: &str, scopes: &[Scope], topics: &[TopicPattern]) -> ExitCode {
    let token = auth::generate();
    let entry = auth::entry(name, &token, scopes, topics);
    if auth::parse(&entry).is_err() {
        complain(&"--name must be 1 to 64 printable ASCII characters");
        return ExitCode::from(WRONG);
    }
    print(&format!(
        "The token, for the client; it is shown this once and kept nowhere:\n\n    {token}\n\n\
         Its entry, for the file that auth.tokens_file names; then send SIGHUP to the server:\n\n{entry}"
    ))
}
