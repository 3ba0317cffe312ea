//! `linger profile`: the commands that show and change the file of profiles.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use linger_client::ServerUrl;
use serde_json::{Value, json};

use super::{
    exit::{Exit, Failure},
    output::{FormArgs, Output},
    profiles::{Profile, Profiles},
    text::table,
};

/// The commands of `linger profile`.
#[derive(Debug, Subcommand)]
pub(super) enum ProfileCommand {
    /// List the profiles
    #[command(alias = "ls")]
    List(ListArgs),
    /// Show a profile
    Show(ShowArgs),
    /// Make a profile, or change what is given of it
    #[command(override_usage = "linger profile set <NAME> [OPTIONS]")]
    Set(SetArgs),
    /// Use a profile where no other is named
    Use(NameArgs),
    /// Remove a profile
    #[command(aliases = ["rm", "delete"])]
    Remove(NameArgs),
}

/// Arguments of `linger profile list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    form: FormArgs,
}

/// Arguments of `linger profile show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Name of the profile [default: that of `linger profile use`]
    name: Option<String>,
    #[command(flatten)]
    form: FormArgs,
}

/// Arguments of `linger profile set`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("settings").required(true).multiple(true))]
pub(super) struct SetArgs {
    /// Name of the profile
    name: String,
    /// Server to call, such as https://queue.internal
    #[arg(long, value_name = "URL", group = "settings")]
    url: Option<ServerUrl>,
    /// File that contains the token; an empty name for none
    #[arg(long, value_name = "FILE", group = "settings", conflicts_with = "token_command")]
    token_file: Option<PathBuf>,
    /// Command of the shell that prints the token; an empty one for none
    #[arg(long, value_name = "COMMAND", group = "settings")]
    token_command: Option<String>,
    /// PEM file with the root certificates to trust; an empty name for those of the system
    #[arg(long, value_name = "FILE", group = "settings")]
    ca: Option<PathBuf>,
    /// Whether to ask before any change
    #[arg(long, value_name = "BOOL", group = "settings")]
    confirm: Option<bool>,
    #[command(flatten)]
    form: FormArgs,
}

/// Arguments of `linger profile use` and `linger profile remove`.
#[derive(Debug, Args)]
pub(super) struct NameArgs {
    /// Name of the profile
    name: String,
    #[command(flatten)]
    form: FormArgs,
}

/// Runs the command.
pub(super) fn run(command: &ProfileCommand) -> ExitCode {
    let (name, form) = match command {
        ProfileCommand::List(ListArgs { form }) => ("profile list", form),
        ProfileCommand::Show(ShowArgs { form, .. }) => ("profile show", form),
        ProfileCommand::Set(SetArgs { form, .. }) => ("profile set", form),
        ProfileCommand::Use(NameArgs { form, .. }) => ("profile use", form),
        ProfileCommand::Remove(NameArgs { form, .. }) => ("profile remove", form),
    };
    let output = Output::new(name, *form);
    let ended = Profiles::path().and_then(|path| {
        let profiles = Profiles::read(&path)?;
        match command {
            ProfileCommand::List(_) => list(&output, &profiles),
            ProfileCommand::Show(ShowArgs { name, .. }) => show(&output, &profiles, name.as_deref()),
            ProfileCommand::Set(arguments) => set(&output, profiles, arguments, &path),
            ProfileCommand::Use(NameArgs { name, .. }) => choose(&output, profiles, name, &path),
            ProfileCommand::Remove(NameArgs { name, .. }) => remove(&output, profiles, name, &path),
        }
    });
    let exit = ended.map_or_else(|failure| output.fail(&failure), |()| Exit::Done);
    exit.into()
}

fn list(output: &Output, profiles: &Profiles) -> Result<(), Failure> {
    let is_default = |name: &str| profiles.default.as_deref() == Some(name);
    if !output.is_text() {
        let mut all = profiles.profiles.iter();
        return all.try_for_each(|(name, profile)| {
            output.print(String::new, &json(name, profile, is_default(name)))
        });
    }
    let mut rows = vec![["PROFILE", "URL"].map(str::to_owned).to_vec()];
    rows.extend(profiles.profiles.iter().map(|(name, profile)| {
        let mark = if is_default(name) { " *" } else { "" };
        vec![format!("{name}{mark}"), profile.url.clone()]
    }));
    output.print(|| table(&rows), "")
}

