//! Who may do what: bearer tokens, their scopes and topics. Knows no HTTP but the form of a credential,
//! and no route; `http` says what each call needs.

mod file;
mod scope;
mod token;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

pub use file::{entry, parse, read};
pub use scope::Scope;
pub use token::{TokenHash, generate};

use crate::job::TopicFilter;

/// Somebody who was let in, and what they may do. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The token's name in the file, for the log.
    pub name: Arc<str>,
    scopes: Arc<[Scope]>,
    /// The topics that they may use.
    pub topics: TopicFilter,
}

impl Caller {
    /// Everybody, where no tokens are asked for.
    #[must_use]
    pub fn anyone() -> Self {
        static ANYONE: LazyLock<Caller> = LazyLock::new(|| Caller {
            name: "".into(),
            scopes: [Scope::Admin].into(),
            topics: TopicFilter::ALL,
        });
        ANYONE.clone()
    }

    /// Somebody who may do nothing that anything is asked for.
    #[must_use]
    pub fn nobody() -> Self {
        Self { name: "".into(), scopes: [].into(), topics: TopicFilter::only(Vec::new()) }
    }

    /// Whether calls of this scope are allowed.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|has| *has == scope || *has == Scope::Admin)
    }
}

/// The tokens of one file, by their hashes.
#[derive(Debug)]
pub struct Tokens(HashMap<TokenHash, Caller>);

impl Tokens {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Who holds `token`. How long it takes tells nothing of use: where the map looks depends on a hash of the
    /// token that nobody can choose, and hashes are compared in constant time.
    fn find(&self, token: &[u8]) -> Option<&Caller> {
        self.0.get(&TokenHash::of(token))
    }
}

/// Why nobody was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There was no credential.
    Missing,
    /// There was one of another form than `Bearer TOKEN`.
    Scheme,
    /// There was a token, but none of ours.
    Unknown,
}

/// Lets callers in. Its tokens may change while it is in use.
#[derive(Debug, Default)]
pub struct Gate(RwLock<Option<Arc<Tokens>>>);

impl Gate {
    /// Lets everybody in.
    #[must_use]
    pub fn open() -> Self {
        Self::default()
    }

    /// Lets holders of these tokens in.
    #[must_use]
    pub fn guarded(tokens: Tokens) -> Self {
        Self(RwLock::new(Some(Arc::new(tokens))))
    }

    /// From now on these tokens are the ones that count.
    pub fn replace(&self, tokens: Tokens) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tokens));
    }

    /// Who calls with this credential: the value of an `Authorization` header, if there was just one.
    ///
    /// # Errors
    /// Why they are not let in.
    pub fn admit(&self, credential: Option<&[u8]>) -> Result<Caller, Refused> {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(tokens) = tokens else { return Ok(Caller::anyone()) };
        let token = bearer(credential.ok_or(Refused::Missing)?).ok_or(Refused::Scheme)?;
        tokens.find(token).cloned().ok_or(Refused::Unknown)
    }
}

/// The token in `Bearer TOKEN` (RFC 6750, 2.1; the scheme in any case, RFC 9110, 11.1).
fn bearer(credential: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = credential.split_at_checked("bearer ".len())?;
    let token = rest.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::guarded(parse(&entry("a", "one", &[Scope::Read], &[])).expect("is valid"))
    }

    fn admitted(gate: &Gate, credential: Option<&str>) -> Result<String, Refused> {
        gate.admit(credential.map(str::as_bytes)).map(|caller| caller.name.to_string())
    }

    #[test]
    fn lets_in_who_holds_a_token() {
        for credential in ["Bearer one", "bearer one", "BEARER  one "] {
            assert_eq!(admitted(&gate(), Some(credential)), Ok("a".to_owned()), "{credential}");
        }
        for credential in ["Bearer on", "Bearer one two", "Bearer oneone"] {
            assert_eq!(admitted(&gate(), Some(credential)), Err(Refused::Unknown), "{credential}");
        }
        for credential in ["", "Bearer", "Bearer ", "one", "Basic one", "Bearerone"] {
            assert_eq!(admitted(&gate(), Some(credential)), Err(Refused::Scheme), "{credential}");
        }
        assert_eq!(admitted(&gate(), None), Err(Refused::Missing));
    }

    #[test]
    fn an_open_gate_asks_nobody_and_new_tokens_replace_the_old() {
        assert_eq!(admitted(&Gate::open(), None), Ok(String::new()));
        let gate = gate();
        gate.replace(parse(&entry("b", "two", &[Scope::Add], &[])).expect("is valid"));
        assert_eq!(admitted(&gate, Some("Bearer one")), Err(Refused::Unknown));
        assert_eq!(admitted(&gate, Some("Bearer two")), Ok("b".to_owned()));
    }
}
