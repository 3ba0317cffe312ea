//! Names of hosts: looks up their addresses, each name only once for all who ask. Judges no address. How many names are
//! looked up at a time, and for whom, is for `lookup_permits`.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::{Notify, watch};

use super::{
    failure::CallFailure,
    lookup_permits::{LookupPermit, LookupPermits, Standing},
};
use crate::{clock::Clock, job::Topic};

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
        // The system's call blocks a thread until it returns, even if all callers have given up.
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Addresses, or why there are none.
pub(super) type Found = Result<Arc<[IpAddr]>, CallFailure>;

/// Looks up names for many callers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Names(Arc<NameCache>);

struct NameCache {
    resolver: Arc<dyn Resolver>,
    clock: Arc<dyn Clock>,
    permits: LookupPermits,
    entries: Mutex<Entries>,
    /// Notified when a lookup has begun or ended, for callers that wait for a permit to look up the same name.
    changed: Notify,
}

#[derive(Default)]
struct Entries {
    by_name: HashMap<Arc<str>, Entry>,
    /// Old entries are removed when there are this many.
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

/// A lookup that has begun or ended.
pub(super) struct Lookup(LookupProgress);

enum LookupProgress {
    Pending(watch::Receiver<Option<Found>>),
    Known(Found),
}

impl Lookup {
    /// The addresses of the name; never an empty list.
    pub async fn found(self) -> Found {
        let mut pending = match self.0 {
            LookupProgress::Known(found) => return found,
            LookupProgress::Pending(pending) => pending,
        };
        let found = pending.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        found.unwrap_or_else(|| Err(CallFailure::Dns("looking up the name was interrupted".to_owned())))
    }
}

impl Names {
    /// How long a result is used, also that a name does not exist.
    pub const KEEP: Duration = Duration::from_secs(5);
    /// How long a name that was found is remembered as one.
    const REMEMBER: Duration = Duration::from_secs(600);
    /// Names from which old ones are removed, and most that are remembered beyond those in use.
    const PRUNE_FROM: usize = 1_024;
    const MAX_REMEMBERED: usize = 16_384;

    pub fn new(resolver: Arc<dyn Resolver>, clock: Arc<dyn Clock>) -> Self {
        let (permits, changed) = (LookupPermits::new(), Notify::new());
        Self(Arc::new(NameCache { resolver, clock, permits, entries: Mutex::default(), changed }))
    }

    /// Begins to look up a name for a topic, unless its addresses are known or it is being looked up. Waits for a
    /// permit; a wait that is dropped leaves nothing behind.
    pub async fn begin(&self, topic: Option<&Topic>, name: &Arc<str>) -> Lookup {
        let standing = self.0.standing(name);
        let mut permit = pin!(self.0.permits.acquire(topic.cloned(), standing));
        loop {
            // Made before the look, so that no change in between is missed.
            let changed = self.0.changed.notified();
            if let Some(lookup) = self.0.begun(&self.0.entries(), name) {
                return lookup;
            }
            tokio::select! {
                permit = &mut permit => return self.start(name, permit),
                () = changed => {}
            }
        }
    }

    /// Looks up a name, unless another caller was faster.
    fn start(&self, name: &Arc<str>, permit: LookupPermit) -> Lookup {
        let mut entries = self.0.entries();
        if let Some(lookup) = self.0.begun(&entries, name) {
            return lookup;
        }
        entries.prune(self.0.clock.now_micros());
        let (sender, receiver) = watch::channel(None);
        entries.by_name.insert(name.clone(), Entry::Pending(sender.clone()));
        drop(entries);
        self.0.changed.notify_waiters();
        // A task of its own, so that the lookup goes on and counts when its callers have given up.
        tokio::spawn(self.0.clone().resolve(name.clone(), sender, permit));
        Lookup(LookupProgress::Pending(receiver))
    }
}

impl NameCache {
    fn begun(&self, entries: &Entries, name: &Arc<str>) -> Option<Lookup> {
        let progress = match entries.by_name.get(name)? {
            Entry::Known { found, until_us } if self.clock.now_micros() < *until_us => {
                LookupProgress::Known(found.clone())
            }
            Entry::Known { .. } => return None,
            Entry::Pending(sender) => LookupProgress::Pending(sender.subscribe()),
        };
        Some(Lookup(progress))
    }

    fn standing(&self, name: &Arc<str>) -> Standing {
        match self.entries().by_name.get(name) {
            Some(Entry::Known { found: Ok(_), .. }) => Standing::Proven,
            Some(Entry::Known { .. } | Entry::Pending(_)) | None => Standing::Unproven,
        }
    }

    async fn resolve(
        self: Arc<Self>,
        name: Arc<str>,
        sender: watch::Sender<Option<Found>>,
        permit: LookupPermit,
    ) {
        let found = match self.resolver.look_up(&name).await {
            Ok(addresses) if addresses.is_empty() => {
                Err(CallFailure::Dns("the name has no address".to_owned()))
            }
            Ok(addresses) => Ok(addresses.into()),
            Err(error) => Err(CallFailure::Dns(error.to_string())),
        };
        let until_us = self.clock.now_micros() + micros(Names::KEEP);
        self.entries().by_name.insert(name, Entry::Known { found: found.clone(), until_us });
        // Fails only if all callers have given up.
        let _ = sender.send(Some(found));
        drop(permit);
        self.changed.notify_waiters();
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().expect("no code panics while it holds the names")
    }
}

impl Entries {
    /// Removes old results when there are twice as many entries as after the last time.
    fn prune(&mut self, now_us: i64) {
        if self.by_name.len() < self.next_prune.max(Names::PRUNE_FROM) {
            return;
        }
        self.retain(now_us, Names::REMEMBER);
        if self.by_name.len() > Names::MAX_REMEMBERED {
            self.retain(now_us, Duration::ZERO);
        }
        self.next_prune = 2 * self.by_name.len();
    }

    /// Keeps results that are in use, and those of names that were found for `longer`.
    fn retain(&mut self, now_us: i64, longer: Duration) {
        self.by_name.retain(|_, entry| match entry {
            Entry::Pending(_) => true,
            Entry::Known { found: Ok(_), until_us } => now_us < until_us.saturating_add(micros(longer)),
            Entry::Known { found: Err(_), until_us } => now_us < *until_us,
        });
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("is short")
}
