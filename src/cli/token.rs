//! `linger token new`: makes a token for a client, and the entry for the server's file of tokens.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::ExitCode,
};

use super::{
    args::NewTokenArgs,
    output::{print, print_error, print_to_stderr, usage_error},
};
use crate::auth;

/// Makes a token. Its entry goes to stdout and the token to stderr, so that a redirected stdout is a file of tokens; with
/// `--append` the entry goes to that file and the token to stdout.
pub(super) fn new(arguments: &NewTokenArgs) -> ExitCode {
    let token = auth::generate_token();
    let entry = auth::token_entry(&arguments.name, &token, &arguments.scopes, &arguments.topics);
    if auth::parse_tokens(&entry).is_err() {
        return usage_error(&"--name must be 1 to 64 printable ASCII characters");
    }
    let Some(file) = &arguments.append else {
        print_to_stderr(&format!(
            "The token, for the client. It is shown once and stored nowhere:\n\n    {token}\n\n\
             Add its entry, on stdout, to the file that auth.tokens_file names. Then send the server SIGHUP.\n"
        ));
        return print(&entry);
    };
    if let Err(problem) = append(file, &entry) {
        print_error(&format_args!("{}: {problem}", file.display()));
        return ExitCode::FAILURE;
    }
    print_to_stderr(&format!("Its entry is in {}. Then send the server SIGHUP.\n", file.display()));
    print(&format!("{token}\n"))
}

/// Appends an entry to a file of tokens, which is created if it is missing. An invalid file stays unchanged.
fn append(file: &Path, entry: &str) -> Result<(), String> {
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let gap = match before.as_bytes() {
        [] => "",
        [.., b'\n'] => "\n",
        _ => "\n\n",
    };
    auth::parse_tokens(&format!("{before}{gap}{entry}"))?;
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
    // One write, so that a server that reads the file meanwhile sees the whole entry or none of it.
    let written = opened.and_then(|mut opened| {
        opened.write_all(format!("{gap}{entry}").as_bytes())?;
        opened.sync_all()
    });
    written.map_err(|error| format!("cannot be written: {error}"))
}
