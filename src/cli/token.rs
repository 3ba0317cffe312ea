//! `linger token`: makes a token for a client and the entry for the server's file of tokens, or the entry of a token that a client
//! has already; lists and removes entries.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    exit::{Exit, Failure},
    help,
    output::{FormArgs, Output, print, print_error, print_to_stderr, usage_error},
    text::table,
};
use crate::{
    auth::{self, Caller, Scope},
    job::TopicPattern,
};

/// Longer than any token that fits into a header.
const MAX_TOKEN_BYTES: u64 = 16 * 1024;

/// The commands of `linger token`.
#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Make a token: prints its entry for the tokens file on stdout, and the token on stderr
    #[command(after_help = help::TOKEN_NEW)]
    New(NewTokenArgs),
    /// Make the entry of a token that a client has from another server; reads the token from stdin
    #[command(after_help = help::TOKEN_HASH)]
    Hash(HashTokenArgs),
    /// List the tokens of a file by name, with what each allows
    #[command(alias = "ls")]
    List(ListTokensArgs),
    /// Remove the entries of a name from a file of tokens
    #[command(aliases = ["revoke", "rm", "delete"])]
    Remove(RemoveTokenArgs),
}

/// What the entry of a token says.
#[derive(Debug, Args)]
pub(super) struct EntryArgs {
    /// Name of the client; shown in the log and in the histories of jobs [default without --append: unnamed]
    #[arg(long)]
    name: Option<String>,
    /// What it allows: add, work, read, admin (which allows the other three too); may be repeated
    #[arg(long = "scope", required = true, value_name = "SCOPE", value_delimiter = ',', value_parser = parse_scope)]
    scopes: Vec<Scope>,
    /// For which topics: a name, or a prefix followed by *; may be repeated [default: all]
    #[arg(long = "topic", value_name = "TOPIC", value_parser = TopicPattern::parse)]
    topics: Vec<TopicPattern>,
}

impl EntryArgs {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("unnamed")
    }

    /// The entry of a token, or what is wrong with the name.
    fn of_token(&self, token: &str) -> Result<String, &'static str> {
        let entry = auth::token_entry(self.name(), token, &self.scopes, &self.topics);
        let is_valid = auth::parse_tokens(&entry).is_ok();
        is_valid.then_some(entry).ok_or("--name must be 1 to 64 printable ASCII characters")
    }
}

/// Arguments of `linger token new`.
#[derive(Debug, Args)]
pub(super) struct NewTokenArgs {
    #[command(flatten)]
    entry: EntryArgs,
    /// Append the entry to this file, which is made if it is missing, and print the token on stdout
    #[arg(long, value_name = "FILE", requires = "name")]
    append: Option<PathBuf>,
}

/// Arguments of `linger token hash`.
#[derive(Debug, Args)]
pub(super) struct HashTokenArgs {
    #[command(flatten)]
    entry: EntryArgs,
    /// Append the entry to this file, which is made if it is missing
    #[arg(long, value_name = "FILE", requires = "name")]
    append: Option<PathBuf>,
}

/// Arguments of `linger token list`.
#[derive(Debug, Args)]
pub(super) struct ListTokensArgs {
    /// The file of tokens
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    form: FormArgs,
}

