//! `linger top` on a terminal: reads, draws and takes keys until it is told to end.

use std::{future::pending, io, mem::ManuallyDrop, pin::Pin, time::Duration};

use futures_util::StreamExt;
use linger_client::{Client, Request, Timestamp, TopicSort};
use ratatui::crossterm::event::EventStream;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    args::TopArgs,
    draw::{draw, rows},
    keys,
    reading::{self, Reading},
    screen::Screen,
    state::{Effect, State},
};
use crate::{
    cli::{
        exit::{Exit, Failure},
        session::Session,
    },
    clock::Clock,
    signals::StopSignal,
};

/// How often the ages on the screen are drawn anew.
const TICK: Duration = Duration::from_secs(1);

type Pending<'a> = Pin<Box<dyn Future<Output = Result<Reading, Failure>> + 'a>>;

/// Shows the figures until a key, a signal or the end of the terminal.
pub(super) async fn run(session: &Session, arguments: &TopArgs) -> Result<Exit, Failure> {
    let TopArgs { sort, prefix, every, .. } = arguments;
    // What is wrong with the server's address or the token is said before the terminal is taken.
    let call = async |request: Request| session.call(&request).await;
    let answers = reading::read(call, *sort, prefix.as_deref()).await?;
    let mut state = State {
        server: session.server(),
        sort: *sort,
        prefix: prefix.clone(),
        every: *every,
        reading: answers.reading(now(&*session.clock))?,
        read_at_us: session.clock.now_micros(),
        trouble: None,
        offset: 0,
        shows_help: false,
    };
    session.clean_up_on_signal();
    let mut screen = Screen::open().map_err(|error| failed(&error))?;
    watch(session, &mut state, &mut screen).await
}

async fn watch(session: &Session, state: &mut State, screen: &mut Screen) -> Result<Exit, Failure> {
    let clock = &*session.clock;
    // A call that fails is not repeated before the next reading, which says meanwhile what is wrong.
    let client = session.client.single_connection();
    let every_us = i64::try_from(state.every.as_micros()).unwrap_or(i64::MAX);
    // Its drop waits for crossterm's reader, which spins and never lets go once the terminal is closed. The process ends
    // right after this.
    let mut keys = ManuallyDrop::new(EventStream::new());
    let mut hang_up = signal(SignalKind::hangup()).map_err(|error| failed(&error))?;
    let mut reading: Option<Pending<'_>> = None;
    // The first reading did not ask whether the server is ready.
    let mut next_us = clock.now_micros();
    loop {
        let now_us = clock.now_micros();
        if reading.is_none() && now_us >= next_us {
            reading = Some(Box::pin(read(&client, clock, state.sort, state.prefix.clone())));
            next_us = now_us.saturating_add(every_us);
        }
        screen.draw(|frame| draw(frame, state, now_us)).map_err(|error| failed(&error))?;
        let until_next = Duration::from_micros(u64::try_from(next_us - now_us).unwrap_or(0));
        let tick = if reading.is_some() { TICK } else { until_next.min(TICK) };
        tokio::select! {
            biased;
            stopped = session.until_stopped(pending()) => return stopped,
            _ = hang_up.recv() => return Ok(Exit::Signal(StopSignal::HangUp)),
            event = keys.next() => {
                let event = event.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
                let event = event.map_err(|error| failed(&error))?;
                let rows = rows(state, screen.height());
                match keys::action(&event).map(|action| state.apply(action, rows)) {
                    Some(Effect::Quit) => return Ok(Exit::Done),
                    Some(Effect::Read) => (reading, next_us) = (None, now_us),
                    Some(Effect::Draw) | None => {}
                }
            }
            read = async { reading.as_mut().expect("the branch is off without one").await },
                if reading.is_some() =>
            {
                reading = None;
                state.receive(read, clock.now_micros());
            }
            () = clock.sleep(tick) => {}
        }
    }
}

/// Reads the figures once, and whether the server is ready.
async fn read(
    client: &Client,
    clock: &dyn Clock,
    sort: TopicSort,
    prefix: Option<String>,
) -> Result<Reading, Failure> {
    let call = async |request: Request| client.send(&request).await.map_err(Failure::from);
    let answers = reading::read(call, sort, prefix.as_deref()).await?;
    let not_ready = match client.ready().await.map_err(Failure::from) {
        Ok(()) => None,
        Err(failure) if failure.has_answer() => Some(failure.message),
        Err(failure) => return Err(failure),
    };
    Ok(Reading { not_ready, ..answers.reading(now(clock))? })
}

fn now(clock: &dyn Clock) -> Timestamp {
    Timestamp::from_microsecond(clock.now_micros()).unwrap_or_default()
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("the terminal cannot be used: {error}"))
}
