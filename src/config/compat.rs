//! The dialects of other servers: the sections below `[compat]`.

use std::{net::SocketAddr, time::Duration};

use super::{
    reader::{self, HOUR, Reader},
    server::ServerSettings,
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

    /// Checks who could call a server with these settings.
    pub(super) fn check_listening(&self, server: &ServerSettings, reader: &mut Reader<'_>) {
        const KEY: &str = "compat.ouqiang.listen";
        let Some(listen) = self.listen else { return };
        if !listen.ip().is_loopback() && !self.allow_anonymous {
            let remedy = "is an address that others can reach, and these clients send no token: set \
                          compat.ouqiang.allow_anonymous = true if something else keeps strangers out";
            reader.refuse(KEY, format!("{listen} {remedy}"));
        }
        if listen.port() != 0 && listen == server.listen {
            reader.refuse(KEY, format!("{listen} is server.listen too; give one of them another port"));
        }
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
