//! Several callers, one call: while a call of one kind is on its way to a shard, what others ask of
//! that kind and shard gathers, and goes together in the next. Half of a small script's cost is
//! getting there and starting it. Who comes alone goes alone, at once: there is no timer and no task
//! in between.

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::store::redis::{Context, Engine, connection::call::micros, keys::Shard};
use crate::{
    clock::Clock,
    store::{Error, Result},
};

/// Most items, and about the most bytes, that strangers share a call for, so that none holds Redis up
/// for long.
const LIMIT: (usize, usize) = (64, 512 * 1_024);

/// A call is begun only for callers who will wait this long for its answer.
const WORTH_IT: Duration = Duration::from_millis(250);

/// A kind of call that can be shared.
pub trait Work: Sized + Send + 'static {
    /// What is asked for.
    type Item: Send + 'static;
    /// What comes of it.
    type Answer: Send + 'static;

    /// Where its callers meet.
    fn gather(engine: &Engine) -> &Gather<Self>;

    /// About how many bytes an item takes.
    fn weight(item: &Self::Item) -> usize;

    /// Makes the call for callers the first of whom has waited since `since_us`; one answer per item, in order.
    fn call(
        engine: &Engine,
        shard: Shard,
        items: Vec<Self::Item>,
        since_us: i64,
    ) -> impl Future<Output = Result<Vec<Self::Answer>>> + Send;
}

/// Where the callers of one kind meet, shard by shard.
pub struct Gather<W: Work>(Vec<Mutex<Line<W>>>);

struct Line<W: Work> {
    busy: bool,
    asked: u64,
    waiting: Vec<Ask<W>>,
}

struct Ask<W: Work> {
    number: u64,
    since_us: i64,
    items: Vec<W::Item>,
    answer: oneshot::Sender<Result<Vec<W::Answer>>>,
}

type Waiting<W> = (u64, oneshot::Receiver<Result<Vec<<W as Work>::Answer>>>);

impl<W: Work> Gather<W> {
    pub fn new(shards: u16) -> Self {
        Self((0..shards).map(|_| Mutex::new(Line { busy: false, asked: 0, waiting: Vec::new() })).collect())
    }

    fn lock(&self, shard: Shard) -> MutexGuard<'_, Line<W>> {
        self.0[usize::from(shard)].lock().expect("no code panics while it holds a line")
    }

    /// Joins the line behind a call that is on its way: the ask's number, and where its answer comes.
    fn wait(line: &mut Line<W>, items: Vec<W::Item>, since_us: i64) -> Waiting<W> {
        let (answer, answered) = oneshot::channel();
        line.asked += 1;
        line.waiting.push(Ask { number: line.asked, since_us, items, answer });
        (line.asked, answered)
    }

    /// Takes an ask back that nobody has begun to do; whether it still stood in the line.
    fn take_back(&self, shard: Shard, number: u64) -> bool {
        let mut line = self.lock(shard);
        let place = line.waiting.iter().position(|ask| ask.number == number);
        place.map(|place| line.waiting.remove(place)).is_some()
    }

    /// The next to share a call, of those who came at `earliest_us` or later; when nobody waits, the line is free.
    fn next(&self, shard: Shard, earliest_us: i64) -> Vec<Ask<W>> {
        let mut line = self.lock(shard);
        // What nobody waits for any more must not happen later, when it may be a surprise. Nor is a call worth
        // beginning for those who will not wait for its answer: dropped, they are told that it did not happen.
        line.waiting.retain(|ask| !ask.answer.is_closed() && ask.since_us >= earliest_us);
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
    pub async fn gathered<W: Work>(
        self: &Arc<Self>,
        shard: Shard,
        items: Vec<W::Item>,
    ) -> Result<Vec<W::Answer>> {
        let since_us = self.context.real.now_micros();
        let answered = {
            let mut line = W::gather(self).lock(shard);
            if line.busy {
                Err(Gather::wait(&mut line, items, since_us))
            } else {
                line.busy = true;
                Ok(items)
            }
        };
        match answered {
            Ok(items) => {
                let _turn = Turn::<W>::new(self, shard);
                W::call(self, shard, items, since_us).await
            }
            Err(waiting) => self.in_turn::<W>(shard, waiting).await,
        }
    }

    /// Waits for one's turn, behind a shard that does not answer no longer than a call is tried again;
    /// once it is one's turn, for the answer: what is told to have failed must not happen later.
    async fn in_turn<W: Work>(
        &self,
        shard: Shard,
        (number, mut answered): Waiting<W>,
    ) -> Result<Vec<W::Answer>> {
        let Context { options, real, .. } = &self.context;
        let away = |what: &str| Err(Error::Unavailable(what.to_owned()));
        let answer = tokio::select! {
            answer = &mut answered => answer,
            () = real.sleep(options.retry_for) => {
                if W::gather(self).take_back(shard, number) {
                    return away("the calls before this one were not answered in time");
                }
                answered.await
            }
        };
        answer.unwrap_or_else(|_| away("the calls before this one were not answered in time"))
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
        let Context { options, real, .. } = &self.engine.context;
        let patience = options.retry_for.max(options.command_timeout);
        let earliest_us = real.now_micros() - micros(patience - WORTH_IT.min(patience / 2));
        let asks = W::gather(&self.engine).next(self.shard, earliest_us);
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
    let since_us = asks.first().map_or(0, |first| first.since_us);
    let (items, callers): (Vec<_>, Vec<_>) = asks.into_iter().map(|ask| (ask.items, ask.answer)).unzip();
    let items = items.into_iter().flatten().collect();
    let mut answers = W::call(&turn.engine, turn.shard, items, since_us).await.map(Vec::into_iter);
    for (caller, count) in callers.into_iter().zip(counts) {
        let share = answers.as_mut().map(|answers| answers.by_ref().take(count).collect());
        // A caller that went away has had its part done all the same.
        let _ = caller.send(share.map_err(|error| error.clone()));
    }
}
