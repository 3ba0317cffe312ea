"""The heartbeats of a worker: one call carries those of many jobs.

Whichever attempt finds that its heartbeat is due has it sent, and with it each other one of which half the wait is over. So jobs with
the same TTR come to one call a beat, whenever they arrived. Each result concerns its own job, and each attempt waits for its
answer no longer than its own reservation allows."""
from __future__ import annotations

import enum
import math
import threading
import time
from typing import Callable

from .calls import NEVER, Error, NoAnswer, Refused
from .client import Client

# Most jobs of one call, as servers take them by default.
MOST = 1000
# How long, in seconds, heartbeats are sent one by one after a call for many was not taken. The server may be replaced by a newer one.
SINGLE_FOR = 600.0
GONE = ("job_not_found", "job_replaced", "lease_lost", "not_reserved")


class Heartbeat:
    """The next heartbeat of a job, due `wait` seconds after a moment. `done` is told what it brought: None for success."""

    def __init__(self, id: str, receipt: str, since: float, wait: float, limit: float,
                 done: Callable[[Heartbeat, Error | None], None]) -> None:
        self.id, self.receipt, self.done = id, receipt, done
        self.early, self.due = since + wait / 2, since + wait
        self.limit = limit  # how long its answer may take, in seconds
        self.sent = math.inf  # when it was sent, once it was

    def is_late(self, now: float) -> bool:
        """Whether its answer has taken too long."""
        return now >= self.sent + self.limit


class Heartbeats:
    """Sends the heartbeats of a worker's jobs."""

    def __init__(self, client: Client, ttr: float | None) -> None:
        self._client, self._ttr = client, ttr
        self._lock = threading.Lock()
        self._waiting: set[Heartbeat] = set()
        self._single_until = 0.0

    def add(self, beat: Heartbeat) -> None:
        with self._lock:
            self._waiting.add(beat)

    def drop(self, beat: Heartbeat) -> None:
        """Has this one not be sent, unless it was."""
        with self._lock:
            self._waiting.discard(beat)

    def send(self, due: Heartbeat) -> None:
        """Sends a heartbeat that is due, unless another one has taken it along, and those that go with it."""
        with self._lock:
            if due not in self._waiting:
                return
            self._waiting.remove(due)
            early = (beat for beat in self._waiting if beat.early <= now())
            group = [due, *sorted(early, key=lambda beat: beat.due)[:MOST - 1]]
            self._waiting.difference_update(group)
            # Before another attempt looks at its own.
            for beat in group:
                beat.sent = now()
            is_single = now() < self._single_until
        for part in [[beat] for beat in group] if is_single else [group]:
            self._start(part)

    def _start(self, group: list[Heartbeat]) -> None:
        """Calls the server in a thread of its own, since it may be slow."""
        try:
            threading.Thread(target=self._touch, args=(group,), name="linger-heartbeats", daemon=True).start()
        except RuntimeError as error:  # the system gives no more threads
            for beat in group:
                beat.done(beat, NoAnswer(f"no thread for a heartbeat: {error}"))

    def _touch(self, group: list[Heartbeat]) -> None:
        errors: list[Error | None]
        try:
            errors = self._call(group)
        except Error as error:
            if len(group) > 1 and is_not_taken(error):
                self._single_until = now() + SINGLE_FOR
                for beat in group:
                    self._start([beat])
                return
            errors = [error] * len(group)
        for beat, result in zip(group, errors):
            beat.done(beat, result)

    def _call(self, group: list[Heartbeat]) -> list[Error | None]:
        """The failure of each, or None."""
        limit = max(beat.limit for beat in group)
        if len(group) == 1:
            self._client.hold(group[0].id, "touch", group[0].receipt, ttr=self._ttr, repeat=NEVER, limit=limit)
            return [None]
        reserved = [(beat.id, beat.receipt) for beat in group]
        return [*self._client.hold_many("touch", reserved, ttr=self._ttr, repeat=NEVER, limit=limit)]


class Reservation(enum.Enum):
    """What an answer to a touch says of the reservation."""
    RENEWED = enum.auto()
    TIMED_OUT = enum.auto()  # and no worker has had the job since: a finish still counts
    GONE = enum.auto()
    UNKNOWN = enum.auto()


def reservation_after(failure: Error | None) -> Reservation:
    if failure is None:
        return Reservation.RENEWED
    if not isinstance(failure, Refused) or failure.code not in GONE:
        return Reservation.UNKNOWN
    is_timed_out = failure.code == "lease_lost" and not failure.retaken
    return Reservation.TIMED_OUT if is_timed_out else Reservation.GONE


def is_not_taken(error: Error) -> bool:
    """Whether the server, or a proxy before it, does not take this call for many jobs, and so may take one for each."""
    status = error.status if isinstance(error, (Refused, NoAnswer)) else 0
    is_of_token = isinstance(error, Refused) and status in (401, 403)
    return 400 <= status < 500 and status not in (408, 429) and not is_of_token


def now() -> float:
    """The time that has passed, in suspend too where the system tells."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
