//! The timeouts of the waits for a request, on a clock that the tests set.

use std::task::Wake;

use tokio::io::{AsyncWriteExt, DuplexStream};

use super::*;
use crate::{clock::ManualClock, job::Timestamp, metrics::Metrics, net::ListenerOptions};

const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection whose first request is answered, and its client.
struct Connection {
    stream: TimedStream<DuplexStream>,
    client: DuplexStream,
    clock: Arc<ManualClock>,
    phase: RequestPhase,
    woken: Arc<Woken>,
}

/// Whether the task of the connection was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Connection {
    fn new() -> Self {
        let (clock, phase) = (ManualClock::new(Timestamp::from_millis(0)), RequestPhase::default());
        let options = ListenerOptions {
            header_timeout: HEADER_TIMEOUT,
            keep_alive_timeout: KEEP_ALIVE_TIMEOUT,
            ..ListenerOptions::default()
        };
        let transport = Transport::new(options, clock.clone(), &Metrics::new());
        let (ours, client) = tokio::io::duplex(64);
        drop(phase.begin());
        let stream = TimedStream::new(ours, transport, phase.clone());
        Self { stream, client, clock, phase, woken: Arc::default() }
    }

    /// Polls for bytes of a request.
    fn poll(&mut self) -> Poll<io::Result<usize>> {
        let mut bytes = [0; 8];
        let mut bytes = ReadBuf::new(&mut bytes);
        let waker = self.woken.clone().into();
        let read = Pin::new(&mut self.stream).poll_read(&mut Context::from_waker(&waker), &mut bytes);
        read.map_ok(|()| bytes.filled().len())
    }

    async fn receive_byte(&mut self) {
        self.client.write_all(b"G").await.expect("has room");
        assert!(matches!(self.poll(), Poll::Ready(Ok(1))));
    }

    /// Lets `time` pass. Returns whether the task was woken.
    fn pass(&self, time: Duration) -> bool {
        self.woken.0.store(false, Ordering::Relaxed);
        self.clock.advance(time);
        self.woken.0.load(Ordering::Relaxed)
    }

    fn assert_timed_out(&mut self, message: &str) {
        match self.poll() {
            Poll::Ready(Err(error)) => assert_eq!(error.to_string(), message),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn each_wait_for_a_request_has_the_whole_timeout() {
    let mut connection = Connection::new();
    assert!(connection.poll().is_pending());
    connection.pass(Duration::from_secs(40));
    connection.receive_byte().await;
    let in_flight = connection.phase.begin();
    assert!(connection.poll().is_pending());
    // The first wait would end now.
    assert!(connection.pass(Duration::from_secs(20)));
    assert!(connection.poll().is_pending());
    drop(in_flight);
    assert!(connection.poll().is_pending());
    connection.pass(KEEP_ALIVE_TIMEOUT - Duration::from_millis(1));
    assert!(connection.poll().is_pending());
    assert!(connection.pass(Duration::from_millis(1)));
    connection.assert_timed_out("the client sends no further request");
}

#[tokio::test]
async fn the_timer_of_a_wait_is_set_anew_if_it_fires_before_the_end_of_the_next() {
    let mut connection = Connection::new();
    assert!(connection.poll().is_pending());
    connection.pass(Duration::from_secs(40));
    connection.receive_byte().await;
    drop(connection.phase.begin());
    // The second wait: from 40 s to 100 s. The timer of the first one fires at 60 s.
    assert!(connection.poll().is_pending());
    assert!(connection.pass(Duration::from_secs(20)));
    assert!(connection.poll().is_pending());
    assert!(!connection.pass(Duration::from_secs(39)));
    assert!(connection.pass(Duration::from_secs(1)));
    connection.assert_timed_out("the client sends no further request");
}

#[tokio::test]
async fn the_rest_of_a_head_has_a_shorter_timeout_than_the_wait_before_it() {
    let mut connection = Connection::new();
    assert!(connection.poll().is_pending());
    connection.pass(Duration::from_secs(5));
    connection.receive_byte().await;
    assert!(connection.poll().is_pending());
    assert!(!connection.pass(HEADER_TIMEOUT - Duration::from_millis(1)));
    assert!(connection.pass(Duration::from_millis(1)));
    connection.assert_timed_out("the head of a request takes too long");
}

/// Timers stop while the machine is suspended, and the clock goes on.
#[tokio::test]
async fn a_timer_that_should_have_fired_is_not_used_on() {
    let mut connection = Connection::new();
    assert!(connection.poll().is_pending());
    // A timer that hangs stands for one that a suspension has stopped.
    let hangs: Timeout = Box::pin(std::future::pending());
    connection.stream.timer.as_mut().expect("is set").timeout = hangs;
    connection.pass(Duration::from_secs(3_600));
    connection.receive_byte().await;
    assert!(connection.poll().is_pending());
    assert!(connection.pass(HEADER_TIMEOUT));
    connection.assert_timed_out("the head of a request takes too long");
}
