//! What a start reads of every record: as little as memory needs.

use super::{FieldReader, RecordColumns, RecordError, decode_host};
use crate::job::{ExpiresAt, HostNumber, Tag};

/// What memory needs of a record, beside its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordParts {
    /// The number of the host of its callback.
    pub host: Option<HostNumber>,
    /// When it expires.
    pub expires_at: Option<ExpiresAt>,
    /// Whether its id is remembered when it is finished or deleted.
    pub is_remembered: bool,
}

impl RecordColumns<'_> {
    /// Checks the head's checksum, and reads what memory needs of it. Decodes no more, because a start does this for every record.
    pub fn verify_and_read_parts(&self) -> Result<RecordParts, RecordError> {
        let mut reader = FieldReader(self.checked_fields()?);
        let mut attributes = || {
            reader.bytes::<1>()?;
            (0..5).try_for_each(|_| reader.varint().map(drop))?;
            reader.bytes::<16>()?;
            reader.attributes()
        };
        let attributes = attributes().ok_or(RecordError::Value)?;
        let host = attributes.get(Tag::HOST_NUMBER);
        let host = host.map(|bytes| decode_host(bytes).ok_or(RecordError::Value)).transpose()?;
        let expires_at = attributes.expires_at().ok_or(RecordError::Value)?;
        let expires_at = expires_at.map(|moment| ExpiresAt { moment, kind: attributes.expiry_kind() });
        Ok(RecordParts { host, expires_at, is_remembered: attributes.get(Tag::DEDUP).is_some() })
    }
}
