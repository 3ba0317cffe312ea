"""Runs one reserved job: its handler, when its heartbeats are due, and the report of its end; knows no poll. Each report has a call of
its own: it is sent when its job ends, and would have to wait for others."""
from __future__ import annotations

import inspect
import math
import queue
import threading
from typing import Any, Callable

from .calls import Error, NoAnswer, Refused, Scope
from .client import Client
from .events import Events, describe, text_of
from .heartbeats import GONE, Heartbeat, Heartbeats, Reservation, now, reservation_after
from .jobs import Job

# Waits stand still while the machine is suspended, so none is longer than this.
LONGEST_WAIT = 0.5
# How long the ends of jobs are reported after the drain, while the server does not answer.
LAST_REPORTS = 10.0


class Bury(Exception):
    """Raised by a handler whose job can never be done; its text is the reason."""


class Attempt:
    """A job and its reservation, which a call sent at `sent` has made. The handler may change the job that it is given."""

    def __init__(self, client: Client, job: Job, sent: float, handler: Callable[[Job], Any], ttr: float | None,
                 heartbeats: Heartbeats, reports: Scope, events: Events) -> None:
        self._client, self._job, self._handler, self._heartbeats = client, job, handler, heartbeats
        self._id, self._receipt, self.lost, self._lease = job.id, job.receipt, job.lost, ttr or job.ttr
        self._reports, self._events = reports, events
        job.send_note = lambda note: client.touch(self._id, self._receipt, ttr, note=note)
        self._renewed = sent
        # Whether the server says that the reservation timed out and no worker has had the job since. A finish still counts.
        self._is_timed_out = False
        # Whether a newer version of the job waits until this reservation ends.
        self._is_replaced = False
        self._beat = Heartbeat(self._id, self._receipt, sent, 0, 0, self._touched)
        self._mail: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def run(self) -> None:
        """Heartbeats and the handler have threads of their own, so that neither a slow server nor a slow handler keeps a lost
        reservation a secret."""
        self._plan(self._renewed, self._lease / 3)
        ended = self._watch()
        self._heartbeats.drop(self._beat)
        if ended:
            self._report(*ended)
        elif self._is_replaced:
            self._give_way()

    def _watch(self) -> tuple[str, dict[str, Any]] | None:
        """Waits for what happens to the job, until its handler has ended or it is lost before that was started. Returns the end
        to report, if there is one."""
        lease, arrived, is_started, is_lost = self._lease, now(), False, False
        touch_pause, wait = max(min(lease / 30, 5), 0.05), min(lease / 60, LONGEST_WAIT)
        # When a heartbeat was sent although the reservation was over: the process was stopped meanwhile.
        asked_late = math.inf
        while is_started or not is_lost:
            # The answer to a long poll may be old. The job is started once its reservation is known to last.
            if not is_started and now() < self._renewed + lease / 3:
                is_started = True
                self._start(self._handle, self._not_started)
            if not is_lost and now() >= self._beat.due:
                self._heartbeats.send(self._beat)
                if self._beat.sent >= self._renewed + lease:
                    asked_late = min(asked_late, self._beat.sent)
            try:
                kind, value = self._mail.get(timeout=wait)
            except queue.Empty:
                kind, value = "", None
            if kind == "ended":
                return None if is_lost else value
            failure: Error | None = None
            if kind == "touched":
                beat, failure = value
                said = reservation_after(failure)
                if said is Reservation.RENEWED:
                    self._renewed, asked_late = max(self._renewed, beat.sent), math.inf
                    self._plan(self._renewed, lease / 3)
                elif said is not Reservation.GONE and (is_started or said is not Reservation.TIMED_OUT):
                    self._is_timed_out = self._is_timed_out or said is Reservation.TIMED_OUT
                    failure = None
                    if beat is self._beat:
                        self._plan(now(), touch_pause)
            elif self._beat.is_late(now()):
                self._plan(now(), touch_pause)
            if failure is None and not self._is_timed_out and self._is_over(asked_late, arrived, is_started):
                failure = NoAnswer("no heartbeat got through")
            if failure and not is_lost:
                is_lost = True
                self._is_replaced = isinstance(failure, Refused) and failure.code == "job_replaced"
                self.lost.set()
                self._events.send("lost", self._job, failure)
            if is_lost:
                self._heartbeats.drop(self._beat)
        return None

    def _plan(self, since: float, wait: float) -> None:
        """Has the next heartbeat sent so long after a moment. The one before it may still bring an answer."""
        self._heartbeats.drop(self._beat)
        self._beat = Heartbeat(self._id, self._receipt, since, wait, self._touch_limit(), self._touched)
        self._heartbeats.add(self._beat)

    def _touched(self, beat: Heartbeat, failure: Error | None) -> None:
        self._mail.put(("touched", (beat, failure)))

    def _is_over(self, asked_late: float, arrived: float, is_started: bool) -> bool:
        """Whether the reservation counts as lost without an answer."""
        if not is_started:
            return now() >= arrived + self._lease
        if now() >= self._renewed + self._lease:
            # The process was stopped beyond the end of the reservation: the server is asked first.
            return now() >= asked_late + self._touch_limit()
        return now() >= self._renewed + self._lease * 0.9

    def _touch_limit(self) -> float:
        """How long a heartbeat may take: another one can follow in time if it is not answered."""
        return max(min(self._lease / 10, 10), 0.25)

    def give_back(self, error: BaseException) -> None:
        """Releases a job that cannot be started."""
        self._report(*self._not_started(error)[1])

    def _start(self, what: Callable[[], None], failed: Callable[[BaseException], tuple[str, Any]]) -> None:
        """Runs something in a thread of its own. If the system gives no more threads, `failed` makes the message of that."""
        try:
            threading.Thread(target=what, name=threading.current_thread().name, daemon=True).start()
        except RuntimeError as error:
            self._mail.put(failed(error))

    def _not_started(self, error: BaseException) -> tuple[str, Any]:
        self._events.send("failed", self._job, error)
        return "ended", ("release", {"reason": _first(f"the job could not be started: {describe(error)}")})

    def _handle(self) -> None:
        """Runs the handler. Whatever it raises, and its hook for that, ends this job and nothing else."""
        ended: tuple[str, dict[str, Any]] = "release", {"reason": "the handler failed, and its error cannot be read"}
        try:
            ended = self._end_of_handler()
        finally:
            self._mail.put(("ended", ended))

    def _end_of_handler(self) -> tuple[str, dict[str, Any]]:
        """The call by which the end of the job is reported, and its fields."""
        error = None
        try:
            refuse_unrun(self._handler(self._job))
        except BaseException as raised:  # also sys.exit()
            error = raised
        if self.lost.is_set():
            return "release", {"delay": 0, "reason": "the worker ended"}
        if error is None:
            return "finish", {}
        if isinstance(error, Bury):
            return "bury", {"reason": _first(text_of(error))}
        reason = _first(describe(error))
        self._events.send("failed", self._job, error)
        return "release", {"reason": reason}

    def _give_way(self) -> None:
        """Releases a job that was replaced. The server refuses that, and ends the reservation by it, so that the newer version need
        not wait for the TTR."""
        try:
            self._hold("release", {"delay": 0, "reason": "replaced"})
        except Error:
            pass

    def _hold(self, step: str, fields: dict[str, Any]) -> None:
        """Sends a call of the holder until the server answers it or the reservation ends."""
        left = self._lease if self._is_timed_out else self._renewed + self._lease - now()
        scope = self._reports
        if scope.is_cut.is_set():
            # The last reports are over. The server may answer all the same, so that this one is sent, too.
            left, scope = min(left, LAST_REPORTS), Scope()
        self._client.hold(self._id, step, self._receipt, give_up_after=left, scope=scope, **fields)

    def _report(self, step: str, fields: dict[str, Any]) -> None:
        """Tells the server how the job ended."""
        try:
            self._hold(step, fields)
        except NoAnswer as failure:
            self._events.send("unanswered", self._job, failure)
        except Refused as failure:
            is_missing = failure.code == "job_not_found"
            # What gave the job back may be an earlier try of this report.
            is_back = failure.repeated and failure.code in ("lease_lost", "not_reserved")
            is_done = is_missing if step == "finish" else is_back
            if not is_done:
                self._events.send("late" if failure.code in GONE else "refused", self._job, failure)


def refuse_unrun(result: object) -> None:
    """Raises TypeError if a handler has returned what would have to be run first."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(f"the handler returned {result!r}, which nothing runs; run it in the handler, as by asyncio.run")


def _first(text: str) -> str:
    """The beginning of a text, up to 1,024 bytes of UTF-8."""
    return text.encode(errors="replace")[:1024].decode(errors="ignore")
