//! `linger top` on a terminal: reads, draws and takes keys until it is told to end.

use std::{io, pin::Pin, time::Duration};

use linger_client::{Client, Request, Timestamp, TopicSort};
use rustix::io::Errno;

use super::{
    args::TopArgs,
    draw::{lines, rows},
    input::{Input, TerminalEvent, TerminalSignals},
    reading::{self, Reading},
    screen::{Screen, give_back},
    state::{Effect, State},
};
use crate::{
    cli::{
        exit::{Exit, Failure},
        session::Session,
    },
    clock::Clock,
    process::signals::StopSignal,
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
    // Signals are caught before the terminal is taken: none may end the process while it is.
    session.clean_up_on_signal(give_back);
    let watched = async {
        let signals = TerminalSignals::new()?;
        let mut screen = Screen::open()?;
        let mut input = signals.with_keys(screen.keyboard())?;
        watch(session, &mut state, &mut screen, &mut input).await
    };
    watched.await.or_else(|error| ended(&error))
}

async fn watch(
    session: &Session,
    state: &mut State,
    screen: &mut Screen,
    input: &mut Input,
) -> io::Result<Exit> {
    let clock = &*session.clock;
    // A call that fails is not repeated before the next reading, which says meanwhile what is wrong.
    let client = session.client.single_connection();
    let every_us = i64::try_from(state.every.as_micros()).unwrap_or(i64::MAX);
    let mut reading: Option<Pending<'_>> = None;
    // The first reading did not ask whether the server is ready.
    let mut next_us = clock.now_micros();
    loop {
        let now_us = clock.now_micros();
        if reading.is_none() && now_us >= next_us {
            reading = Some(Box::pin(read(&client, clock, state.sort, state.prefix.clone())));
            next_us = now_us.saturating_add(every_us);
        }
        let size = screen.size();
        screen.draw(lines(state, now_us, size))?;
        let until_next = Duration::from_micros(u64::try_from(next_us - now_us).unwrap_or(0));
        let tick = if reading.is_some() { TICK } else { until_next.min(TICK) };
        tokio::select! {
            biased;
            signal = session.stopped() => return Ok(Exit::Signal(signal)),
            event = input.next(screen.has_terminal()) => match event? {
                TerminalEvent::Stopped(signal) => return Ok(Exit::Signal(signal)),
                TerminalEvent::Resized => {}
                TerminalEvent::Suspended => screen.suspend()?,
                // A call that was on its way has had no time, so it would fail.
                TerminalEvent::Continued => {
                    screen.resume();
                    (reading, next_us) = (None, now_us);
                }
                TerminalEvent::Key(action) => match state.apply(action, rows(state, size.1)) {
                    Effect::Quit => return Ok(Exit::Done),
                    Effect::Read => (reading, next_us) = (None, now_us),
                    Effect::Draw => {}
                },
            },
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

/// How the command ends when its terminal fails. One that is closed fails, and sends SIGHUP too, perhaps a little later.
fn ended(error: &io::Error) -> Result<Exit, Failure> {
    let is_closed = error.kind() == io::ErrorKind::UnexpectedEof
        || error.raw_os_error() == Some(Errno::IO.raw_os_error());
    if is_closed {
        return Ok(Exit::Signal(StopSignal::HangUp));
    }
    Err(Failure::new(Exit::Failed, format!("the terminal cannot be used: {error}")))
}
