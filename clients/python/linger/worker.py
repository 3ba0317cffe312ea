"""Runs the jobs of some topics."""
from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Callable

from .calls import LONGEST_PAUSE, NEVER, Error, NoAnswer, Refused, Scope, pause_after
from .client import Client, Job, Seconds, in_seconds

POLL_WAIT = 20.0
# How long the ends of jobs are reported after the drain, while the server does not answer.
LAST_REPORTS = 10.0
# Waits stand still while the machine is suspended, so none is longer than this.
LONGEST_WAIT = 0.5
GONE = ("job_not_found", "lease_lost", "not_reserved")

logger = logging.getLogger("linger")


class Bury(Exception):
    """Raised by a handler whose job can never be done; its text is the reason."""


class Worker:
    """Runs a handler for each job of some topics, the most urgent topic first, each in a thread of its own.

    When the handler returns, the job is finished; when it raises Bury, the job is buried; after any other exception it is released
    with that as its reason and comes back on its schedule. The handler may run twice for the same job, so its work must be safe
    to repeat. While it runs, the worker extends its reservation after each third of it. A reservation counts from when the last
    call that succeeded was sent, and is lost after nine tenths, or when the server says so. Then `job.lost` is set: others may
    have the job by now, so the handler must stop, and what it returns does not count.

    Without `ttr`, reservations last for the jobs' own TTR. `on_event` is told what happens, by several threads: the event, the
    job or None, and why. By default the logger "linger" writes it.

        away, back           the server, without a job
        failed               the handler's exception
        lost                 the reservation
        late                 the end of the job was reported too late, and it runs again
        refused, unanswered  the end of the job could not be reported
    """

    def __init__(self, client: Client, topics: Sequence[str], handler: Callable[[Job], Any], *, parallel: int = 1,
                 ttr: Seconds | None = None, drain: Seconds = 25, name: str | None = None,
                 on_event: Callable[[str, Job | None, BaseException | None], None] | None = None) -> None:
        self._client, self._topics, self._handler = client, [topics] if isinstance(topics, str) else list(topics), handler
        self._parallel, self._ttr, self._drain = parallel, in_seconds(ttr), in_seconds(drain) or 0.0
        self._name = name or f"{socket.gethostname()[:48]}:{os.getpid()}"
        self._on_event = on_event or _log
        self._polls, self._reports = Scope(), Scope()
        self._stops: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._places = threading.Semaphore(parallel)
        self._running: dict[threading.Thread, Job] = {}
        self._lock = threading.Lock()
        self._is_drained = threading.Event()

    def stop(self) -> None:
        """Has run() take no more jobs and return once those that run have ended. May be called in a signal handler."""
        # Unlike an event, this may be interrupted by a signal handler that does the same.
        self._stops.put(None)

    def run_until_signal(self) -> None:
        """Is run() until SIGTERM or SIGINT; a second signal ends the process. For the main thread."""
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
        A worker runs once."""
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
            for job in self._running.values():
                job.lost.set()
        if not has_ended.wait(LAST_REPORTS):
            self._reports.cut()

    def _poll(self) -> None:
        """Starts a thread for each job that it gets."""
        failures = 0
        while not self._polls.is_cut.is_set():
            if not self._places.acquire(timeout=LONGEST_WAIT):
                continue
            free, sent, jobs = 1, _now(), []
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
                thread = threading.Thread(target=self._attempt, args=(job, sent), name=f"linger-{job.id}", daemon=True)
                with self._lock:
                    self._running[thread] = job
                thread.start()
            for _ in range(free - len(jobs)):
                self._places.release()
            if failure is None:
                if failures:
                    self._on_event("back", None, None)
                failures = 0
            elif not self._polls.is_cut.is_set():
                if not failures:
                    self._on_event("away", None, failure)
                self._polls.is_cut.wait(min(pause_after(failures, failure), LONGEST_PAUSE))
                failures += 1

    def _attempt(self, job: Job, sent: float) -> None:
        try:
            self._run_job(job, sent)
        finally:
            with self._lock:
                del self._running[threading.current_thread()]
            self._places.release()

    def _run_job(self, job: Job, sent: float) -> None:
        """Runs one job, which a call sent at `sent` has reserved. Heartbeats and the handler have threads of their own, so that
        neither a slow server nor a slow handler keeps a lost reservation a secret."""
        lease, mail = self._ttr or job.ttr, queue.SimpleQueue[tuple[str, Any, bool]]()
        arrived, renewed, touch_due, is_started, is_lost = _now(), sent, sent + lease / 3, False, False
        touch_pause, wait = max(min(lease / 30, 5), 0.05), min(lease / 60, LONGEST_WAIT)
        while is_started or not is_lost:
            # The answer to a long poll may be old. The job is started once its reservation is known to last.
            if not is_started and _now() < renewed + lease / 3:
                is_started = True
                self._start(self._handle, job, mail)
            if not is_lost and _now() >= touch_due:
                touch_due = float("inf")
                self._start(self._touch, job, lease, mail)
            try:
                kind, value, is_told = mail.get(timeout=wait)
            except queue.Empty:
                kind, value, is_told = "", None, False
            if kind == "ended":
                if not is_lost:
                    self._report(job, value, is_told, renewed + lease)
                return
            failure: BaseException | None = None
            if kind == "touched":
                renewed, touch_due = value, value + lease / 3
            elif kind == "not touched":
                touch_due = _now() + touch_pause
                failure = value if isinstance(value, Refused) and value.code in GONE else None
            if failure is None and _now() >= (renewed + lease * 0.9 if is_started else arrived + lease):
                failure = NoAnswer("no heartbeat got through")
            if failure and not is_lost:
                is_lost = True
                job.lost.set()
                self._on_event("lost", job, failure)

    def _start(self, what: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=what, args=args, name=threading.current_thread().name, daemon=True).start()

    def _handle(self, job: Job, mail: queue.SimpleQueue[tuple[str, Any, bool]]) -> None:
        with self._lock:
            if self._is_drained.is_set():
                job.lost.set()
        error = None
        try:
            self._handler(job)
        except BaseException as raised:  # sys.exit() in a handler, too, ends its job and not the worker
            error = raised
        mail.put(("ended", error, job.lost.is_set()))

    def _touch(self, job: Job, lease: float, mail: queue.SimpleQueue[tuple[str, Any, bool]]) -> None:
        sent = _now()
        try:
            # Another one can follow in time if this one is not answered.
            limit = max(min(lease / 10, 10), 0.25)
            self._client.hold(job.id, "touch", job.receipt, ttr=self._ttr, repeat=NEVER, limit=limit)
            mail.put(("touched", sent, False))
        except Error as error:
            mail.put(("not touched", error, False))

    def _report(self, job: Job, error: BaseException | None, is_told: bool, end: float) -> None:
        """Tells the server how a job ended, until it answers or the reservation ends."""
        step = "finish"
        fields: dict[str, Any] = {}
        if is_told:
            step, fields = "release", {"delay": 0, "reason": "the worker ended"}
        elif isinstance(error, Bury):
            step, fields = "bury", {"reason": _first(str(error))}
        elif error is not None:
            step, fields = "release", {"reason": _first(str(error) or repr(error))}
            self._on_event("failed", job, error)
        try:
            left = end - _now()
            self._client.hold(job.id, step, job.receipt, give_up_after=left, scope=self._reports, **fields)
        except NoAnswer as failure:
            self._on_event("unanswered", job, failure)
        except Refused as failure:
            is_gone = failure.code == "job_not_found"
            # What gave the job back may be an earlier try of this report.
            is_done = is_gone if step == "finish" else failure.repeated and failure.code in GONE and not is_gone
            if not is_done:
                self._on_event("late" if failure.code in GONE else "refused", job, failure)


def _log(event: str, job: Job | None, error: BaseException | None) -> None:
    what = f"job {job.id} {event}" if job else f"the server is {event}"
    logger.warning("%s: %s", what, error) if error else logger.warning("%s", what)


def _first(text: str) -> str:
    """The beginning of a text, up to 1,024 bytes of UTF-8."""
    return text.encode(errors="replace")[:1024].decode(errors="ignore")


def _now() -> float:
    """The time that has passed, in suspend too where the system tells."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
