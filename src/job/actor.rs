//! Who did something to a job.

use std::{fmt, sync::Arc};

use super::Origin;

/// Who did something to a job: the name that a worker gave, else the name of the client's token, else the client's address;
/// for a callback its host and port. From 1 to [`Actor::MAX_CHARS`] characters, none of them a control character. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Actor(Arc<str>);

/// Why a text is no [`Actor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ActorError {
    /// It is empty or too long.
    #[error("must have 1 to 64 characters")]
    Length,
    /// It contains a control character.
    #[error("must not contain control characters")]
    ControlCharacter,
}

impl Actor {
    /// Longest name in characters (Unicode scalar values).
    pub const MAX_CHARS: usize = 64;

    /// Accepts a name.
    ///
    /// # Errors
    /// [`ActorError`].
    pub fn parse(name: &str) -> Result<Self, ActorError> {
        // Almost all names are short and have only letters and digits; each pop decodes one.
        let short_ascii = (1..=Self::MAX_CHARS).contains(&name.len()) && name.is_ascii();
        if !short_ascii && !(1..=Self::MAX_CHARS).contains(&name.chars().count()) {
            return Err(ActorError::Length);
        }
        if name.chars().any(char::is_control) {
            return Err(ActorError::ControlCharacter);
        }
        Ok(Self(name.into()))
    }

    /// The beginning of a name that may be longer than allowed, without its control characters; `None` if nothing is left.
    #[must_use]
    pub fn abridged(name: &str) -> Option<Self> {
        if let Ok(whole) = Self::parse(name) {
            return Some(whole);
        }
        let printable = name.chars().filter(|character| !character.is_control());
        Self::parse(&printable.take(Self::MAX_CHARS).collect::<String>()).ok()
    }

    /// The endpoint of a callback: its host, and its port unless that is the default, because several may have one address.
    #[must_use]
    pub fn of_endpoint(origin: &Origin) -> Option<Self> {
        Self::abridged(&origin.authority())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_printable() {
        assert_eq!(Actor::parse(&"😀".repeat(64)).expect("64 characters").as_str().len(), 256);
        for name in [String::new(), "x".repeat(65), "é".repeat(65)] {
            assert_eq!(Actor::parse(&name), Err(ActorError::Length), "{name:?}");
        }
        for name in ["\0", "a\nb", "\u{85}", "\u{7f}"] {
            assert_eq!(Actor::parse(name), Err(ActorError::ControlCharacter), "{name:?}");
        }
    }

    #[test]
    fn any_name_can_be_abridged() {
        let abridged = |name: &str| Actor::abridged(name).map(|actor| actor.to_string());
        assert_eq!(abridged("a\tb\n"), Some("ab".to_owned()));
        assert_eq!(abridged(&"é".repeat(90)), Some("é".repeat(64)));
        assert_eq!(abridged("\n"), None);
    }
}
