//! Names of hosts: looks up their addresses, a few names at a time and each only once for all who ask. Judges no address.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::{Semaphore, watch};

use super::failure::CallFailure;
use crate::clock::Clock;

/// Looks up names.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// The addresses of a name, the best ones first.
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system, which also knows its hosts file.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        // The system's call blocks a thread until it returns, even if nobody waits any more.
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

type Found = Result<Arc<[IpAddr]>, CallFailure>;

/// Looks up names for many callers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Names(Arc<Shared>);

struct Shared {
    resolver: Arc<dyn Resolver>,
    clock: Arc<dyn Clock>,
    /// A permit for each name that is being looked up.
    slots: Semaphore,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_name: HashMap<Arc<str>, Entry>,
    /// Expired entries are removed when there are this many.
    next_prune: usize,
}

enum Entry {
    /// Being looked up. Only callers have receivers.
    Pending(watch::Sender<Option<Found>>),
    Known {
        found: Found,
        until_us: i64,
    },
}

impl Names {
    /// How many names are looked up at the same time.
    const MAX_LOOKUPS: usize = 32;
    /// How long a result is kept, also that a name does not exist.
    pub const KEEP: Duration = Duration::from_secs(5);
    /// Expired results are kept up to this many names.
    const PRUNE_FROM: usize = 1_024;

    pub fn new(resolver: Arc<dyn Resolver>, clock: Arc<dyn Clock>) -> Self {
        let slots = Semaphore::new(Self::MAX_LOOKUPS);
        Self(Arc::new(Shared { resolver, clock, slots, entries: Mutex::default() }))
    }

    /// The addresses of a name; never an empty list.
    pub async fn look_up(&self, name: &Arc<str>) -> Found {
        let mut found = match self.known_or_pending(name) {
            Ok(found) => return found,
            Err(pending) => pending,
        };
        let found = match found.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            Err(_) => None,
        };
        found.unwrap_or_else(|| Err(CallFailure::Dns("looking up the name was interrupted".to_owned())))
    }

    /// The result, or where it will arrive.
    fn known_or_pending(&self, name: &Arc<str>) -> Result<Found, watch::Receiver<Option<Found>>> {
        let now_us = self.0.clock.now_micros();
        let mut entries = self.0.entries();
        match entries.by_name.get(name) {
            Some(Entry::Known { found, until_us }) if now_us < *until_us => return Ok(found.clone()),
            Some(Entry::Pending(sender)) => return Err(sender.subscribe()),
            Some(Entry::Known { .. }) | None => {}
        }
        entries.prune(now_us);
        let (sender, receiver) = watch::channel(None);
        entries.by_name.insert(name.clone(), Entry::Pending(sender.clone()));
        drop(entries);
        // A task of its own, so that the lookup goes on and counts when its callers have given up.
        tokio::spawn(self.0.clone().resolve(name.clone(), sender));
        Err(receiver)
    }
}

impl Shared {
    async fn resolve(self: Arc<Self>, name: Arc<str>, sender: watch::Sender<Option<Found>>) {
        let _slot = loop {
            tokio::select! {
                slot = self.slots.acquire() => break slot.expect("the semaphore is never closed"),
                () = sender.closed() => {
                    // Callers subscribe while they hold the mutex, so none can come in between.
                    let mut entries = self.entries();
                    if sender.receiver_count() == 0 {
                        entries.by_name.remove(&name);
                        return;
                    }
                }
            }
        };
        let found = match self.resolver.look_up(&name).await {
            Ok(addresses) if addresses.is_empty() => {
                Err(CallFailure::Dns("the name has no address".to_owned()))
            }
            Ok(addresses) => Ok(addresses.into()),
            Err(error) => Err(CallFailure::Dns(error.to_string())),
        };
        let until_us = self.clock.now_micros() + i64::try_from(Names::KEEP.as_micros()).expect("is short");
        self.entries().by_name.insert(name, Entry::Known { found: found.clone(), until_us });
        // Nobody may be waiting any more.
        let _ = sender.send(Some(found));
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().expect("no code panics while it holds the names")
    }
}

impl Entries {
    /// Removes expired results when there are twice as many entries as after the last time.
    fn prune(&mut self, now_us: i64) {
        if self.by_name.len() < self.next_prune.max(Names::PRUNE_FROM) {
            return;
        }
        self.by_name.retain(|_, entry| match entry {
            Entry::Pending(_) => true,
            Entry::Known { until_us, .. } => now_us < *until_us,
        });
        self.next_prune = 2 * self.by_name.len();
    }
}
