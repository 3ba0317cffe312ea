//! Announcements of the other processes: what became ready, and which settings changed. They arrive
//! on a connection of their own. One that is lost is made up for by the sweep.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};
use std::time::Duration;

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::{EventInterface, PubsubInterface},
    types::{Message, config::Config},
};
use tokio::sync::broadcast::error::RecvError;

use crate::store::redis::{Engine, connection::client::Connection, keys::Shard};
use crate::{clock::Clock, job::Topic};

/// The pause before another connection is opened.
const REOPEN: Duration = Duration::from_millis(200);
/// How often it is compared with what is known of the servers, when nothing comes.
const LOOK: Duration = Duration::from_secs(1);

/// How far each shard has been heard.
#[derive(Debug)]
pub struct Announcements {
    /// Number of the last announcement heard, by shard.
    heard: Vec<AtomicI64>,
    /// Shards where a change of ours may have happened without our hearing of it.
    doubts: Vec<AtomicBool>,
}

/// A change of a shard whose outcome is not known yet. Dropped before it is [`settled`](Self::settle) it
/// leaves a doubt: nobody heard what the change made ready, and our own announcement of it we pass
/// over. The sweep looks after doubts.
pub struct Doubt<'a>(Option<&'a AtomicBool>);

impl Doubt<'_> {
    /// The outcome is known.
    pub fn settle(mut self) {
        self.0 = None;
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(doubt) = self.0 {
            doubt.store(true, Ordering::Relaxed);
        }
    }
}

impl Announcements {
    pub fn new(shards: u16) -> Self {
        Self {
            heard: (0..shards).map(|_| AtomicI64::new(0)).collect(),
            doubts: (0..shards).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// A change begins.
    pub fn begin(&self, shard: Shard) -> Doubt<'_> {
        Doubt(Some(&self.doubts[usize::from(shard)]))
    }

    /// The doubt that is left of a shard's changes, if any.
    pub fn doubt(&self, shard: Shard) -> Option<Doubt<'_>> {
        let doubt = &self.doubts[usize::from(shard)];
        // Made only where there is one: dropped, it would leave one.
        doubt.swap(false, Ordering::Relaxed).then(|| Doubt(Some(doubt)))
    }

    pub fn heard(&self, shard: Shard) -> i64 {
        self.heard[usize::from(shard)].load(Ordering::Relaxed)
    }

    /// A look has made up for everything up to this number.
    pub fn set_heard(&self, shard: Shard, number: i64) {
        if let Some(heard) = self.heard.get(usize::from(shard)) {
            heard.store(number, Ordering::Relaxed);
        }
    }

    /// An announcement came. When it does not follow the last one, some between were lost, and its own number
    /// must not hide that.
    fn hear(&self, shard: Shard, number: i64) {
        let at = usize::from(shard);
        if let (Some(heard), Some(doubt)) = (self.heard.get(at), self.doubts.get(at))
            && heard.swap(number, Ordering::Relaxed) != number.saturating_sub(1)
        {
            doubt.store(true, Ordering::Relaxed);
        }
    }

    /// Any announcement may have been lost.
    fn doubt_all(&self) {
        self.doubts.iter().for_each(|doubt| doubt.store(true, Ordering::Relaxed));
    }
}

impl Engine {
    /// Subscribes.
    async fn subscribe(&self, client: &Client) -> Result<(), FredError> {
        client.subscribe(self.keys.ready_channel.clone()).await?;
        client.subscribe(self.keys.settings_channel.clone()).await
    }

    /// Listens until the engine closes: at one server as long as it is one and answers, then at another.
    pub async fn listen(self: Arc<Self>) {
        let mut listened = false;
        while !self.context.closing.is_cancelled() {
            match self.open_listener().await {
                Ok((config, connection)) => {
                    if std::mem::replace(&mut listened, true) {
                        self.announcements.doubt_all();
                    }
                    self.listen_at(&config, &connection).await;
                    connection.close().await;
                }
                Err(error) => tracing::debug!(%error, "cannot listen to announcements"),
            }
            tokio::select! {
                () = self.context.real.sleep(REOPEN) => {}
                () = self.context.closing.cancelled() => {}
            }
        }
    }

    /// Opens a connection that announcements come by.
    async fn open_listener(&self) -> Result<(Config, Connection), FredError> {
        let options = &self.context.options;
        let none = || FredError::new(ErrorKind::Cluster, "no server is known");
        let config = self.routes.next_announcer().ok_or_else(none)?;
        let connection = Connection::open(config.clone(), options, options.command_timeout).await?;
        Ok((config, connection))
    }

    async fn listen_at(&self, config: &Config, connection: &Connection) {
        let mut messages = connection.client().message_rx();
        if let Err(error) = self.subscribe(connection.client()).await {
            tracing::warn!(%error, "cannot subscribe to announcements yet");
        }
        // What was announced before is found by a look.
        self.wake_sweep.send_replace(());
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Ok(message) => self.heard(&message),
                    Err(RecvError::Lagged(count)) => {
                        tracing::warn!(count, "announcements were dropped");
                        self.announcements.doubt_all();
                    }
                    Err(RecvError::Closed) => return,
                },
                cause = connection.lost() => return self.context.log_loss(connection.server(), &cause),
                () = self.context.real.sleep(LOOK) => {
                    if !self.routes.leads_on(config) {
                        return;
                    }
                }
                () = self.context.closing.cancelled() => return,
            }
        }
    }

    fn heard(&self, message: &Message) {
        if message.channel == self.keys.settings_channel {
            self.wake_sweep.send_replace(());
            return;
        }
        let Some(text) = message.value.as_str() else { return };
        let Some((process, shard, number, topic)) = parse(&text) else {
            tracing::warn!("an announcement that cannot be read");
            return;
        };
        self.announcements.hear(shard, number);
        // What this process made ready it told its own listener then.
        if process != self.process && self.keys.shards().any(|known| known == shard) {
            self.tell_ready(&topic, shard);
        }
    }
}

/// Reads `process shard number topic`.
fn parse(text: &str) -> Option<(&str, Shard, i64, Topic)> {
    let mut parts = text.splitn(4, ' ');
    let (process, shard, number) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((process, shard, number, Topic::parse(parts.next()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_between_announcements_leaves_a_doubt() {
        let announcements = Announcements::new(2);
        announcements.set_heard(1, 5);
        announcements.hear(1, 6);
        assert!(announcements.doubt(1).is_none(), "6 follows 5");
        assert!(announcements.doubt(1).is_none(), "nor does asking leave a doubt");
        announcements.hear(1, 9);
        announcements.doubt(1).expect("7 and 8 are missing").settle();
        announcements.hear(1, 10);
        assert!(announcements.doubt(1).is_none(), "the look made up for it");
        announcements.hear(1, 3);
        assert!(announcements.doubt(1).is_some(), "another server counts otherwise");
        announcements.doubt_all();
        assert!(announcements.doubt(0).is_some());
    }

    #[test]
    fn announcements_are_read_or_refused() {
        let topic = Topic::parse("a:b").expect("valid");
        assert_eq!(parse("p 3 17 a:b"), Some(("p", 3, 17, topic)));
        for text in ["", "p", "p 3", "p 3 17", "p x 17 a", "p 3 x a", "p 3 17 a b", "p 3 17 "] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
