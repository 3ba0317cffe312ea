//! The settings of the engine, translated for the client library. `config` reads them.

use fred::types::config::{Config, Server, ServerConfig};

pub use crate::config::{
    Credentials, Mode, Node, RedisSettings as Options, RedisTlsSettings as TlsOptions, SHARDS, Secret,
};

impl Options {
    /// The configuration of the client library.
    pub fn client_config(&self) -> Config {
        let hosts: Vec<Server> = self.mode.nodes().iter().map(library_server).collect();
        let (server, database) = match &self.mode {
            Mode::Standalone { node, database } => {
                (ServerConfig::Centralized { server: library_server(node) }, *database)
            }
            Mode::Sentinel { service, credentials, .. } => {
                let (username, password) = (credentials.username.clone(), exposed(credentials));
                (ServerConfig::Sentinel { hosts, service_name: service.clone(), username, password }, 0)
            }
            Mode::Cluster(_) => (ServerConfig::Clustered { hosts, policy: Default::default() }, 0),
        };
        Config {
            server,
            username: self.credentials.username.clone(),
            password: exposed(&self.credentials),
            database: (database != 0).then_some(database),
            ..Config::default()
        }
    }
}

fn exposed(credentials: &Credentials) -> Option<String> {
    credentials.password.as_ref().map(|password| password.expose().to_owned())
}

/// A host of the client library without the brackets of an IPv6 address.
pub fn bare_host(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The client library expects an IPv6 address in brackets, as in a URL.
fn library_server(node: &Node) -> Server {
    let host = if node.host.contains(':') { format!("[{}]", node.host) } else { node.host.clone() };
    Server::new(host, node.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_told_server_database_and_credentials() {
        let config = Options::new("redis://user:hunter2@[::1]:7000/1").client_config();
        assert_eq!(config.server.hosts(), [Server::new("[::1]", 7_000)]);
        assert_eq!((config.username.as_deref(), config.password.as_deref()), (Some("user"), Some("hunter2")));
        assert_eq!(config.database, Some(1));
    }

    #[test]
    fn no_password_is_ever_printed() {
        let options = Options::new("redis://user:hunter2@cache:7000/1");
        let credentials = Credentials { username: None, password: Some(Secret::new("hunter2")) };
        let nodes = vec![Node { host: "a".to_owned(), port: 1 }];
        let sentinel = Mode::Sentinel { nodes, service: "main".to_owned(), credentials };
        let shown = [&options, &Options { mode: sentinel, ..options.clone() }]
            .map(|options| [format!("{options:?}"), options.address(), options.location()]);
        for text in shown.concat() {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
