//! Steps on many jobs at once: lists, and changes of what they show.

use linger::{
    job::{Due, Reason, State, Timestamp},
    store::{ChangeJob, JobChange, JobFilter, Order, SeenJob, Steps, moment_of},
};
use rand::{RngExt, seq::IndexedRandom};

use super::Sequence;
use crate::harness::{
    jobs::topic,
    lists::{ORDERS, in_state, is_ordered, sorted, walk},
};

impl Sequence<'_> {
    /// Walks through a list page by page. Jobs of the same moment may be in any order.
    pub(super) async fn list(&mut self) {
        let filter = self.filter().await;
        let (order, limit) = (self.order(), self.random.random_range(1..5));
        self.log_step(("list", &filter, order, limit));
        let engine = walk(&*self.fixture.store, &filter, order, limit).await;
        let model = walk(&*self.model, &filter, order, limit).await;
        let is_exact = filter.state != State::Ready || self.fixture.orders_ready_jobs();
        self.assert_equal(
            &(!is_exact || is_ordered(&engine, order)),
            &true,
            &format!("the order of {engine:?}"),
        );
        self.assert_equal(&sorted(engine), &sorted(model), "a list");
    }

    /// Changes some jobs of a list, sometimes after another step.
    pub(super) async fn change(&mut self) {
        let filter = self.filter().await;
        let order = self.order();
        let seen = walk(&*self.fixture.store, &filter, order, 10).await;
        if self.random.random_bool(0.4) {
            Box::pin(self.step()).await;
        }
        let mut jobs = Vec::new();
        for listed in &seen {
            let times = [0, 1, 1, 1, 2][self.random.random_range(0..5)];
            for _ in 0..times {
                let change = self.job_change(filter.state);
                jobs.push(ChangeJob { seen: self.seen(SeenJob::new(&listed.job)), change });
            }
        }
        let by = self.sometimes(Self::actor);
        self.touched.extend(jobs.iter().map(|job| job.seen.id.clone()));
        self.log_step(("change", &jobs, &by));
        let engine = self.fixture.store.change(jobs.clone(), by.as_ref()).await.expect("answers");
        let model = self.model.change(jobs, by.as_ref()).await.expect("answers");
        self.assert_equal(&engine, &model, "change");
    }

    fn order(&mut self) -> Order {
        *ORDERS.choose(&mut self.random).expect("not empty")
    }

    /// All jobs in some state, or only some of them.
    async fn filter(&mut self) -> JobFilter {
        // Mostly one with jobs.
        let mut states: Vec<_> = State::ALL.into_iter().filter(|_| self.random.random_bool(0.1)).collect();
        for state in State::ALL {
            if !in_state(&*self.model, state).await.is_empty() {
                states.push(state);
            }
        }
        let state = states.choose(&mut self.random).copied().unwrap_or(State::Delayed);
        let all = in_state(&*self.model, state).await;
        let moments: Vec<_> = all.iter().map(|listed| moment_of(&listed.job)).collect();
        let mut filter = JobFilter::all(state);
        filter.topic = self.sometimes(Self::topic);
        if self.random.random_bool(0.3) {
            filter.from = Some(self.edge(&moments));
        }
        if self.random.random_bool(0.3) {
            filter.to = Some(self.edge(&moments));
        }
        if self.random.random_bool(0.2) {
            let prefix = self.random.random_range(1..4);
            filter.id_prefix = Some(self.id().as_str()[..prefix].into());
        }
        if self.random.random_bool(0.2) {
            let prefixes = ["", "reason", "reason 3", "buried", "attempts", "r"];
            filter.reason_prefix = prefixes.choose(&mut self.random).map(|prefix| (*prefix).into());
        }
        if self.random.random_bool(if state == State::Reserved { 0.4 } else { 0.05 }) {
            filter.reserved_by = Some(self.actor());
        }
        filter
    }

    /// A moment at or beside one of `moments`.
    fn edge(&mut self, moments: &[Timestamp]) -> Timestamp {
        let moment = moments.choose(&mut self.random).copied().unwrap_or(self.fixture.now());
        Timestamp::from_millis(moment.as_millis() + self.random.random_range(-1..=1))
    }

    /// The job as it was seen, or rarely as it never was.
    fn seen(&mut self, seen: SeenJob) -> SeenJob {
        match self.random.random_range(0..20) {
            0 => SeenJob { topic: topic("never"), ..seen },
            1 => SeenJob { moment: self.edge(&[seen.moment]), ..seen },
            2 => SeenJob { state: *State::ALL.choose(&mut self.random).expect("not empty"), ..seen },
            3 => SeenJob { id: self.id(), ..seen },
            _ => seen,
        }
    }

    /// Mostly a change that applies to `state`.
    fn job_change(&mut self, state: State) -> JobChange {
        let [requeues, revokes] =
            [State::Dead, State::Reserved].map(|suits| if state == suits { 0.8 } else { 0.1 });
        if self.random.random_bool(0.2) {
            JobChange::Delete
        } else if self.random.random_bool(requeues) {
            JobChange::Requeue(self.due_or_past().into())
        } else if self.random.random_bool(revokes) {
            JobChange::Revoke { due: self.due_or_past(), reason: Reason::new("revoked") }
        } else {
            JobChange::Reschedule(self.due_or_past())
        }
    }

    fn due_or_past(&mut self) -> Due {
        match self.random.random_range(0..4) {
            0 => Due::At(Timestamp::from_millis(self.fixture.now().as_millis() - 1_000)),
            _ => self.due(),
        }
    }
}