/// Arguments of `linger token remove`.
#[derive(Debug, Args)]
pub(super) struct RemoveTokenArgs {
    /// Name of the client
    name: String,
    /// The file of tokens
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

fn parse_scope(text: &str) -> Result<Scope, String> {
    Scope::parse(text).ok_or_else(|| "must be add, work, read or admin".to_owned())
}

/// Runs the command.
pub(super) fn run(command: &TokenCommand) -> ExitCode {
    match command {
        TokenCommand::New(arguments) => new(arguments),
        TokenCommand::Hash(arguments) => hash(arguments),
        TokenCommand::List(ListTokensArgs { file, form }) => {
            let output = Output::new("token list", *form);
            let listed = list(&output, file);
            listed.map_or_else(|failure| output.fail(&failure), |()| Exit::Done).into()
        }
        TokenCommand::Remove(RemoveTokenArgs { name, file }) => match remove(name, file) {
            Ok(done) => print(&done),
            Err(problem) => {
                print_error(&format_args!("{}: {problem}", file.display()));
                ExitCode::FAILURE
            }
        },
    }
}

/// Makes a token. Its entry goes to stdout and the token to stderr, so that a redirected stdout is a file of tokens; with
/// `--append` the entry goes to that file and the token to stdout.
fn new(arguments: &NewTokenArgs) -> ExitCode {
    let token = auth::generate_token();
    let entry = match arguments.entry.of_token(&token) {
        Ok(entry) => entry,
        Err(problem) => return usage_error(&problem),
    };
    let Some(file) = &arguments.append else {
        print_to_stderr(&format!(
            "The token, for the client. It is shown once and stored nowhere:\n\n    {token}\n\n\
             Add its entry, on stdout, to the file that auth.tokens_file names. Then send the server SIGHUP.\n"
        ));
        return print(&entry);
    };
    if let Err(problem) = append(file, arguments.entry.name(), &entry) {
        print_error(&format_args!("{}: {problem}", file.display()));
        return ExitCode::FAILURE;
    }
    print_to_stderr(&format!("Its entry is in {}. Then send the server SIGHUP.\n", file.display()));
    print(&format!("{token}\n"))
}

/// Makes the entry of a token from stdin: as an argument, every user of the machine could read it.
fn hash(arguments: &HashTokenArgs) -> ExitCode {
    let token = match read_token(&mut io::stdin().lock()) {
        Ok(token) => token,
        Err(problem) => return usage_error(&format!("stdin {problem}")),
    };
    let entry = match arguments.entry.of_token(&token) {
        Ok(entry) => entry,
        Err(problem) => return usage_error(&problem),
    };
    let Some(file) = &arguments.append else { return print(&entry) };
    if let Err(problem) = append(file, arguments.entry.name(), &entry) {
        print_error(&format_args!("{}: {problem}", file.display()));
        return ExitCode::FAILURE;
    }
    print_to_stderr(&format!("Its entry is in {}. Then send the server SIGHUP.\n", file.display()));
    ExitCode::SUCCESS
}

/// The token in the only line. The error ends a sentence.
fn read_token(from: &mut impl io::Read) -> Result<String, String> {
    let mut text = String::new();
    let read = from.take(MAX_TOKEN_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    let token = text.trim_ascii();
    if text.len() as u64 > MAX_TOKEN_BYTES {
        return Err(format!("is longer than a token may be, {MAX_TOKEN_BYTES} bytes"));
    }
    if token.is_empty() || token.contains(|c: char| c.is_ascii_control()) {
        return Err("must have the token alone, in one line".to_owned());
    }
    if token.contains(':') {
        return Err("must have the token without the prefix of a pool, such as default:".to_owned());
    }
    Ok(token.to_owned())
}

/// Lists the tokens of a file, without their hashes.
fn list(output: &Output, file: &Path) -> Result<(), Failure> {
    let unusable = |why: String| Failure::usage(format!("{}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| unusable(error.to_string()))?;
    let callers = auth::list_tokens(&text).map_err(unusable)?;
    let mut rows = vec![["NAME", "SCOPES", "TOPICS"].map(str::to_owned).to_vec()];
    for caller in &callers {
        let scopes: Vec<_> = caller.scopes().iter().map(ToString::to_string).collect();
        let topics = caller.topics.patterns();
        let topics: Option<Vec<_>> = topics.map(|topics| topics.iter().map(ToString::to_string).collect());
        if !output.is_text() {
            let entry = json!({ "name": &*caller.name, "scopes": scopes, "topics": topics });
            output.print(String::new, &entry.to_string())?;
        }
        let topics = topics.map_or("all".to_owned(), |topics| topics.join(","));
        rows.push(vec![caller.name.to_string(), scopes.join(","), topics]);
    }
    if output.is_text() { output.print(|| table(&rows), "") } else { Ok(()) }
}

/// Removes the entries of a name. The file stays the same one, for a container mounts it by its identity, and its owner and
/// rights must not change.
fn remove(name: &str, file: &Path) -> Result<String, String> {
    let before = fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    let (after, count) = auth::without_token(&before, name)?;
    // One write, after which the file is valid already, so that a server that reads it meanwhile sees the entries or none.
    let mut bytes = after.clone().into_bytes();
    bytes.resize(before.len(), b'\n');
    let written = OpenOptions::new().write(true).open(file).and_then(|opened| {
        opened.write_all_at(&bytes, 0)?;
        opened.set_len(after.len() as u64)?;
        opened.sync_all()
    });
    written.map_err(|error| format!("cannot be written: {error}"))?;
    let removed = if count == 1 { "1 token".to_owned() } else { format!("{count} tokens") };
    Ok(format!(
        "{}: {removed} of {name} removed; a server refuses it once it has had SIGHUP\n",
        file.display()
    ))
}

/// Appends an entry to a file of tokens, which is created if it is missing. An invalid file stays unchanged, and so does one
/// that has the name: the log and the histories of jobs could not tell two clients of one name apart.
fn append(file: &Path, name: &str, entry: &str) -> Result<(), String> {
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let has_name = |callers: Vec<Caller>| callers.iter().any(|caller| *caller.name == *name);
    if auth::list_tokens(&before).is_ok_and(has_name) {
        return Err(format!("has a token named {name:?} already; `linger token remove` removes it"));
    }
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
