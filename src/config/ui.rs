//! The dashboard: section `[ui]`.

use super::{
    reader::{self, Reader},
    values,
};

/// Longest title, in characters.
const MAX_TITLE: usize = 40;

/// Section `[ui]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UiSettings {
    /// Whether the dashboard is served.
    pub enabled: bool,
    /// What the dashboard calls this server; empty if it has no name.
    pub title: String,
    /// Whether the dashboard shows the body of a job only on demand.
    pub hide_bodies: bool,
}

impl Default for UiSettings {
    fn default() -> Self {
        reader::read_defaults(Self::read)
    }
}

impl UiSettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            enabled: reader.flag("ui.enabled"),
            title: reader.get("ui.title", |kind| {
                let title = values::optional_text(kind)?.unwrap_or_default();
                let is_short = title.chars().count() <= MAX_TITLE && !title.chars().any(char::is_control);
                is_short.then_some(title).ok_or_else(|| {
                    format!("must be at most {MAX_TITLE} characters, without control characters")
                })
            }),
            hide_bodies: reader.flag("ui.hide_bodies"),
        }
    }
}
