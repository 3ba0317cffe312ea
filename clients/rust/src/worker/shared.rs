//! What the tasks of a worker share: its options, its client, and whether the server answers.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::watch;

use super::{
    attempt::Limits,
    contact::{Contact, is_away},
    host::{Event, Host},
    moment::BootTime,
    session::{Current, Session, is_refused},
};
use crate::{client::Client, error::Error};

/// No wait is longer: timers stop while the machine is suspended, and boot time goes on.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// What a worker takes, and how it treats it.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Where it takes jobs from, the most urgent topic first.
    pub topics: Vec<String>,
    /// Its name, shown to operators.
    pub name: String,
    /// Most jobs at a time.
    pub parallel: usize,
    /// How long a reservation lasts; each job's own TTR when left out.
    pub ttr: Option<Duration>,
    /// How long a job may run, and how it is ended.
    pub limits: Limits,
    /// How long running jobs have when the worker ends.
    pub drain: Duration,
    /// When a failed job is tried again; by its schedule when left out.
    pub retry_delay: Option<Duration>,
    /// Whether the server is told why a job failed.
    pub sends_reasons: bool,
    /// Ends once no job is ready.
    pub until_empty: bool,
    /// Ends after so many jobs.
    pub max_jobs: Option<usize>,
    /// Ends when the server is away for so long.
    pub give_up: Option<Duration>,
    /// How long one pop waits for a job.
    pub wait: Duration,
}

pub(crate) struct Shared<H> {
    pub options: WorkerOptions,
    pub host: Arc<H>,
    pub session: Session,
    contact: Mutex<Contact>,
    /// The refusal of a call that the token does not allow, also after it was read again.
    not_allowed: watch::Sender<Option<Error>>,
}

impl<H: Host> Shared<H> {
    pub fn new(options: WorkerOptions, host: Arc<H>, client: Client) -> Self {
        let (session, not_allowed) = (Session::new(client), watch::Sender::new(None));
        Self { options, host, session, contact: Mutex::default(), not_allowed }
    }

    pub fn contact(&self) -> MutexGuard<'_, Contact> {
        self.contact.lock().expect("no code panics while it holds the contact")
    }

    pub fn not_allowed(&self) -> watch::Receiver<Option<Error>> {
        self.not_allowed.subscribe()
    }

    /// Sends a call once with the present client, and again each time that its token was refused and read anew.
    pub async fn call<T>(
        &self,
        name: &'static str,
        send: impl AsyncFn(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            let current = self.session.current();
            let answer = send(&current.client).await;
            match &answer {
                Ok(_) => {
                    self.session.allowed(name);
                    self.answered();
                }
                // It was paused, and answers: it is not away.
                Err(error) if error.is_not_begun() => {}
                Err(error) if is_away(error) => self.failed(error),
                Err(error) => {
                    self.answered();
                    if !is_refused(error) {
                        self.session.allowed(name);
                    } else if self.may_repeat(&current, name, error).await {
                        continue;
                    }
                }
            }
            return answer;
        }
    }

    async fn may_repeat(&self, current: &Current, name: &'static str, error: &Error) -> bool {
        let may_repeat = self.session.refused(current, name, &*self.host).await;
        if !may_repeat {
            self.not_allowed.send_replace(Some(error.clone()));
        }
        may_repeat
    }

    fn answered(&self) {
        let away = self.contact().answered(BootTime::now());
        if let Some(time) = away {
            self.host.event(Event::Back(time));
        }
    }

    /// A call had no answer.
    pub fn failed(&self, error: &Error) {
        let is_new = self.contact().failed(error, BootTime::now());
        if is_new {
            self.host.event(Event::Away(error));
        }
    }
}

/// Waits until `moment`, or for a while. The caller looks at the clock again.
pub(crate) async fn wait_until(moment: BootTime) {
    tokio::time::sleep(BootTime::now().until(moment).min(LONGEST_WAIT)).await;
}

/// Waits until `moment` has passed.
pub(crate) async fn wait_beyond(moment: BootTime) {
    while BootTime::now() < moment {
        wait_until(moment).await;
    }
}

/// The future's output, or never anything if there is none.
pub(crate) async fn some<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
