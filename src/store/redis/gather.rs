//! Several callers, one call: while a call of one kind is on its way to a shard, what others ask of
//! that kind and shard gathers, and goes together in the next. Half of a small script's cost is
//! getting there and starting it. Who comes alone goes alone, at once: there is no timer and no task
//! in between.

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::oneshot;

use super::{Context, Engine, keys::Shard};
use crate::{
    clock::Clock,
    store::{Error, Result},
};

/// Most items, and about the most bytes, that strangers share a call for, so that none holds Redis up
/// for long.
const LIMIT: (usize, usize) = (64, 512 * 1_024);

/// A kind of call that can be shared.
pub(super) trait Work: Sized + Send + 'static {
    /// What is asked for.
    type Item: Send + 'static;
    /// What comes of it.
    type Answer: Send + 'static;

    /// Where its callers meet.
    fn gather(engine: &Engine) -> &Gather<Self>;

    /// About how many bytes an item takes.
    fn weight(item: &Self::Item) -> usize;

    /// Makes the call; one answer per item, in order.
    fn call(
        engine: &Engine,
        shard: Shard,
        items: Vec<Self::Item>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>>> + Send;
}

/// Where the callers of one kind meet, shard by shard.
pub(super) struct Gather<W: Work>(Vec<Mutex<Line<W>>>);

struct Line<W: Work> {
    busy: bool,
    waiting: Vec<Ask<W>>,
}

struct Ask<W: Work> {
    items: Vec<W::Item>,
    answer: oneshot::Sender<Result<Vec<W::Answer>>>,
}

impl<W: Work> Gather<W> {
    pub fn new(shards: u16) -> Self {
        Self((0..shards).map(|_| Mutex::new(Line { busy: false, waiting: Vec::new() })).collect())
    }

    fn lock(&self, shard: Shard) -> MutexGuard<'_, Line<W>> {
        self.0[usize::from(shard)].lock().expect("no code panics while it holds a line")
    }

    /// The next to share a call; when nobody waits, the line is free.
    fn next(&self, shard: Shard) -> Vec<Ask<W>> {
        let mut line = self.lock(shard);
        // What nobody waits for any more must not happen later, when it may be a surprise.
        line.waiting.retain(|ask| !ask.answer.is_closed());
        let (mut items, mut bytes) = (0, 0);
        let together = line.waiting.iter().take_while(|ask| {
            let room = items == 0 || (items < LIMIT.0 && bytes < LIMIT.1);
            items += ask.items.len();
            bytes += ask.items.iter().map(W::weight).sum::<usize>();
            room
        });
        let count = together.count();
        line.busy = count > 0;
        line.waiting.drain(..count).collect()
    }
}

impl Engine {
    /// Has `items` done, alone or together with what others ask.
    pub(super) async fn gathered<W: Work>(
        self: &Arc<Self>,
        shard: Shard,
        items: Vec<W::Item>,
    ) -> Result<Vec<W::Answer>> {
        let answered = {
            let mut line = W::gather(self).lock(shard);
            if line.busy {
                let (answer, answered) = oneshot::channel();
                line.waiting.push(Ask { items, answer });
                Err(answered)
            } else {
                line.busy = true;
                Ok(items)
            }
        };
        match answered {
            Ok(items) => {
                let _turn = Turn::<W>::new(self, shard);
                W::call(self, shard, items).await
            }
            Err(answered) => self.in_turn(answered).await,
        }
    }

    /// Waits for one's turn and its answer, though behind a shard that does not answer no longer than it
    /// may take to be tried again.
    async fn in_turn<A>(&self, answered: oneshot::Receiver<Result<A>>) -> Result<A> {
        let Context { options, real, .. } = &self.context;
        let away = |what: &str| Err(Error::Unavailable(what.to_owned()));
        tokio::select! {
            answer = answered => answer.unwrap_or_else(|_| away("the store is closing")),
            () = real.sleep(options.retry_for) => away("the calls before this one were not answered in time"),
        }
    }
}

/// A busy line's present call. When it ends, however it does, the line goes to who waits.
struct Turn<W: Work> {
    engine: Arc<Engine>,
    shard: Shard,
    kind: PhantomData<fn() -> W>,
}

impl<W: Work> Turn<W> {
    fn new(engine: &Arc<Engine>, shard: Shard) -> Self {
        Self { engine: engine.clone(), shard, kind: PhantomData }
    }
}

impl<W: Work> Drop for Turn<W> {
    fn drop(&mut self) {
        let asks = W::gather(&self.engine).next(self.shard);
        if !asks.is_empty() {
            let turn = Self::new(&self.engine, self.shard);
            let context = &self.engine.context;
            // Not by the caller: it has its own answer to carry home.
            context.tasks.spawn_on(serve(turn, asks), &context.runtime);
        }
    }
}

/// Makes one call for all who waited.
async fn serve<W: Work>(turn: Turn<W>, asks: Vec<Ask<W>>) {
    let counts: Vec<usize> = asks.iter().map(|ask| ask.items.len()).collect();
    let (items, callers): (Vec<_>, Vec<_>) = asks.into_iter().map(|ask| (ask.items, ask.answer)).unzip();
    let items = items.into_iter().flatten().collect();
    let mut answers = W::call(&turn.engine, turn.shard, items).await.map(Vec::into_iter);
    for (caller, count) in callers.into_iter().zip(counts) {
        let share = answers.as_mut().map(|answers| answers.by_ref().take(count).collect());
        // A caller that went away has had its part done all the same.
        let _ = caller.send(share.map_err(|error| error.clone()));
    }
}
