//! How names are looked up in a test.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Mutex,
};

use async_trait::async_trait;
use linger::push::{Resolver, SystemResolver};

use super::wait::TimeLimit;

/// The beginnings of the names that were [opened](TestResolver::open).
static OPEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The resolver of the system, but names that end with `.test` are found without it: at 127.0.0.1, or never if they begin
/// with `hang`, or once they are [opened](Self::open) if they begin with `gate`.
#[derive(Debug, Clone, Copy)]
pub struct TestResolver;

impl TestResolver {
    /// Lets the names that begin so be found. All tests of the process share them.
    pub fn open(beginning: &str) {
        OPEN.lock().expect("not poisoned").push(beginning.to_owned());
    }

    fn is_open(name: &str) -> bool {
        OPEN.lock().expect("not poisoned").iter().any(|beginning| name.starts_with(beginning.as_str()))
    }
}

#[async_trait]
impl Resolver for TestResolver {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if !name.ends_with(".test") {
            return SystemResolver.look_up(name).await;
        }
        if name.starts_with("hang") {
            std::future::pending::<()>().await;
        }
        let time_limit = TimeLimit::new();
        while name.starts_with("gate") && !Self::is_open(name) {
            time_limit.check(|| format!("{name} is not opened"));
            time_limit.pause().await;
        }
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}
