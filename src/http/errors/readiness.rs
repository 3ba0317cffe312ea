//! The checks of the readiness page.

use crate::http::json::ObjectWriter;

/// One check of the readiness page.
#[derive(Debug, Clone)]
pub struct ReadinessCheck {
    pub name: &'static str,
    pub status: CheckStatus,
}

/// Whether a part of the server works.
#[derive(Debug, Clone)]
pub enum CheckStatus {
    Ok,
    /// Works in part, for this reason. The server is ready nevertheless.
    Degraded(String),
    /// Does not work, for this reason.
    Failed(String),
}

impl ReadinessCheck {
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        object.text("name", self.name);
        let (status, detail) = match &self.status {
            CheckStatus::Ok => ("ok", None),
            CheckStatus::Degraded(reason) => ("degraded", Some(reason)),
            CheckStatus::Failed(reason) => ("failed", Some(reason)),
        };
        object.text("status", status);
        if let Some(detail) = detail {
            object.text("detail", detail);
        }
        object.end();
    }
}
