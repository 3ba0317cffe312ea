//! Announcements of the other processes: jobs that became ready, and changed settings. They arrive
//! on a connection of their own. The sweep recovers lost ones.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::{EventInterface, PubsubInterface},
    types::{Message, config::Config},
};
use tokio::sync::{broadcast::error::RecvError, watch};

use super::{
    notifier::Notifier,
    shards::{PendingChanges, Shards},
};
use crate::{
    clock::Clock,
    job::Outlet,
    store::redis::{connection::client::ServerConnection, keys::Shard},
};

/// Pause before another connection is opened.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);
/// How often to subscribe again, and to check that the server is still one of the known ones, when no message comes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Receives announcements.
pub struct Announcements {
    shards: Arc<Shards>,
    notifier: Arc<Notifier>,
    wake_sweep: watch::Sender<()>,
    pub received: ReceivedNumbers,
}

impl Announcements {
    pub fn new(shards: Arc<Shards>, notifier: Arc<Notifier>, wake_sweep: watch::Sender<()>) -> Arc<Self> {
        let received = ReceivedNumbers::new(shards.keys.count());
        Arc::new(Self { shards, notifier, wake_sweep, received })
    }

    /// Receives until the engine closes: from one server while it is known and answers, then from another.
    pub async fn run(self: Arc<Self>) {
        let context = self.shards.context();
        let mut was_subscribed = false;
        while !context.closing.is_cancelled() {
            match self.open_connection().await {
                Ok((config, connection)) => {
                    if std::mem::replace(&mut was_subscribed, true) {
                        self.shards.pending_changes.recheck_all();
                    }
                    self.receive(&config, &connection).await;
                    connection.close().await;
                }
                Err(error) => tracing::debug!(%error, "cannot subscribe to announcements"),
            }
            context.sleep_unless_closing(REOPEN_PAUSE).await;
        }
    }

    async fn open_connection(&self) -> Result<(Config, ServerConnection), FredError> {
        let context = self.shards.context();
        let none = || FredError::new(ErrorKind::Cluster, "no server is known");
        let config = self.shards.router().next_subscription().ok_or_else(none)?;
        let reply_timeout = context.options.command_timeout;
        let connection = ServerConnection::open(config.clone(), context, reply_timeout).await?;
        Ok((config, connection))
    }

    /// Subscribes, which changes nothing on a connection that has subscribed. The library does not say whether the server refused
    /// it for want of a right. Returns whether it was asked.
    async fn subscribe(&self, client: &Client) -> bool {
        for channel in [&self.shards.keys.ready_channel, &self.shards.keys.settings_channel] {
            if let Err(error) = client.subscribe(channel.clone()).await {
                tracing::debug!(%error, "cannot subscribe to announcements");
                return false;
            }
        }
        true
    }

    async fn receive(&self, config: &Config, connection: &ServerConnection) {
        let context = self.shards.context();
        let mut messages = connection.client().message_rx();
        if !self.subscribe(connection.client()).await {
            return;
        }
        // The sweep finds jobs that were announced before.
        self.wake_sweep.send_replace(());
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Ok(message) => self.handle(&message),
                    Err(RecvError::Lagged(count)) => {
                        tracing::warn!(count, "dropped announcements");
                        self.shards.pending_changes.recheck_all();
                    }
                    Err(RecvError::Closed) => return,
                },
                cause = connection.wait_until_lost() => {
                    return context.log_connection_loss(connection.server(), &cause);
                }
                () = context.clock.sleep_until_period_ends(CHECK_INTERVAL) => {
                    if !self.shards.router().is_current(config) || !self.subscribe(connection.client()).await {
                        return;
                    }
                }
                () = context.closing.cancelled() => return,
            }
        }
    }

    fn handle(&self, message: &Message) {
        let keys = &self.shards.keys;
        if message.channel == keys.settings_channel {
            self.wake_sweep.send_replace(());
            return;
        }
        let Some(text) = message.value.as_str() else { return };
        let Some((process, shard, number, outlet)) = parse_announcement(&text) else {
            tracing::warn!("received an announcement that cannot be read");
            return;
        };
        self.received.record(&self.shards.pending_changes, shard, number);
        // This process notified its own listener when it made the change.
        if process != self.shards.process() && keys.all().any(|known| known == shard) {
            self.notifier.ready_on(&outlet, shard);
        }
    }
}

/// Parses `process shard number outlet`.
fn parse_announcement(text: &str) -> Option<(&str, Shard, i64, Outlet)> {
    let mut parts = text.splitn(4, ' ');
    let (process, shard, number) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((process, shard, number, Outlet::parse(parts.next()?)?))
}

/// The number of the last announcement received, by shard.
#[derive(Debug)]
pub struct ReceivedNumbers(Vec<AtomicI64>);

impl ReceivedNumbers {
    fn new(shards: u16) -> Self {
        Self((0..shards).map(|_| AtomicI64::new(0)).collect())
    }

    pub fn last(&self, shard: Shard) -> i64 {
        self.0[usize::from(shard)].load(Ordering::Relaxed)
    }

    /// All announcements up to this number have been recovered.
    pub fn set_recovered(&self, shard: Shard, number: i64) {
        if let Some(last) = self.0.get(usize::from(shard)) {
            last.store(number, Ordering::Relaxed);
        }
    }

    /// Records an announcement. If it does not follow the last one, some were lost, and the shard is rechecked: the
    /// new number alone would hide that.
    fn record(&self, pending_changes: &PendingChanges, shard: Shard, number: i64) {
        if let Some(last) = self.0.get(usize::from(shard))
            && last.swap(number, Ordering::Relaxed) != number.saturating_sub(1)
        {
            pending_changes.recheck(shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_between_announcements_has_the_shard_rechecked() {
        let (received, pending) = (ReceivedNumbers::new(2), PendingChanges::new(2));
        received.set_recovered(1, 5);
        received.record(&pending, 1, 6);
        assert!(pending.take_unconfirmed(1).is_none(), "6 follows 5");
        assert!(pending.take_unconfirmed(1).is_none(), "taking marks nothing");
        received.record(&pending, 1, 9);
        pending.take_unconfirmed(1).expect("7 and 8 are missing").confirm();
        received.record(&pending, 1, 10);
        assert!(pending.take_unconfirmed(1).is_none(), "the recheck recovered them");
        received.record(&pending, 1, 3);
        assert!(pending.take_unconfirmed(1).is_some(), "another server has other numbers");
        pending.recheck_all();
        assert!(pending.take_unconfirmed(0).is_some());
    }

    #[test]
    fn announcements_are_parsed_or_refused() {
        let outlet = Outlet::parse("a:b>3f").expect("valid");
        assert_eq!(parse_announcement("p 3 17 a:b>3f"), Some(("p", 3, 17, outlet)));
        for text in ["", "p", "p 3", "p 3 17", "p x 17 a", "p 3 x a", "p 3 17 a b", "p 3 17 "] {
            assert_eq!(parse_announcement(text), None, "{text}");
        }
    }
}
