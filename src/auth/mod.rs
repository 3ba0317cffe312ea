//! Authentication: bearer tokens, their scopes and topics. Of HTTP it knows only the form of a credential, and no
//! routes; `http` defines which scope each operation requires.

mod file;
mod scope;
mod token;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

pub use file::{list_tokens, parse_tokens, read_tokens, token_entry, without_token};
pub use scope::Scope;
pub use token::{TokenHash, generate_token};

use crate::job::TopicFilter;

/// An authenticated client and what it may do. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The token's name in the file, for the log.
    pub name: Arc<str>,
    scopes: Arc<[Scope]>,
    /// The topics that it may use.
    pub topics: TopicFilter,
}

impl Caller {
    /// Any client of a server that requires no tokens.
    #[must_use]
    pub fn unrestricted() -> Self {
        static UNRESTRICTED: LazyLock<Caller> = LazyLock::new(|| Caller {
            name: "".into(),
            scopes: [Scope::Admin].into(),
            topics: TopicFilter::ALL,
        });
        UNRESTRICTED.clone()
    }

    /// A client without a token of a protocol that has none, for these topics.
    #[must_use]
    pub fn anonymous(topics: TopicFilter) -> Self {
        Self { topics, ..Self::unrestricted() }
    }

    /// A client that may use only operations that require no scope.
    #[must_use]
    pub fn unprivileged() -> Self {
        Self { name: "".into(), scopes: [].into(), topics: TopicFilter::only(Vec::new()) }
    }

    /// Its scopes, as the file has them.
    #[must_use]
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// Whether operations of this scope are allowed.
    #[must_use]
    pub fn has_scope(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|has| *has == scope || *has == Scope::Admin)
    }
}

/// The tokens of one file, by their hashes.
#[derive(Debug)]
pub struct Tokens(HashMap<TokenHash, Caller>);

impl Tokens {
    /// The number of tokens.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The client that `token` belongs to. The duration of the search reveals nothing useful: the position in the map
    /// depends on a hash of the token, which no client can choose, and hashes are compared in constant time.
    fn find(&self, token: &[u8]) -> Option<&Caller> {
        self.0.get(&TokenHash::new(token))
    }
}

/// Why a credential was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthError {
    /// There was no credential.
    Missing,
    /// The credential does not have the form `Bearer TOKEN`.
    Scheme,
    /// The token is unknown.
    Unknown,
}

/// Authenticates clients. Its tokens can be replaced while it is in use.
#[derive(Debug, Default)]
pub struct Authenticator(RwLock<Option<Arc<Tokens>>>);

impl Authenticator {
    /// Accepts every client without a token.
    #[must_use]
    pub fn open() -> Self {
        Self::default()
    }

    /// Accepts only clients with one of these tokens.
    #[must_use]
    pub fn with_tokens(tokens: Tokens) -> Self {
        Self(RwLock::new(Some(Arc::new(tokens))))
    }

    /// Replaces the tokens.
    pub fn replace(&self, tokens: Tokens) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tokens));
    }

    /// Authenticates a client by its credential: the value of the `Authorization` header, if there was exactly one.
    ///
    /// # Errors
    /// Why the credential is refused.
    pub fn authenticate(&self, credential: Option<&[u8]>) -> Result<Caller, AuthError> {
        self.find(|| bearer(credential.ok_or(AuthError::Missing)?).ok_or(AuthError::Scheme))
    }

    /// Authenticates a client of a protocol whose credential is the token alone.
    ///
    /// # Errors
    /// Why the token is refused.
    pub fn authenticate_token(&self, token: Option<&[u8]>) -> Result<Caller, AuthError> {
        self.find(|| token.ok_or(AuthError::Missing))
    }

    fn find<'a>(&self, token: impl FnOnce() -> Result<&'a [u8], AuthError>) -> Result<Caller, AuthError> {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(tokens) = tokens else { return Ok(Caller::unrestricted()) };
        tokens.find(token()?).cloned().ok_or(AuthError::Unknown)
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

    fn authenticator() -> Authenticator {
        Authenticator::with_tokens(
            parse_tokens(&token_entry("a", "one", &[Scope::Read], &[])).expect("is valid"),
        )
    }

    fn authenticate(authenticator: &Authenticator, credential: Option<&str>) -> Result<String, AuthError> {
        authenticator.authenticate(credential.map(str::as_bytes)).map(|caller| caller.name.to_string())
    }

    #[test]
    fn accepts_only_known_tokens() {
        for credential in ["Bearer one", "bearer one", "BEARER  one "] {
            assert_eq!(authenticate(&authenticator(), Some(credential)), Ok("a".to_owned()), "{credential}");
        }
        for credential in ["Bearer on", "Bearer one two", "Bearer oneone"] {
            assert_eq!(
                authenticate(&authenticator(), Some(credential)),
                Err(AuthError::Unknown),
                "{credential}"
            );
        }
        for credential in ["", "Bearer", "Bearer ", "one", "Basic one", "Bearerone"] {
            assert_eq!(
                authenticate(&authenticator(), Some(credential)),
                Err(AuthError::Scheme),
                "{credential}"
            );
        }
        assert_eq!(authenticate(&authenticator(), None), Err(AuthError::Missing));
    }

    #[test]
    fn without_tokens_every_client_is_accepted_and_new_tokens_replace_the_old() {
        assert_eq!(authenticate(&Authenticator::open(), None), Ok(String::new()));
        let authenticator = authenticator();
        authenticator.replace(parse_tokens(&token_entry("b", "two", &[Scope::Add], &[])).expect("is valid"));
        assert_eq!(authenticate(&authenticator, Some("Bearer one")), Err(AuthError::Unknown));
        assert_eq!(authenticate(&authenticator, Some("Bearer two")), Ok("b".to_owned()));
    }
}
