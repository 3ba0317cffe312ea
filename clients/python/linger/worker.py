"""Runs the jobs of some topics."""
from __future__ import annotations

import inspect
import os
import queue
import signal
import socket
import threading
from collections.abc import Sequence
from typing import Any, Callable

from .attempt import LAST_REPORTS, LONGEST_WAIT, Attempt
from .calls import LONGEST_PAUSE, Error, Refused, Scope, pause_after
from .client import Client
from .events import Events, Hook
from .heartbeats import Heartbeats, now
from .jobs import Job
from .values import Seconds, count, optional, seconds, text

POLL_WAIT = 20.0


class Worker:
    """Runs a handler for each job of some topics, the most urgent topic first, each in a thread of its own.

    When the handler returns, the job is finished; when it raises Bury, the job is buried; after any other exception it is released
    with that as its reason and comes back on its schedule. The handler may run twice for the same job, so its work must be safe
    to repeat. While it runs, the worker extends its reservation after each third of it, or before along with those of other jobs. A
    reservation counts from when the last call that succeeded was sent, and is lost after nine tenths, or when the server says so. Then `job.lost` is set: others may
    have the job by now, so the handler must stop, and what it returns does not count.

    Without `ttr`, reservations last for the jobs' own TTR. `on_event` is told what happens, by several threads: the event, the
    job or None, and why. Its errors are logged. By default the logger "linger" writes it.

        away, back           the server, without a job
        failed               the handler's exception, or why it could not be started
        lost                 the reservation
        late                 the end of the job was reported too late: it, or a newer version of it, runs again
        refused, unanswered  the end of the job could not be reported
    """

    def __init__(self, client: Client, topics: Sequence[str], handler: Callable[[Job], Any], *, parallel: int = 1,
                 ttr: Seconds | None = None, drain: Seconds = 25, name: str | None = None,
                 on_event: Hook | None = None) -> None:
        self._topics = [text("a topic", topic) for topic in ([topics] if isinstance(topics, str) else topics)]
        if not isinstance(client, Client):
            raise TypeError(f"client must be a Client, not {client!r}")
        if not self._topics:
            raise ValueError("topics must name at least one topic")
        if not callable(handler) or not (on_event is None or callable(on_event)):
            raise TypeError("the handler and on_event must be callable")
        for what in (handler, getattr(handler, "__call__", None)):
            if inspect.iscoroutinefunction(what) or inspect.isgeneratorfunction(what) or inspect.isasyncgenfunction(what):
                raise TypeError("the handler must do the work when it is called: wrap a coroutine in asyncio.run")
        if count("parallel", parallel) < 1:
            raise ValueError(f"parallel must be at least 1, not {parallel}")
        if seconds("drain", drain) < 0:
            raise ValueError(f"drain must not be negative: {drain!r}")
        self._client, self._handler, self._name = client, handler, optional(text, "name", name)
        self._ttr, self._drain = optional(seconds, "ttr", ttr), min(seconds("drain", drain), threading.TIMEOUT_MAX)
        self._events = Events(on_event)
        self._heartbeats = Heartbeats(client, self._ttr)
        self._polls, self._reports = Scope(), Scope()
        self._stops: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._places = threading.Semaphore(parallel)
        self._running: dict[threading.Thread, Attempt] = {}
        self._lock = threading.Lock()
        self._is_drained = threading.Event()
        self._first_run = threading.Lock()

    def stop(self) -> None:
        """Has run() take no more jobs and return once those that run have ended. May be called in a signal handler."""
        # Unlike an event, this may be interrupted by a signal handler that does the same.
        self._stops.put(None)

    def run_until_signal(self) -> None:
        """Is run() until SIGTERM or SIGINT; a second signal ends the process. For the main thread, which gets the signals."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("run_until_signal() is for the main thread, which gets the signals; use run() and stop()")
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.getsignal(number) for number in signals}

        def stop(*_: Any) -> None:
            for number in signals:
                signal.signal(number, signal.SIG_DFL)
            self.stop()

        for number in signals:
            signal.signal(number, stop)
        try:
            self.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run(self) -> None:
        """Pops and runs jobs until stop(), or raises what the server refuses the worker with, as with a wrong token. Then it
        takes no more jobs and waits for those that run: after `drain` it sets their `lost`, and they are released without delay.
        While the server is away it goes on trying; the end of a job is sent until it is answered or the job's reservation ends.
        A worker runs once: a second run() raises RuntimeError."""
        if not self._first_run.acquire(blocking=False):
            raise RuntimeError("a worker runs once; make another Worker")
        # Here, since it may be a child of the process that made the worker.
        if self._name is None:
            self._name = f"{socket.gethostname()[:48]}:{os.getpid()}"
        has_ended = threading.Event()
        threading.Thread(target=self._end, args=(has_ended,), name="linger-stop", daemon=True).start()
        try:
            self._poll()
        finally:
            self.stop()
            while self._running:
                for thread in list(self._running):
                    thread.join()
            has_ended.set()

    def _end(self, has_ended: threading.Event) -> None:
        """Waits for a stop; then drops the poll, and the rest in time."""
        self._stops.get()
        self._polls.cut()
        if has_ended.wait(self._drain):
            return
        with self._lock:
            self._is_drained.set()
            for attempt in self._running.values():
                attempt.lost.set()
        if not has_ended.wait(LAST_REPORTS):
            self._reports.cut()

    def _poll(self) -> None:
        """Starts a thread for each job that it gets."""
        failures = 0
        while not self._polls.is_cut.is_set():
            if not self._places.acquire(timeout=LONGEST_WAIT):
                continue
            free, sent, jobs = 1, now(), []
            while free < 1000 and self._places.acquire(blocking=False):
                free += 1
            failure: Error | None = None
            try:
                jobs = self._client.pop_within(self._polls, self._topics, free, POLL_WAIT, self._ttr, self._name)
            except Error as error:
                if isinstance(error, Refused) and not error.is_temporary:
                    raise
                failure = error
            for job in jobs:
                self._start(job, sent)
            for _ in range(free - len(jobs)):
                self._places.release()
            if failure is None:
                if failures:
                    self._events.send("back", None, None)
                failures = 0
            elif not self._polls.is_cut.is_set():
                if not failures:
                    self._events.send("away", None, failure)
                self._polls.is_cut.wait(min(pause_after(failures, failure), LONGEST_PAUSE))
                failures += 1

    def _start(self, job: Job, sent: float) -> None:
        attempt = Attempt(self._client, job, sent, self._handler, self._ttr, self._heartbeats, self._reports, self._events)
        thread = threading.Thread(target=self._attempt, args=(attempt,), name=f"linger-{job.id}", daemon=True)
        with self._lock:
            self._running[thread] = attempt
            if self._is_drained.is_set():
                attempt.lost.set()
        try:
            thread.start()
        except RuntimeError as error:  # the system gives no more threads
            with self._lock:
                del self._running[thread]
            self._places.release()
            attempt.give_back(error)
            self._polls.is_cut.wait(LONGEST_PAUSE)

    def _attempt(self, attempt: Attempt) -> None:
        try:
            attempt.run()
        finally:
            with self._lock:
                del self._running[threading.current_thread()]
            self._places.release()
