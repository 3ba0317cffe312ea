//! What the dialects of other servers share: their payloads as bodies, and their names as ours. Knows no protocol, no queue and
//! no store.
//!
//! A dialect is spoken by clients of another server, which know payloads of any bytes and names of any characters. Both
//! translations are reversible, so that old and native clients can share a topic.

pub mod encoding;
pub mod names;