fn show(output: &Output, profiles: &Profiles, name: Option<&str>) -> Result<(), Failure> {
    let name = name.or(profiles.default.as_deref());
    let name = name.ok_or_else(|| Failure::usage("no profile is named, and none is in use"))?;
    print(output, profiles, name)
}

fn print(output: &Output, profiles: &Profiles, name: &str) -> Result<(), Failure> {
    let profile = profiles.named(name)?;
    let is_default = profiles.default.as_deref() == Some(name);
    output.print(|| details(name, profile, is_default), &json(name, profile, is_default))
}

fn details(name: &str, profile: &Profile, is_default: bool) -> String {
    let Profile { url, token_file, token_command, ca, confirm } = profile;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let mut lines = vec![format!("{name}{}", if is_default { "  (in use)" } else { "" })];
    for (key, value) in [
        ("url", Some(url.clone())),
        ("token-file", path(token_file)),
        ("token-command", token_command.clone()),
        ("ca", path(ca)),
        ("confirm", confirm.then(|| "true".to_owned())),
    ] {
        lines.extend(value.map(|value| format!("  {key:<15}{value}")));
    }
    lines.join("\n")
}

/// A profile as JSON: what the file has of it, its name and whether it is in use.
fn json(name: &str, profile: &Profile, is_default: bool) -> String {
    let mut object = json!({ "name": name, "in_use": is_default });
    let Value::Object(members) = &mut object else { unreachable!("the macro made an object") };
    if let Ok(Value::Object(profile)) = serde_json::to_value(profile) {
        members.extend(profile);
    }
    object.to_string()
}

fn set(output: &Output, mut profiles: Profiles, arguments: &SetArgs, path: &Path) -> Result<(), Failure> {
    let SetArgs { name, url, token_file, token_command, ca, confirm, .. } = arguments;
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || !name.chars().all(is_legal) {
        return Err(Failure::usage(format!("the name {name:?} must consist of A-Z a-z 0-9 . _ -")));
    }
    if url.is_none() && !profiles.profiles.contains_key(name) {
        return Err(Failure::usage(format!("profile {name} is new and needs --url")));
    }
    let profile = profiles.profiles.entry(name.clone()).or_default();
    if let Some(url) = url {
        profile.url = url.to_string();
    }
    if token_file.is_some() || token_command.is_some() {
        profile.token_file = token_file.as_deref().and_then(absolute).transpose()?;
        profile.token_command = token_command.clone().filter(|command| !command.is_empty());
    }
    if let Some(ca) = ca {
        profile.ca = absolute(ca).transpose()?;
    }
    profile.confirm = confirm.unwrap_or(profile.confirm);
    profiles.write(path)?;
    print(output, &profiles, name)
}

/// An absolute path, since later commands run elsewhere; none for an empty one.
fn absolute(path: &Path) -> Option<Result<PathBuf, Failure>> {
    let unusable = |error| Failure::usage(format!("{}: {error}", path.display()));
    (!path.as_os_str().is_empty()).then(|| std::path::absolute(path).map_err(unusable))
}

fn choose(output: &Output, mut profiles: Profiles, name: &str, path: &Path) -> Result<(), Failure> {
    profiles.named(name)?;
    profiles.default = Some(name.to_owned());
    profiles.write(path)?;
    print(output, &profiles, name)
}

/// Removes a profile. If it was in use, none is.
fn remove(output: &Output, mut profiles: Profiles, name: &str, path: &Path) -> Result<(), Failure> {
    profiles.named(name)?;
    profiles.profiles.remove(name);
    profiles.default.take_if(|default| default == name);
    profiles.write(path)?;
    output.print(|| format!("{name}  removed"), &json!({ "name": name, "removed": true }).to_string())
}
