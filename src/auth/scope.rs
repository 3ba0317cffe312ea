//! The scopes: what a token allows.

use std::fmt;

/// One kind of operations. `openapi.yaml` names the scope of every operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For producers: add, patch and delete jobs.
    Add,
    /// For workers: pop, finish, release, touch, bury.
    Work,
    /// For reading: jobs, topics, dead letters, metrics.
    Read,
    /// For operators: settings, schedules, pauses, purges, requeues. Includes the other three scopes.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Add, Self::Work, Self::Read, Self::Admin];

    /// The name of the scope.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Work => "work",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    /// The scope with this name.
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
