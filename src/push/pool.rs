//! Idle connections by origin. Hands each out to one exchange at a time, and closes those that are too old.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use super::{connection::Connection, resolve::Names};
use crate::{clock::Clock, job::Origin};

/// Idle connections, a limited number.
pub(super) struct Pool {
    clock: Arc<dyn Clock>,
    max: usize,
    max_per_origin: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those of each origin in the order in which they became idle; no list is empty.
    by_origin: HashMap<Origin, Vec<Idle>>,
    count: usize,
    /// Whether a task closes connections; it runs only while there are any.
    is_swept: bool,
}

struct Idle {
    connection: Connection,
    since_us: i64,
}

impl Pool {
    /// A connection serves calls that begin up to this long after it was opened, however busy it is, so that a name that
    /// moves is followed within a minute. Its addresses may have been known for a while before it was opened.
    pub const MAX_AGE: Duration = Duration::from_secs(60).checked_sub(Names::KEEP).expect("is less");
    /// How often idle connections are closed that are too old or that the peer has closed.
    const SWEEP_EVERY: Duration = Duration::from_secs(30);

    pub fn new(clock: Arc<dyn Clock>, max: usize, max_per_origin: usize) -> Arc<Self> {
        Arc::new(Self { clock, max, max_per_origin, state: Mutex::default() })
    }

    /// Removes the connection to `origin` that was used last and can be used again.
    pub fn checkout(&self, origin: &Origin) -> Option<Connection> {
        let oldest_us = self.oldest_us();
        let mut state = self.state();
        let idle = state.by_origin.get_mut(origin)?;
        let mut found = None;
        let before = idle.len();
        while found.is_none()
            && let Some(mut last) = idle.pop()
        {
            let is_usable = last.connection.opened_us() >= oldest_us && last.connection.is_idle();
            found = is_usable.then_some(last.connection);
        }
        let removed = before - idle.len();
        if idle.is_empty() {
            state.by_origin.remove(origin);
        }
        state.count -= removed;
        found
    }

    /// Keeps a connection whose last answer was read to its end; closes any other one.
    pub fn checkin(self: &Arc<Self>, origin: Origin, mut connection: Connection) {
        if self.max == 0 || !connection.is_idle() {
            return;
        }
        let since_us = self.clock.now_micros();
        let mut state = self.state();
        if state.count >= self.max {
            state.remove_oldest();
        }
        let idle = state.by_origin.entry(origin).or_default();
        let is_full = idle.len() >= self.max_per_origin;
        if is_full {
            idle.remove(0);
        }
        idle.push(Idle { connection, since_us });
        state.count += usize::from(!is_full);
        if !state.is_swept {
            state.is_swept = true;
            drop(state);
            tokio::spawn(sweep(self.clock.clone(), Arc::downgrade(self)));
        }
    }

    /// How many connections are idle.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.state().count
    }

    /// Closes connections that are too old or that the peer has closed. Returns whether some are left; if not, the next
    /// connection starts another sweep.
    fn close_unusable(&self) -> bool {
        let oldest_us = self.oldest_us();
        let mut state = self.state();
        for idle in state.by_origin.values_mut() {
            idle.retain_mut(|idle| idle.connection.opened_us() >= oldest_us && idle.connection.is_idle());
        }
        state.by_origin.retain(|_, idle| !idle.is_empty());
        state.count = state.by_origin.values().map(Vec::len).sum();
        state.is_swept = state.count > 0;
        state.is_swept
    }

    fn oldest_us(&self) -> i64 {
        self.clock.now_micros() - i64::try_from(Self::MAX_AGE.as_micros()).expect("is short")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the pool")
    }
}

impl State {
    /// Closes the connection that was idle for the longest time.
    fn remove_oldest(&mut self) {
        let oldest = self.by_origin.iter().min_by_key(|(_, idle)| idle.first().map(|first| first.since_us));
        let Some(origin) = oldest.map(|(origin, _)| origin.clone()) else { return };
        if let Some(idle) = self.by_origin.get_mut(&origin) {
            idle.remove(0);
            self.count -= 1;
            if idle.is_empty() {
                self.by_origin.remove(&origin);
            }
        }
    }
}

/// Closes unusable connections now and then until none is left or the pool is gone.
async fn sweep(clock: Arc<dyn Clock>, pool: Weak<Pool>) {
    loop {
        clock.sleep(Pool::SWEEP_EVERY).await;
        match pool.upgrade() {
            Some(pool) if pool.close_unusable() => {}
            Some(_) | None => return,
        }
    }
}
