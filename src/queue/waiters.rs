//! Parked polls: first come, first served per topic.
//!
//! Every pop stands in its topic's line, also one that does not wait. One dispatch per line asks the
//! store for as many jobs as the line wants and hands them out in order, so that ten thousand parked
//! polls cost the store nothing until a hint comes, and then one call. Knows no HTTP.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::oneshot;

use super::{
    Error,
    delivery::{Delivery, Giver},
};
use crate::{
    job::{Topic, Ttr},
    store::{Reservation, Wait},
};

/// Most jobs asked of the store at once: enough to share one commit, small enough not to hold it up.
const DISPATCH_BATCH: usize = 256;

type Answer = Result<Delivery, Error>;

/// The lines of all topics.
#[derive(Debug)]
pub(super) struct Waiters {
    giver: Arc<Giver>,
    max_waiting: usize,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    by_topic: HashMap<Topic, Line>,
    tickets: u64,
    waiting: usize,
    closed: bool,
}

#[derive(Debug, Default)]
struct Line {
    /// By ticket, so that who leaves is found and order is kept.
    waiting: BTreeMap<u64, Arc<Waiter>>,
    /// How many of them do not wait for a job to come.
    hasty: usize,
    /// Whether a dispatch is under way; it looks again before it ends if `hinted`.
    dispatching: bool,
    hinted: bool,
}

impl Line {
    fn join(&mut self, ticket: u64, waiter: Arc<Waiter>) {
        self.hasty += usize::from(!waiter.patient);
        self.waiting.insert(ticket, waiter);
    }

    fn leave(&mut self, ticket: u64) {
        if let Some(waiter) = self.waiting.remove(&ticket) {
            self.hasty -= usize::from(!waiter.patient);
        }
    }

    /// Has the line looked at: true when that takes a new dispatch, false when the one under way will.
    fn look(&mut self) -> bool {
        let new = !self.dispatching;
        self.hinted = !new;
        self.dispatching = true;
        new
    }

    /// Takes out all who do not wait.
    fn take_hasty(&mut self) -> Vec<Arc<Waiter>> {
        if self.hasty == 0 {
            return Vec::new();
        }
        self.hasty = 0;
        self.waiting.extract_if(.., |_, waiter| !waiter.patient).map(|(_, waiter)| waiter).collect()
    }
}

#[derive(Debug)]
struct Waiter {
    want: usize,
    ttr: Option<Ttr>,
    patient: bool,
    /// Taken by the first dispatch that has something for it: one waiter can stand in several lines.
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
}

impl Waiter {
    /// Answers unless somebody else has; a delivery that nobody takes gives its jobs back.
    fn answer(&self, answer: Answer) {
        let sender = self.answer.lock().expect("no code panics while it holds an answer").take();
        if let Some(sender) = sender {
            let _ = sender.send(answer);
        }
    }

    /// Whether nobody has answered yet.
    fn is_open(&self) -> bool {
        self.answer.lock().expect("no code panics while it holds an answer").is_some()
    }
}

/// What a poll wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    pub jobs: usize,
    pub ttr: Option<Ttr>,
    /// Whether it waits when nothing is ready.
    pub patient: bool,
}

/// A poll's place in its lines; left when dropped.
#[derive(Debug)]
pub(super) struct Place {
    waiters: Arc<Waiters>,
    topics: Vec<Topic>,
    ticket: u64,
    patient: bool,
    answer: oneshot::Receiver<Answer>,
}

impl Place {
    /// The answer, once there is one.
    pub async fn answered(&mut self) -> Answer {
        (&mut self.answer).await.unwrap_or_else(|_| Ok(Delivery::empty()))
    }

