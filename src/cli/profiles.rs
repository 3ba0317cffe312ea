//! The file of profiles, `client.toml`: where it is, how it is read and written. Does not know what a profile is used
//! for.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::exit::Failure;
use crate::files::small_file;

/// All profiles, and which one counts when none is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profiles {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    #[serde(default)]
    pub profiles: BTreeMap<String, Profile>,
}

/// A server, and how to call it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Profile {
    pub url: String,
    /// The file that contains the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A command of the shell that prints the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_command: Option<String>,
    /// The root certificates to trust, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Whether to ask before any change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirm: bool,
}

impl Profiles {
    /// Where the file is: below `XDG_CONFIG_HOME`, or else `~/.config`.
    pub fn path() -> Result<PathBuf, Failure> {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let directory = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
        let directory = directory.ok_or_else(|| {
            Failure::usage("there is no place for profiles: neither HOME nor XDG_CONFIG_HOME is set")
        })?;
        Ok(directory.join("linger").join("client.toml"))
    }

    /// The profiles of this user; none where there is no place for them, as in many containers.
    pub fn present() -> Result<Self, Failure> {
        Self::path().map_or_else(|_| Ok(Self::default()), |path| Self::read(&path))
    }

    /// The profiles in the file; none if there is no file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let unusable = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
        let text = match small_file::read_text(path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Self::default());
            }
            Err(error) => return Err(unusable(&error)),
        };
        let mut profiles: Self =
            toml::from_str(&text).map_err(|error| unusable(&error.to_string().trim_end()))?;
        for (name, profile) in &mut profiles.profiles {
            if profile.token_file.is_some() && profile.token_command.is_some() {
                let both = format_args!("profile {name} has both token_file and token_command");
                return Err(unusable(&both));
            }
            for named in [&mut profile.token_file, &mut profile.ca].into_iter().flatten() {
                *named = resolved(path, named);
            }
        }
        Ok(profiles)
    }

    /// Replaces the file in one step. Only its owner can read it.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).expect("profiles contain nothing that TOML cannot express");
        let written = || {
            let directory = path.parent().expect("the path has a directory");
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            // A name of its own, so that two commands at the same time do not write into the same file.
            let draft = directory.join(format!(".client.toml.{}", std::process::id()));
            let mut file =
                fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            let result = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
            result.and_then(|()| fs::rename(&draft, path)).inspect_err(|_| {
                let _ = fs::remove_file(&draft);
            })
        };
        written().map_err(|error: std::io::Error| {
            Failure::new(super::exit::Exit::Failed, format!("{}: cannot be written: {error}", path.display()))
        })
    }

    /// The profile of this name; the failure names those that there are.
    pub fn named(&self, name: &str) -> Result<&Profile, Failure> {
        self.profiles.get(name).ok_or_else(|| {
            let known: Vec<_> = self.profiles.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            Failure::usage(format!("there is no profile {name:?} (profiles: {known})"))
        })
    }
}

/// A path in the file at `file`: below the home directory if it begins with `~/`, else from the file's directory.
fn resolved(file: &Path, named: &Path) -> PathBuf {
    let below_home = named.strip_prefix("~").ok().zip(env::var_os("HOME"));
    match below_home {
        Some((rest, home)) => Path::new(&home).join(rest),
        None => file.parent().unwrap_or(Path::new("")).join(named),
    }
}
