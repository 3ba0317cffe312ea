//! Which server a command calls, and how: resolves flags, variables and profiles into a [`Connection`]. Does not know
//! what is called.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use clap::Args;
use linger_client::{Client, Options, ServerUrl, Trust};

use super::{
    exit::Failure,
    profiles::{Profile, Profiles},
};
use crate::{files::small_file, job::parse_duration};

/// The server that is called if nothing names another.
const DEFAULT_URL: &str = "http://127.0.0.1:9277";

/// The flags that say which server to call, and how long to try.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectionArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// How long to try a call again after connection faults and 5xx answers
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    timeout: Duration,
}

/// The flags that say which server to call.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ServerArgs {
    /// Server to call, such as https://queue.internal (LINGER_URL) [default: the profile's, else http://127.0.0.1:9277]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Profile to use (LINGER_PROFILE) [default: that of `linger profile use`]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// File that contains the token (LINGER_TOKEN_FILE, or the token itself in LINGER_TOKEN)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A server, and how to call it.
#[derive(Debug)]
pub(super) struct Connection {
    pub url: ServerUrl,
    pub timeout: Duration,
    /// Whether the profile asks before any change.
    pub confirm: bool,
    token: TokenSource,
    trust: Trust,
}

/// Where the token comes from.
#[derive(Clone, Default, PartialEq, Eq)]
enum TokenSource {
    #[default]
    None,
    /// The variable `LINGER_TOKEN`.
    Text(String),
    File(PathBuf),
    /// A command of the shell that prints it.
    Command(String),
}

/// What flags, variables and the profile say together.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    /// The server, and what names it; none if nothing does.
    url: Option<(ServerUrl, String)>,
    token: TokenSource,
    trust: Trust,
    confirm: bool,
}

impl ConnectionArgs {
    /// Resolves flags, variables and the profile.
    pub fn resolve(&self) -> Result<Connection, Failure> {
        self.server.resolve(self.timeout)
    }
}

impl ServerArgs {
    /// As [`ConnectionArgs::resolve`], for a command that has another use for `--timeout`.
    pub fn resolve(&self, timeout: Duration) -> Result<Connection, Failure> {
        let Choice { url, token, trust, confirm } =
            self.choose(|name| env::var_os(name), Profiles::present)?;
        let url = url.map(|(url, _)| url);
        let url = url.unwrap_or_else(|| DEFAULT_URL.parse().expect("the default is a URL"));
        Ok(Connection { url, timeout, confirm, token, trust })
    }

    /// The profiles are not read when a URL is given and no profile is.
    fn choose(
        &self,
        variable: impl Fn(&str) -> Option<OsString>,
        profiles: impl FnOnce() -> Result<Profiles, Failure>,
    ) -> Result<Choice, Failure> {
        let variable = |name: &'static str| text(&variable, name);
        let (url_variable, profile_variable) = (variable("LINGER_URL")?, variable("LINGER_PROFILE")?);
        let url = self.url.as_ref().map(|url| ("--url", url));
        let url = url.or_else(|| url_variable.as_ref().map(|url| ("LINGER_URL", url)));
        let named = self.profile.as_ref().or(profile_variable.as_ref());
        let profile = match (named, url) {
            (None, Some(_)) => None,
            (named, _) => chosen_profile(named, profiles()?)?,
        };
        let given_token = match (&self.token_file, variable("LINGER_TOKEN_FILE")?, variable("LINGER_TOKEN")?)
        {
            (Some(file), _, _) => Some(TokenSource::File(file.clone())),
            (None, Some(file), _) => Some(TokenSource::File(file.into())),
            (None, None, token) => token.map(TokenSource::Text),
        };
        let parsed = |source: &str, url: &str| {
            url.parse::<ServerUrl>().map_err(|invalid| Failure::usage(format!("{source}: {invalid}")))
        };
        let (url, profile_token) = match (url, &profile) {
            // The profile's token is for the profile's server alone.
            (Some((source, url)), _) => (Some((parsed(source, url)?, source.to_owned())), TokenSource::None),
            (None, Some((name, profile))) => {
                let source = format!("profile {name}");
                (Some((parsed(&source, &profile.url)?, source)), TokenSource::of_profile(profile))
            }
            (None, None) => (None, TokenSource::None),
        };
        let profile = profile.map(|(_, profile)| profile).unwrap_or_default();
        let trust = profile.ca.map_or(Trust::SystemRoots, Trust::RootsFile);
        let token = given_token.unwrap_or(profile_token);
        Ok(Choice { url, token, trust, confirm: profile.confirm })
    }
}

