//! `linger topic secret`: the secrets that sign the callbacks of a topic.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use linger_client::{Repeat, Request, Timestamp};
use serde::Deserialize;

use super::{
    exit::{Exit, Failure},
    help,
    session::{ChangeArgs, ReadArgs, Session},
};
use crate::files::small_file;

/// The commands of `linger topic secret`.
#[derive(Debug, Subcommand)]
pub(super) enum SecretCommand {
    /// Add a secret and print it; no later call shows it
    #[command(after_help = help::CALLS)]
    Add(AddSecretArgs),
    /// List the secrets without their keys
    #[command(name = "list", visible_alias = "ls", after_help = help::CALLS)]
    List(ListSecretsArgs),
    /// Delete a secret; calls are not signed with it any more
    #[command(aliases = ["rm", "remove"], after_help = help::CALLS)]
    Delete(DeleteSecretArgs),
}

/// Arguments of `linger topic secret add`.
#[derive(Debug, Args)]
pub(super) struct AddSecretArgs {
    /// Name of the topic
    topic: String,
    /// File with the secret, whsec_ and its key in base64 [default: the server chooses one]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Arguments of `linger topic secret list`.
#[derive(Debug, Args)]
pub(super) struct ListSecretsArgs {
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    read: ReadArgs,
}

/// Arguments of `linger topic secret delete`.
#[derive(Debug, Args)]
pub(super) struct DeleteSecretArgs {
    /// Name of the topic
    topic: String,
    /// Id of the secret
    id: String,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Deserialize)]
struct TopicSecret {
    id: String,
    created_at: Timestamp,
    /// Only in the answer to an add.
    secret: Option<String>,
}

/// Runs a command of `linger topic secret`.
pub(super) fn run(command: &SecretCommand) -> ExitCode {
    match command {
        SecretCommand::Add(arguments) => {
            arguments.change.run("topic secret add", async |session| add(session, arguments).await)
        }
        SecretCommand::List(ListSecretsArgs { topic, read }) => {
            read.run("topic secret list", async |session| {
                #[derive(Deserialize)]
                struct Secrets {
                    secrets: Vec<TopicSecret>,
                }
                let response = session.call(&Request::secrets(topic)).await?;
                session.print(&response, |Secrets { secrets }| {
                    let line = |secret: &TopicSecret| {
                        format!("{}  added {}", secret.id, session.wording().distance(secret.created_at))
                    };
                    match secrets.is_empty() {
                        true => "the calls of this topic are not signed".to_owned(),
                        false => secrets.iter().map(line).collect::<Vec<_>>().join("\n"),
                    }
                })?;
                Ok(Exit::Done)
            })
        }
        SecretCommand::Delete(DeleteSecretArgs { topic, id, change }) => {
            change.run("topic secret delete", async |session| {
                session.confirm_change(&format!("delete the secret {id} of {topic}"))?;
                let response = session.call(&Request::delete_secret(topic, id)).await?;
                session.print_done(response, id, "deleted").map(|()| Exit::Done)
            })
        }
    }
}

fn read_secret(path: &Path) -> Result<String, Failure> {
    let text = small_file::read_text(path);
    let text =
        text.map_err(|error| Failure::new(Exit::Usage, format!("cannot read {}: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}

async fn add(session: &Session, AddSecretArgs { topic, file, .. }: &AddSecretArgs) -> Result<Exit, Failure> {
    let own = match file {
        Some(path) => Some(read_secret(path)?),
        None => None,
    };
    session.confirm_change(&format!("add a secret to {topic}"))?;
    let request = Request::add_secret(topic, own.as_deref());
    // A repeat would make the server choose another one.
    let request = if own.is_some() { request } else { request.repeat(Repeat::IfNotSent) };
    let response = session.call(&request).await?;
    session.print(&response, |secret: TopicSecret| {
        let key = secret.secret.unwrap_or_default();
        format!("{}  {key}\n  No later call shows it: give it to the receiver of the calls.", secret.id)
    })?;
    Ok(Exit::Done)
}
