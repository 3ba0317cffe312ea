//! `linger token new`: a token for a client, and the entry by which the server knows it.

use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::ExitCode,
};

use super::{WRONG, args::NewTokenArgs, complain, print, remark};
use crate::auth;

/// Makes a token. Its entry goes to stdout and the token to stderr, so that a redirected stdout is a file of tokens; with
/// `--append` the entry goes to that file and the token to stdout.
pub(super) fn new(arguments: &NewTokenArgs) -> ExitCode {
    let token = auth::generate();
    let entry = auth::entry(&arguments.name, &token, &arguments.scopes, &arguments.topics);
    if auth::parse(&entry).is_err() {
        complain(&"--name must be 1 to 64 printable ASCII characters");
        return ExitCode::from(WRONG);
    }
    let Some(file) = &arguments.append else {
        remark(&format!(
            "The token, for the client. It is shown once and stored nowhere:\n\n    {token}\n\n\
             Its entry, on stdout, is for the file that auth.tokens_file names. Then send the server SIGHUP.\n"
        ));
        return print(&entry);
    };
    if let Err(problem) = append(file, &entry) {
        complain(&format_args!("{}: {problem}", file.display()));
        return ExitCode::FAILURE;
    }
    remark(&format!("Its entry is in {}. Then send the server SIGHUP.\n", file.display()));
    print(&format!("{token}\n"))
}

/// Adds an entry to the end of a file of tokens, which is made if it is missing. A file that cannot be used stays as it
/// is.
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
    auth::parse(&format!("{before}{gap}{entry}"))?;
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file);
    // One write, so that a server that reads the file meanwhile meets the whole entry or none of it.
    let written = opened.and_then(|mut opened| {
        opened.write_all(format!("{gap}{entry}").as_bytes())?;
        opened.sync_all()
    });
    written.map_err(|error| format!("cannot be written: {error}"))
}
