//! TLS to Redis: the keys of section `[redis]` that count with `rediss://`.

use std::path::PathBuf;

use rustls_pki_types::ServerName;

use super::{reader::Reader, sections::TlsFiles, values};

/// How Linger speaks TLS with the servers, and with the sentinels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedisTlsSettings {
    /// A file with the certificates of the authorities to trust in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate that Linger shows, if the servers require one.
    pub client: Option<TlsFiles>,
    /// The name that every certificate must have, in place of the host that is connected to.
    pub server_name: Option<String>,
}

impl RedisTlsSettings {
    const KEYS: [&str; 4] =
        ["redis.ca_file", "redis.client_certificate", "redis.client_key", "redis.server_name"];

    /// Reads the keys; `None` without TLS. `place` is the key whose scheme asks for TLS or does not. The keys that have no
    /// effect without TLS are refused if the section is `in_use`.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        is_asked_for: bool,
        place: &str,
        in_use: bool,
    ) -> Option<Self> {
        let certificate = reader.optional_file("redis.client_certificate");
        let key = reader.optional_file("redis.client_key");
        let client = ("redis.client_certificate", certificate);
        let read = Self {
            ca_file: reader.optional_file("redis.ca_file"),
            client: TlsFiles::from_keys(reader, client, ("redis.client_key", key)),
            server_name: reader.get("redis.server_name", |kind| {
                values::optional_text(kind)?.map_or(Ok(None), |name| server_name(name).map(Some))
            }),
        };
        if is_asked_for {
            return Some(read);
        }
        if in_use {
            for key in Self::KEYS.into_iter().filter(|key| !reader.is_default(key)).collect::<Vec<_>>() {
                let remedy = format!("is for TLS, which {place} does not ask for: write rediss:// there, or");
                reader.refuse(key, format!("{remedy} leave this key out"));
            }
        }
        None
    }
}

/// A name or an address that a certificate can have.
fn server_name(text: String) -> Result<String, values::ValueProblem> {
    match ServerName::try_from(text.as_str()) {
        Ok(_) => Ok(text),
        Err(_) => {
            let hint = "must be a name or an address that a certificate can have, such as redis.example.com";
            Err(format!("{} {hint}", values::quoted(&text)))
        }
    }
}
