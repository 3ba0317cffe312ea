//! What goes wrong with TLS while a connection is opened, as sentences with their remedy. The client library shows an
//! error of TLS as Rust's `Debug` does; only this file reads those texts.

use fred::error::{Error as FredError, ErrorKind};

use crate::store::redis::tls::RedisTls;

/// Words in the errors of a connection that the other side closed.
const CLOSED: [&str; 4] =
    ["ConnectionReset", "BrokenPipe", "handshake eof", "without sending TLS close_notify"];

/// Most names of a certificate in a message: some have hundreds.
const MOST_NAMES: usize = 5;

/// The alerts of a server that does not accept the certificate of the client.
const CERTIFICATE_ALERTS: [&str; 8] = [
    "BadCertificate",
    "UnsupportedCertificate",
    "CertificateRevoked",
    "CertificateExpired",
    "CertificateUnknown",
    "UnknownCA",
    "AccessDenied",
    "DecryptError",
];

/// Replaces the error of a connection to `host` that could not be opened by a sentence with its remedy, where TLS, or its
/// absence, may be the cause.
pub fn explain(error: FredError, host: &str, tls: Option<&RedisTls>) -> FredError {
    let text = error.details();
    let is_closed = CLOSED.iter().any(|word| text.contains(word));
    let timed_out = error.kind() == &ErrorKind::Timeout;
    match tls {
        Some(tls) => match refusal(text, host, tls) {
            Some(why) => FredError::new(ErrorKind::Tls, why),
            // A Redis without TLS takes a handshake for the beginning of a command, and waits for its end.
            None if timed_out => {
                passing("no answer in time; a Redis that speaks no TLS there needs redis://")
            }
            None if is_closed && tls.options().client.is_none() => passing(
                "the connection ended during the TLS handshake; a server that requires a certificate needs \
                 redis.client_certificate, one that speaks no TLS redis://",
            ),
            None if is_closed => passing("the connection ended during the TLS handshake"),
            None => error,
        },
        None if text.contains("ConnectionReset") => passing(
            "the connection failed: Connection reset by peer; a server that speaks TLS needs rediss://",
        ),
        None if error.kind() == &ErrorKind::Protocol && text.starts_with("Decode Error") => FredError::new(
            ErrorKind::Config,
            "it does not speak the Redis protocol; is this the address of a Redis? One that speaks TLS needs \
             rediss://",
        ),
        None => error,
    }
}

/// An error that may go away by itself.
fn passing(why: &'static str) -> FredError {
    FredError::new(ErrorKind::Routing, why)
}

/// Why TLS failed for a reason that lasts.
fn refusal(text: &str, host: &str, tls: &RedisTls) -> Option<String> {
    if let Some((_, alert)) = text.split_once("AlertReceived(") {
        let alert = alert.split_once(')').map_or(alert, |(alert, _)| alert);
        return Some(refused_by_server(alert, tls.options().client.is_some()));
    }
    if let Some((_, fault)) = text.split_once("InvalidCertificate(") {
        return Some(refused_certificate(fault, host, tls));
    }
    if text.contains("InvalidMessage(") {
        return Some("it does not speak TLS: use redis://, or the port at which it speaks TLS".to_owned());
    }
    if text.contains("PeerIncompatible(") || text.contains("InvalidDnsNameError") {
        return Some(format!("it cannot be used with TLS: {text}"));
    }
    None
}

/// What is wrong with the certificate of the server.
fn refused_certificate(fault: &str, host: &str, tls: &RedisTls) -> String {
    let name = tls.expected_name(host);
    let is = |variant: &str| fault.starts_with(variant);
    if is("UnknownIssuer") {
        return match &tls.options().ca_file {
            Some(file) => {
                let file = file.display();
                format!("its certificate is from no authority in {file} (redis.ca_file)")
            }
            None => "its certificate is from no authority that this system trusts: name the file with the \
                     certificate of its authority in redis.ca_file"
                .to_owned(),
        };
    }
    if is("NotValidForName") {
        return match presented_names(fault) {
            names if names.is_empty() => format!(
                "its certificate has no names (subjectAltName), and {name} is needed: give the server one that has it"
            ),
            names => format!(
                "its certificate is for {names}, not for {name}: connect to a name that it has, or set \
                 redis.server_name to one"
            ),
        };
    }
    if is("Expired") {
        return "its certificate has expired, by the clock of this machine: renew it there".to_owned();
    }
    if is("NotValidYet") {
        return "its certificate is not valid yet, by the clock of this machine".to_owned();
    }
    if fault.contains("CaUsedAsEndEntity") {
        return "its certificate is that of an authority (CA:TRUE): give the server one of its own"
            .to_owned();
    }
    let fault = fault.strip_suffix(") }").or_else(|| fault.strip_suffix(')')).unwrap_or(fault);
    format!("its certificate cannot be used: {fault}")
}

/// The first names of a certificate, from `presented: ["DnsName(\"a\")", "IpAddress(10.0.0.5)"]`.
fn presented_names(fault: &str) -> String {
    let names = fault.split_once("presented: [").and_then(|(_, names)| names.split_once(']'));
    let names = names.map_or("", |(names, _)| names);
    let names: Vec<&str> = names.split(", ").take(MOST_NAMES).collect();
    let names = names.join(", ").replace("DnsName(", "").replace("IpAddress(", "");
    names.replace(['"', '\\', ')'], "")
}