/// The server that a flag, a variable or the profile names, and which of them does; none if none does.
pub(super) fn named_server(
    url: Option<String>,
    profile: Option<String>,
) -> Result<Option<(ServerUrl, String)>, Failure> {
    let arguments = ServerArgs { url, profile, token_file: None };
    Ok(arguments.choose(|name| env::var_os(name), Profiles::present)?.url)
}

/// The value of a variable; an empty one counts as missing.
fn text(variable: impl Fn(&str) -> Option<OsString>, name: &str) -> Result<Option<String>, Failure> {
    let value = variable(name).filter(|value| !value.is_empty());
    let text = value.map(OsString::into_string).transpose();
    text.map_err(|_| Failure::usage(format!("{name}: is not UTF-8 text")))
}

/// The profile that was named, or else the default one.
fn chosen_profile(named: Option<&String>, profiles: Profiles) -> Result<Option<(String, Profile)>, Failure> {
    let Some(name) = named.or(profiles.default.as_ref()) else { return Ok(None) };
    Ok(Some((name.clone(), profiles.named(name)?.clone())))
}

impl Connection {
    /// Reads the token and makes a client with it, which repeats calls until the timeout and connects with the first
    /// one. `change` adapts the options.
    pub fn reopen(&self, change: impl FnOnce(&mut Options)) -> Result<Client, Failure> {
        let mut options = options(&self.token, &self.trust, self.timeout)?;
        change(&mut options);
        Ok(Client::new(&self.url, options)?)
    }
}

fn options(token: &TokenSource, trust: &Trust, timeout: Duration) -> Result<Options, Failure> {
    let defaults = Options::default();
    Ok(Options {
        token: token.read()?,
        trust: trust.clone(),
        connect_timeout: defaults.connect_timeout.min(timeout),
        call_timeout: timeout,
        repeat_for: timeout,
        ..defaults
    })
}

impl TokenSource {
    fn of_profile(profile: &Profile) -> Self {
        let file = profile.token_file.clone().map(Self::File);
        file.or_else(|| profile.token_command.clone().map(Self::Command)).unwrap_or_default()
    }

    /// Reads the token. Blocks as long as the file system or the command does.
    fn read(&self) -> Result<Option<String>, Failure> {
        let (token, source) = match self {
            Self::None => return Ok(None),
            Self::Text(token) => (token.clone(), "LINGER_TOKEN".to_owned()),
            Self::File(path) => (read_file(path)?, format!("the file of the token, {}", path.display())),
            Self::Command(line) => (run_command(line)?, "token_command".to_owned()),
        };
        let token = token.trim_ascii();
        if token.is_empty() || token.contains(|c: char| c.is_ascii_control()) {
            return Err(Failure::usage(format!("{source}: contains no token, or more than one line")));
        }
        Ok(Some(token.to_owned()))
    }
}

/// Without the token.
impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Text(_) => "Text",
            Self::File(_) => "File",
            Self::Command(_) => "Command",
        })
    }
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let text = small_file::read_text(path);
    text.map_err(|error| Failure::usage(format!("the file of the token, {}: {error}", path.display())))
}

fn run_command(line: &str) -> Result<String, Failure> {
    // Without the line, which may contain a secret.
    let failed = |reason: &dyn fmt::Display| Failure::usage(format!("token_command failed: {reason}"));
    // Its errors go to this command's stderr, and it may ask for a passphrase.
    let output = Command::new("/bin/sh").arg("-c").arg(line).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| failed(&"it does not print UTF-8 text"))
}
