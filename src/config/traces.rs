//! Traces: section `[traces]`.

use super::{
    reader::{self, Reader},
    values,
};
use crate::job::CallbackUrl;

/// Section `[traces]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// Where spans are sent; `None` if there are none.
    pub endpoint: Option<CallbackUrl>,
}

impl Default for TraceSettings {
    fn default() -> Self {
        reader::read_defaults(Self::read)
    }
}

impl TraceSettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let endpoint = reader.get("traces.endpoint", |kind| {
            let text = values::optional_text(kind)?;
            text.map(|text| CallbackUrl::parse(&text)).transpose().map_err(|error| error.to_string())
        });
        Self { endpoint }
    }
}
