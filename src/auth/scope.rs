//! What a token may do, in four words.

use std::fmt;

/// One kind of calls. `openapi.yaml` names the scope of every operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// What producers do: add, patch and delete jobs.
    Add,
    /// What workers do: pop, finish, release, touch, bury.
    Work,
    /// Looking: jobs, topics, dead letters, figures.
    Read,
    /// What operators do: settings, pauses, purges, requeues. Allows the other three too.
    Admin,
}

impl Scope {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Add, Self::Work, Self::Read, Self::Admin];

    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Work => "work",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    /// The scope of this word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
