//! How names are looked up in a test.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
};

use async_trait::async_trait;
use linger::push::{Resolver, SystemResolver};

/// The resolver of the system, but names that end with `.test` are found without it: at 127.0.0.1, or never if they begin
/// with `hang`.
#[derive(Debug, Clone, Copy)]
pub struct TestResolver;

#[async_trait]
impl Resolver for TestResolver {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if !name.ends_with(".test") {
            return SystemResolver.look_up(name).await;
        }
        if name.starts_with("hang") {
            std::future::pending::<()>().await;
        }
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}
