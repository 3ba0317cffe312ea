//! The timeouts of the waits for a request, on a clock that the tests set.

use std::task::Wake;

use tokio::io::{AsyncWriteExt, DuplexStream};

use super::*;
use crate::{clock::ManualClock, job::Timestamp, metrics::Metrics, net::ListenerOptions};

const MILLISECOND: Duration = Duration::from_millis(1);

/// A connection with the default timeouts, whose first request is answered, and its client.
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
        let transport = Transport::new(ListenerOptions::default(), clock.clone(), &Metrics::new());
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

    /// Waits for a request, of which the first byte comes after `time`.
    async fn receive_byte_after(&mut self, time: Duration) {
        assert!(self.poll().is_pending());
        self.pass(time);
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
    let (mut connection, limit) = (Connection::new(), ListenerOptions::default().keep_alive_timeout);
    connection.receive_byte_after(limit / 3).await;
    let in_flight = connection.phase.begin();
    assert!(connection.poll().is_pending());
    // The first wait would end now.
    assert!(connection.pass(limit * 2 / 3));
    assert!(connection.poll().is_pending());
    drop(in_flight);
    assert!(connection.poll().is_pending());
    connection.pass(limit - MILLISECOND);
    assert!(connection.poll().is_pending());
    assert!(connection.pass(MILLISECOND));
    connection.assert_timed_out("the client sends no further request");
}

#[tokio::test]
async fn the_timer_of_a_wait_is_set_anew_if_it_fires_before_the_end_of_the_next() {
    let (mut connection, limit) = (Connection::new(), ListenerOptions::default().keep_alive_timeout);
    connection.receive_byte_after(limit / 3).await;
    drop(connection.phase.begin());
    assert!(connection.poll().is_pending());
    assert!(connection.pass(limit * 2 / 3), "the timer of the first wait fires within the second");
    assert!(connection.poll().is_pending());
    assert!(!connection.pass(limit / 3 - MILLISECOND));
    assert!(connection.pass(MILLISECOND));
    connection.assert_timed_out("the client sends no further request");
}

#[tokio::test]
async fn the_rest_of_a_head_has_a_shorter_timeout_than_the_wait_before_it() {
    let (mut connection, limit) = (Connection::new(), ListenerOptions::default().header_timeout);
    connection.receive_byte_after(limit / 2).await;
    assert!(connection.poll().is_pending());
    assert!(!connection.pass(limit - MILLISECOND));
    assert!(connection.pass(MILLISECOND));
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
    connection.receive_byte_after(Duration::from_secs(3_600)).await;
    assert!(connection.poll().is_pending());
    assert!(connection.pass(ListenerOptions::default().header_timeout));
    connection.assert_timed_out("the head of a request takes too long");
}
