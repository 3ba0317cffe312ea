//! A store that fails on demand, because a real engine fails only rarely.

mod archive;
mod hung_calls;
mod notices;
mod store;

pub use hung_calls::HungCalls;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use linger::{
    job::{Topic, TopicSettings},
    store::{Error, Result, Store},
};

/// What happens to one call.
#[derive(Debug, Default)]
pub struct Fault {
    /// Whether the call takes effect before it hangs or fails.
    pub takes_effect: bool,
    /// What it hangs with.
    pub hung: Option<Arc<HungCalls>>,
    /// How it fails afterwards.
    pub failure: Option<Failure>,
}

impl Fault {
    async fn strike(self) -> Result<()> {
        if let Some(hung) = self.hung {
            hung.wait().await;
        }
        match self.failure {
            None => Ok(()),
            Some(Failure::Error(error)) => Err(error),
            // Unlike `panic!` this prints nothing, which would take most of the time of a test with thousands of them.
            Some(Failure::Panic) => std::panic::resume_unwind(Box::new("as the test demanded")),
        }
    }
}

/// Chooses the fault of each call, by the name of the operation.
pub type ChooseFault = Box<dyn FnMut(&'static str) -> Fault + Send>;

/// How a call fails.
#[derive(Debug, Clone)]
pub enum Failure {
    Error(Error),
    Panic,
}

#[derive(Default)]
struct Faults(Option<ChooseFault>);

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faults")
    }
}

/// Passes every call to another store until it is made to fail.
#[derive(Debug)]
pub struct FailingStore {
    inner: Arc<dyn Store>,
    failure: Mutex<Option<Failure>>,
    faults: Mutex<Faults>,
    /// The receipts of the reservations that were returned to callers and not cancelled.
    granted: Mutex<HashSet<String>>,
    hung_reserves: Mutex<HashMap<Topic, Arc<HungCalls>>>,
    hung_checks: Mutex<Option<Arc<HungCalls>>>,
    hung_topics: Mutex<Option<Arc<HungCalls>>>,
    hung_timelines: Mutex<Option<Arc<HungCalls>>>,
    hung_lists: Mutex<Option<Arc<HungCalls>>>,
    hung_gets: Mutex<Option<Arc<HungCalls>>>,
    hung_changes: Mutex<Option<Arc<HungCalls>>>,
    put_before: Mutex<Option<TopicSettings>>,
    notices_fail: AtomicBool,
    new_notices_lost: AtomicBool,
    written_notices: AtomicUsize,
    hung_notices: Mutex<Option<Arc<HungCalls>>>,
    ignores_waiting: AtomicBool,
    waiting_reserves: AtomicUsize,
}

impl FailingStore {
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            failure: Mutex::default(),
            faults: Mutex::default(),
            granted: Mutex::default(),
            hung_reserves: Mutex::default(),
            hung_checks: Mutex::default(),
            hung_topics: Mutex::default(),
            hung_timelines: Mutex::default(),
            hung_lists: Mutex::default(),
            hung_gets: Mutex::default(),
            hung_changes: Mutex::default(),
            put_before: Mutex::default(),
            notices_fail: AtomicBool::default(),
            new_notices_lost: AtomicBool::default(),
            written_notices: AtomicUsize::default(),
            hung_notices: Mutex::default(),
            ignores_waiting: AtomicBool::default(),
            waiting_reserves: AtomicUsize::default(),
        })
    }

    /// Makes every operation fail, or work again.
    pub fn fail(&self, failure: Option<Failure>) {
        *self.failure.lock().expect("not poisoned") = failure;
    }

    /// Makes the notices fail, or work again. They do not fail with everything else.
    pub fn fail_notices(&self, fail: bool) {
        self.notices_fail.store(fail, Ordering::Relaxed);
    }

    /// Reserves nothing for waiting callers from now on, or again.
    pub fn ignore_waiting_callers(&self, ignores: bool) {
        self.ignores_waiting.store(ignores, Ordering::Relaxed);
    }

    /// The number of calls of `reserve` with `Wait::Yes`.
    pub fn waiting_reserves(&self) -> usize {
        self.waiting_reserves.load(Ordering::Relaxed)
    }

    /// Has another caller put these settings, just before the next ones are put.
    pub fn put_before_next(&self, settings: TopicSettings) {
        *self.put_before.lock().expect("not poisoned") = Some(settings);
    }

    /// Makes the reserves of one topic hang from now on.
    pub fn hang(&self, topic: &Topic) -> Arc<HungCalls> {
        let hung = HungCalls::new();
        self.hung_reserves.lock().expect("not poisoned").insert(topic.clone(), hung.clone());
        hung
    }

    /// Makes checks hang from now on.
    pub fn hang_checks(&self) -> Arc<HungCalls> {
        self.hung_checks.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes the listing of topics hang from now on.
    pub fn hang_topics(&self) -> Arc<HungCalls> {
        self.hung_topics.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes timelines hang from now on.
    pub fn hang_timelines(&self) -> Arc<HungCalls> {
        self.hung_timelines.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes lists hang from now on.
    pub fn hang_lists(&self) -> Arc<HungCalls> {
        self.hung_lists.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes reads of jobs hang from now on.
    pub fn hang_gets(&self) -> Arc<HungCalls> {
        self.hung_gets.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    /// Makes changes of listed jobs hang from now on.
    pub fn hang_changes(&self) -> Arc<HungCalls> {
        self.hung_changes.lock().expect("not poisoned").insert(HungCalls::new()).clone()
    }

    async fn wait_if_hung(&self, topic: &Topic) {
        let hung = self.hung_reserves.lock().expect("not poisoned").get(topic).cloned();
        if let Some(hung) = hung {
            hung.wait().await;
        }
    }

    /// Has `choose` choose a fault for every call from now on; `None` ends that.
    pub fn choose_faults(&self, choose: Option<ChooseFault>) {
        self.faults.lock().expect("not poisoned").0 = choose;
    }

    /// Counts the calls of one operation from now on; no fault is chosen any more.
    pub fn count_calls(&self, operation: &'static str) -> impl Fn() -> usize + use<> {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        self.choose_faults(Some(Box::new(move |called| {
            counted.fetch_add(usize::from(called == operation), Ordering::Relaxed);
            Fault::default()
        })));
        move || calls.load(Ordering::Relaxed)
    }

    /// The receipts of the reservations that were returned to callers, without those that a caller cancelled since.
    pub fn granted(&self) -> HashSet<String> {
        self.lock_granted().clone()
    }

    fn lock_granted(&self) -> MutexGuard<'_, HashSet<String>> {
        self.granted.lock().expect("not poisoned")
    }

    fn next_fault(&self, operation: &'static str) -> Fault {
        if let Some(failure) = self.failure.lock().expect("not poisoned").clone() {
            return Fault { failure: Some(failure), ..Fault::default() };
        }
        self.chosen_fault(operation)
    }

    fn chosen_fault(&self, operation: &'static str) -> Fault {
        let choose = &mut self.faults.lock().expect("not poisoned").0;
        choose.as_mut().map(|choose| choose(operation)).unwrap_or_default()
    }

    /// Makes the call of an operation, with its fault.
    async fn call<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let fault = self.next_fault(operation);
        if fault.takes_effect {
            let result = call.await;
            fault.strike().await?;
            return result;
        }
        fault.strike().await?;
        call.await
    }
}