    /// Gives up waiting: what came in the meantime, or nothing.
    pub fn give_up(mut self) -> Answer {
        self.answer.close();
        self.answer.try_recv().unwrap_or_else(|_| Ok(Delivery::empty()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiters.leave(self);
    }
}

impl Waiters {
    pub fn new(giver: Arc<Giver>, max_waiting: usize) -> Arc<Self> {
        Arc::new(Self { giver, max_waiting, lines: Mutex::default() })
    }

    /// Joins the lines of `topics` and has each looked at that may have ready jobs.
    pub fn join(self: &Arc<Self>, topics: &[Topic], want: Want) -> Result<Place, Error> {
        let (sender, answer) = oneshot::channel();
        let waiter = Arc::new(Waiter {
            want: want.jobs,
            ttr: want.ttr,
            patient: want.patient,
            answer: Mutex::new(Some(sender)),
        });
        let (ticket, look_at) = {
            let mut lines = self.lock();
            if lines.closed {
                return Err(Error::Draining);
            }
            if want.patient && lines.waiting >= self.max_waiting {
                return Err(Error::TooManyWaiting { limit: self.max_waiting });
            }
            lines.tickets += 1;
            let ticket = lines.tickets;
            let mut look_at = Vec::new();
            for topic in topics {
                let line = lines.by_topic.entry(topic.clone()).or_default();
                line.join(ticket, waiter.clone());
                // In the same step: a dispatch that ends in between would answer who was never looked at. Who
                // waits anyway stands in the line for whatever is hinted at from here on.
                let worth_it = !want.patient || self.giver.store.may_have_ready(topic);
                if worth_it && line.look() {
                    look_at.push(topic);
                }
            }
            lines.waiting += usize::from(want.patient);
            self.giver.metrics.set_waiting(lines.waiting);
            (ticket, look_at)
        };
        for topic in look_at {
            self.dispatch(topic);
        }
        Ok(Place { waiters: self.clone(), topics: topics.to_vec(), ticket, patient: want.patient, answer })
    }

    /// `topic` may have ready jobs: has its line looked at, if anyone stands in it.
    pub fn hint(self: &Arc<Self>, topic: &Topic) {
        let new = self.lock().by_topic.get_mut(topic).is_some_and(Line::look);
        if new {
            self.dispatch(topic);
        }
    }

    fn dispatch(self: &Arc<Self>, topic: &Topic) {
        let dispatch = Dispatch { waiters: self.clone(), topic: topic.clone(), ended: false };
        self.giver.tasks.spawn_on(dispatch.run(), &self.giver.runtime);
    }

    /// Answers everybody with nothing and lets nobody else in.
    pub fn close(&self) {
        let lines = {
            let mut lines = self.lock();
            lines.closed = true;
            std::mem::take(&mut lines.by_topic)
        };
        for waiter in lines.values().flat_map(|line| line.waiting.values()) {
            waiter.answer(Ok(Delivery::empty()));
        }
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Polls waiting for `topic`.
    pub fn waiting_for(&self, topic: &Topic) -> usize {
        self.lock().by_topic.get(topic).map_or(0, |line| line.waiting.len())
    }

    /// Polls parked for anything.
    pub fn waiting(&self) -> usize {
        self.lock().waiting
    }

    fn leave(&self, place: &Place) {
        let mut lines = self.lock();
        for topic in &place.topics {
            let Some(line) = lines.by_topic.get_mut(topic) else { continue };
            line.leave(place.ticket);
            if line.waiting.is_empty() && !line.dispatching {
                lines.by_topic.remove(topic);
            }
        }
        lines.waiting -= usize::from(place.patient);
        self.giver.metrics.set_waiting(lines.waiting);
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().expect("no code panics while it holds the lines")
    }
}

/// The looking after one line; at most one per line at a time.
struct Dispatch {
    waiters: Arc<Waiters>,
    topic: Topic,
    /// Whether the line was let go; a dispatch that panics lets it go when it is dropped.
    ended: bool,
}

/// Waiters at the head of a line, in order, with their tickets.
type Front = Vec<(u64, Arc<Waiter>)>;

impl Dispatch {
    async fn run(mut self) {
        let (mut answered, mut more) = (Vec::new(), true);
        while let Some((front, wait)) = self.front(&answered, more) {
            (answered, more) = self.serve(front, wait).await;
        }
    }

    /// Takes who was `answered` out of the line, then returns its head, as many as share one call, and whether
    /// these want one job each and all of the line waits anyway. When nobody is left, or there is neither
    /// `more` nor a new hint, the line is let go in the same step, so that no hint is lost in between. Who does
    /// not wait but stood behind the last head is then answered: those before it got all there was.
    fn front(&mut self, answered: &[u64], more: bool) -> Option<(Front, Wait)> {
        let mut lines = self.waiters.lock();
        let line = lines.by_topic.get_mut(&self.topic)?;
        for ticket in answered {
            line.leave(*ticket);
        }
        let look = more || line.hinted;
        line.hinted = false;
        if look && !line.waiting.is_empty() {
            let mut wanted = 0;
            let head =
                line.waiting.iter().filter(|(_, waiter)| waiter.is_open()).take_while(|(_, waiter)| {
                    let room = wanted < DISPATCH_BATCH;
                    wanted += waiter.want;
                    room
                });
            let front: Front = head.map(|(ticket, waiter)| (*ticket, waiter.clone())).collect();
            if !front.is_empty() {
                let waits = line.hasty == 0 && front.iter().all(|(_, waiter)| waiter.want == 1);
                return Some((front, if waits { Wait::Yes } else { Wait::No }));
            }
        }
        line.dispatching = false;
        self.ended = true;
        let hasty = line.take_hasty();
        if line.waiting.is_empty() {
            lines.by_topic.remove(&self.topic);
        }
        drop(lines);
        hasty.into_iter().for_each(|waiter| waiter.answer(Ok(Delivery::empty())));
        None
    }

    /// Hands ready jobs to `front`: whose wait is over, and whether all of it is, so that there may be
    /// more for the others.
    async fn serve(&self, front: Front, wait: Wait) -> (Vec<u64>, bool) {
        // Before the store is asked: the reservations end no earlier than counted from here.
        let began_us = self.waiters.giver.clock.now_micros();
        let mut jobs = match self.reserve(&front, wait).await {
            Ok(jobs) => jobs.into_iter(),
            Err(error) => {
                let failed: Vec<_> = front.into_iter().chain(self.hasty()).collect();
                failed.iter().for_each(|(_, waiter)| waiter.answer(Err(error.clone())));
                return (failed.into_iter().map(|(ticket, _)| ticket).collect(), true);
            }
        };
        let (mut answered, mut more) = (Vec::new(), true);
        for (ticket, waiter) in front {
            let share: Vec<_> = jobs.by_ref().take(waiter.want).collect();
            more &= share.len() == waiter.want;
            if !share.is_empty() {
                let ends_us = began_us.saturating_add(shortest_us(&share, waiter.ttr));
                waiter.answer(Ok(Delivery::new(share, ends_us, self.waiters.giver.clone())));
            } else if !waiter.patient {
                waiter.answer(Ok(Delivery::empty()));
            } else {
                continue;
            }
            answered.push(ticket);
        }
        (answered, more)
    }

    /// Who does not wait, wherever in the line. When the store fails, they have waited for it as well as the
    /// head of the line: the next attempt would keep them for as long again.
    fn hasty(&self) -> Front {
        let lines = self.waiters.lock();
        let line = lines.by_topic.get(&self.topic);
        let waiting = line.into_iter().filter(|line| line.hasty > 0).flat_map(|line| &line.waiting);
        let hasty = waiting.filter(|(_, waiter)| !waiter.patient);
        hasty.map(|(ticket, waiter)| (*ticket, waiter.clone())).collect()
    }

    async fn reserve(&self, front: &Front, wait: Wait) -> Result<Vec<Reservation>, Error> {
        let store = &self.waiters.giver.store;
        if store.topic_config(&self.topic).pause.delivery {
            return Ok(Vec::new());
        }
        let ttrs: Vec<_> = front.iter().flat_map(|(_, w)| std::iter::repeat_n(w.ttr, w.want)).collect();
        Ok(store.reserve(&self.topic, &ttrs, wait).await?)
    }
}

/// The shortest of these reservations, which last for `ttr`, or for each job's own.
fn shortest_us(reservations: &[Reservation], ttr: Option<Ttr>) -> i64 {
    let ttrs = reservations.iter().map(|reservation| ttr.unwrap_or(reservation.job.ttr).as_duration());
    ttrs.min().and_then(|shortest| i64::try_from(shortest.as_micros()).ok()).unwrap_or(i64::MAX)
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if let Some(line) = self.waiters.lock().by_topic.get_mut(&self.topic) {
            line.dispatching = false;
        }
    }
}