/// Why the server ended the handshake.
fn refused_by_server(alert: &str, has_certificate: bool) -> String {
    let remedy = "set redis.client_certificate and redis.client_key";
    match (alert, has_certificate) {
        ("CertificateRequired", _) => format!("it requires a certificate of its clients: {remedy}"),
        ("HandshakeFailure", false) => {
            format!("it refused the TLS handshake; if it requires a certificate of its clients, {remedy}")
        }
        (alert, true) if CERTIFICATE_ALERTS.contains(&alert) => {
            format!("it does not accept the certificate in redis.client_certificate ({alert})")
        }
        ("ProtocolVersion", _) => "it speaks neither TLS 1.2 nor TLS 1.3".to_owned(),
        (alert, _) => format!("it refused the TLS handshake ({alert})"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustls_pki_types::{ServerName, UnixTime};
    use tokio_rustls::rustls::{
        AlertDescription, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible,
    };

    use super::*;
    use crate::{config::TlsFiles, store::redis::options::TlsOptions};

    fn with_certificate() -> TlsOptions {
        let client = TlsFiles { certificate: "cert.pem".into(), key: "key.pem".into() };
        TlsOptions { client: Some(client), ..TlsOptions::default() }
    }

    fn explained(error: impl Into<FredError>, options: TlsOptions) -> FredError {
        explain(error.into(), "10.0.0.5", Some(&RedisTls::untrusting(options)))
    }

    /// The sentence about an error of TLS, as the library passes it on.
    fn refused(error: Error, options: TlsOptions) -> String {
        let explained = explained(io::Error::new(io::ErrorKind::InvalidData, error), options);
        assert_eq!(explained.kind(), &ErrorKind::Tls, "{explained}");
        explained.details().to_owned()
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_explained_with_the_remedy() {
        let of = |fault| refused(Error::InvalidCertificate(fault), TlsOptions::default());
        let named = |presented: &[&str]| CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("10.0.0.5").expect("an address"),
            presented: presented.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert!(of(CertificateError::UnknownIssuer).ends_with("of its authority in redis.ca_file"));
        let own = TlsOptions { ca_file: Some("ca.pem".into()), ..TlsOptions::default() };
        let why = refused(Error::InvalidCertificate(CertificateError::UnknownIssuer), own);
        assert_eq!(why, "its certificate is from no authority in ca.pem (redis.ca_file)");
        let both = ["DnsName(\"*.cache.example\")", "IpAddress(10.0.0.6)"];
        let why = "its certificate is for *.cache.example, 10.0.0.6, not for 10.0.0.5: connect to a name that it has, \
                   or set redis.server_name to one";
        assert_eq!(of(named(&both)), why);
        let many = of(named(&["DnsName(\"a\")"; 100]));
        assert!(many.starts_with("its certificate is for a, a, a, a, a, not for 10.0.0.5"), "{many}");
        assert!(of(named(&[])).contains("has no names (subjectAltName), and 10.0.0.5 is needed"));
        let (time, not_after) = (UnixTime::now(), UnixTime::now());
        assert!(of(CertificateError::ExpiredContext { time, not_after }).contains("has expired"));
        let not_before = not_after;
        assert!(of(CertificateError::NotValidYetContext { time, not_before }).contains("not valid yet"));
        #[derive(Debug, thiserror::Error)]
        #[error("")]
        struct CaUsedAsEndEntity;
        let of_authority = OtherError(std::sync::Arc::new(CaUsedAsEndEntity));
        assert!(of(CertificateError::Other(of_authority)).contains("(CA:TRUE)"));
        assert_eq!(of(CertificateError::BadSignature), "its certificate cannot be used: BadSignature");
    }

    #[test]
    fn what_the_server_refuses_is_explained_with_the_remedy() {
        let of = |alert, options| refused(Error::AlertReceived(alert), options);
        let none = TlsOptions::default;
        let why = of(AlertDescription::CertificateRequired, none());
        assert!(why.starts_with("it requires a certificate of its clients: set redis.client_c"), "{why}");
        assert!(of(AlertDescription::HandshakeFailure, none()).contains("if it requires a certificate"));
        let why = of(AlertDescription::UnknownCA, with_certificate());
        assert_eq!(why, "it does not accept the certificate in redis.client_certificate (UnknownCA)");
        assert!(of(AlertDescription::ProtocolVersion, none()).contains("neither TLS 1.2 nor"));
        assert!(of(AlertDescription::InternalError, none()).ends_with("(InternalError)"));
        let plain = Error::InvalidMessage(InvalidMessage::InvalidContentType);
        assert!(refused(plain, none()).contains("does not speak TLS: use redis://"));
        let incompatible = Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon);
        assert!(refused(incompatible, none()).contains("NoCipherSuitesInCommon"));
    }

    #[test]
    fn a_connection_that_ends_or_hangs_may_work_later() {
        let eof = || io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof");
        let timeout = FredError::new(ErrorKind::Timeout, "Request timed out.");
        let ended = explained(eof(), TlsOptions::default());
        assert!(ended.details().contains("needs redis.client_certificate"), "{ended}");
        let shown = explained(eof(), with_certificate());
        assert_eq!(shown.details(), "the connection ended during the TLS handshake");
        let hung = explained(timeout, TlsOptions::default());
        assert!(hung.details().ends_with("needs redis://"), "{hung}");
        let reset = explain(io::Error::from_raw_os_error(104).into(), "10.0.0.5", None);
        assert!(reset.details().ends_with("needs rediss://"), "{reset}");
        for error in [ended, shown, hung, reset] {
            assert_eq!(error.kind(), &ErrorKind::Routing, "{error}");
        }
        let refused = FredError::from(io::Error::from_raw_os_error(111));
        assert_eq!(explained(refused.clone(), TlsOptions::default()), refused, "it is not about TLS");
        let alert = FredError::new(ErrorKind::Protocol, "Decode Error: frame_type");
        assert!(explain(alert, "10.0.0.5", None).details().ends_with("needs rediss://"));
    }
}
