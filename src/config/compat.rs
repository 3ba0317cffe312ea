//! The dialects of other servers: the sections below `[compat]`.

use std::{net::SocketAddr, time::Duration};

use super::{
    Config,
    reader::{self, HOUR, Reader},
    values,
};
use crate::job::{TopicFilter, TopicPattern};

/// Section `[compat.ouqiang]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OuqiangSettings {
    /// The address to listen on; port 0 picks a free one. `None` if the dialect is off.
    pub listen: Option<SocketAddr>,
    /// The topics that its clients may use.
    pub topics: TopicFilter,
    /// Whether clients on other machines may call; they cannot send a token.
    pub allow_anonymous: bool,
    /// How long its pops wait.
    pub max_wait: Duration,
}

impl Default for OuqiangSettings {
    fn default() -> Self {
        reader::read_defaults(Self::read)
    }
}

impl OuqiangSettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            listen: reader.optional_address("compat.ouqiang.listen"),
            topics: reader.get("compat.ouqiang.topics", topics),
            allow_anonymous: reader.flag("compat.ouqiang.allow_anonymous"),
            max_wait: reader.duration("compat.ouqiang.max_wait", Duration::ZERO, HOUR),
        }
    }

    fn check_listening(&self, reader: &mut Reader<'_>) {
        let Some(listen) = self.listen else { return };
        if !listen.ip().is_loopback() && !self.allow_anonymous {
            let remedy = "is an address that others can reach, and these clients send no token: set \
                          compat.ouqiang.allow_anonymous = true if something else keeps strangers out";
            reader.refuse(OUQIANG_LISTEN, format!("{listen} {remedy}"));
        }
    }
}

/// Section `[compat.lmstfy]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LmstfySettings {
    /// The address to listen on; port 0 picks a free one. `None` if the dialect is off.
    pub listen: Option<SocketAddr>,
    /// The longest wait of its consumes.
    pub max_wait: Duration,
}

impl Default for LmstfySettings {
    fn default() -> Self {
        reader::read_defaults(Self::read)
    }
}

impl LmstfySettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            listen: reader.optional_address("compat.lmstfy.listen"),
            max_wait: reader.duration("compat.lmstfy.max_wait", Duration::ZERO, HOUR),
        }
    }
}

const OUQIANG_LISTEN: &str = "compat.ouqiang.listen";
const LMSTFY_LISTEN: &str = "compat.lmstfy.listen";

/// Checks who could call the dialects of a server with these settings, and that each listener has an address of its own.
pub(super) fn check_listening(config: &Config, reader: &mut Reader<'_>) {
    config.ouqiang.check_listening(reader);
    if let Some(listen) = config.lmstfy.listen {
        super::check_tokens(config, (LMSTFY_LISTEN, listen), reader);
    }
    let mut taken = vec![("server.listen", config.server.listen)];
    for (key, listen) in [(OUQIANG_LISTEN, config.ouqiang.listen), (LMSTFY_LISTEN, config.lmstfy.listen)] {
        let Some(listen) = listen.filter(|listen| listen.port() != 0) else { continue };
        if let Some((other, _)) = taken.iter().find(|(_, address)| *address == listen) {
            reader.refuse(key, format!("{listen} is {other} too; give one of them another port"));
        }
        taken.push((key, listen));
    }
}

/// The topics of a list of names and prefixes.
fn topics(kind: &config::ValueKind) -> Result<TopicFilter, values::ValueProblem> {
    let pattern = |text: &String| {
        let problem = |error| format!("{} {error}; a prefix ends with *", values::quoted(text));
        TopicPattern::parse(text).map_err(problem)
    };
    Ok(TopicFilter::only(values::list(kind)?.iter().map(pattern).collect::<Result<_, _>>()?))
}
