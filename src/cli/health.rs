//! `linger health`: checks whether a server is ready, once and in bounded time. It accepts any certificate, because
//! its call has no secret and the address is often not the certificate's name.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use linger_client::{Client, Error, Options, ServerUrl, Trust};

use super::{
    args::HealthArgs,
    connection::named_server,
    load::with_config,
    output::{print, print_error},
    settings::Settings,
};
use crate::{
    config::{Config, Purpose},
    messages::printable::escape_line,
};

/// Checks the server that `--url`, `LINGER_URL` or a profile names, else the one that listens on the configured address, over
/// TLS if it has a certificate.
pub(super) fn run(arguments: &HealthArgs, settings: &Settings) -> ExitCode {
    let HealthArgs { url, profile, timeout, .. } = arguments;
    let is_named = url.is_some() || profile.is_some();
    if is_named || !arguments.local && settings.given_flags().is_empty() {
        match named_server(url.clone(), profile.clone()) {
            Ok(Some((url, source))) => return report(&url, &source, *timeout),
            Ok(None) => {}
            Err(failure) => {
                print_error(&format_args!("health: {}", failure.message));
                return ExitCode::FAILURE;
            }
        }
    }
    with_config(settings, Purpose::Use, 1, |loaded| {
        let Config { server, tls, .. } = &loaded.config;
        if server.listen.port() == 0 {
            print_error(&"server.listen has port 0, so the real port is unknown; use --url");
            return ExitCode::FAILURE;
        }
        let url = ServerUrl::new(connectable(server.listen).to_string(), tls.is_some());
        report(&url, "server.listen", *timeout)
    })
}

/// `source` is what named the server.
fn report(url: &ServerUrl, source: &str, timeout: Duration) -> ExitCode {
    match check(url, timeout) {
        Ok(()) => print("ready\n"),
        Err(reason) => {
            let reason = escape_line(&reason);
            print_error(&format_args!("{} ({source}) is not ready: {reason}", url.authority()));
            ExitCode::FAILURE
        }
    }
}

/// Calls `GET /readyz`; an error says why the server is not ready.
fn check(url: &ServerUrl, timeout: Duration) -> Result<(), String> {
    let options = Options {
        // The call has no secret, and the certificate may be for another name than the address.
        trust: Trust::AnyCertificate,
        connect_timeout: timeout,
        call_timeout: timeout,
        repeat_for: Duration::ZERO,
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let client = Client::new(url, options).map_err(|error| error.to_string())?;
    let authority = url.authority();
    let ready = runtime.block_on(client.ready());
    // Looking up a name may take longer than the call.
    runtime.shutdown_background();
    ready.map_err(|error| match error {
        Error::Refused { refusal, .. } if refusal.is_own() || refusal.status >= 500 => {
            format!("it answers {refusal}")
        }
        Error::Refused { refusal, .. } => refusal.sentence(),
        Error::WrongScheme { server_speaks_tls: true, .. } => {
            format!("it speaks TLS; use --url https://{authority}")
        }
        Error::WrongScheme { server_speaks_tls: false, .. } => {
            format!("it does not speak TLS; use --url http://{authority}")
        }
        Error::TimedOut { limit, .. } => format!("no answer within {limit:?}"),
        Error::NotConnected { reason, .. } | Error::Untrusted { reason, .. } | Error::Cut { reason, .. } => {
            reason
        }
        Error::Foreign { reason, .. } => format!("the answer is not Linger's: {reason}"),
        Error::Unreadable { reason, .. } => format!("the answer cannot be read: {reason}"),
    })
}

/// An address that can be connected to: loopback for a server that listens on all addresses.
fn connectable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_on_all_addresses_is_checked_over_loopback() {
        for (listen, expected) in [
            ("0.0.0.0:9277", "127.0.0.1:9277"),
            ("[::]:1", "[::1]:1"),
            ("10.0.0.7:80", "10.0.0.7:80"),
            ("[fe80::1]:80", "[fe80::1]:80"),
        ] {
            let listen: SocketAddr = listen.parse().expect("is an address");
            assert_eq!(connectable(listen).to_string(), expected);
        }
    }
}
