"""The calls of producers and of the holders of jobs."""
from __future__ import annotations

import json
import re
import ssl
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Callable

from .calls import NEVER, SAFELY, UNLESS_LOST, Connections, Refused, Scope, is_problem
from .values import (Duration, Moment, Seconds, bearer_token, count, duration, durations, expiry, moment, optional, path_of_job,
                     seconds, server_url, text)

# Keeps numbers as they are written: int() refuses more than 4,300 digits.
_AS_WRITTEN = json.JSONDecoder(parse_int=str, parse_float=str)
# The body of a patch that changes none; None is a body.
_KEEP: Any = object()
_SPACE = re.compile(r"[ \t\n\r]*")
# The members of the server's jobs that a Job has, besides the body.
_MEMBERS: dict[str, Any] = {
    "id": str, "topic": str, "state": str, "created_at": str, "due_at": str, "ttr": (int, float), "attempts": int,
    "max_attempts": int, "expires_at": str, "reason": str, "traceparent": str, "tracestate": str, "receipt": str, "reserved_until": str,
    "late": (int, float),
}


@dataclass
class NewJob:
    """A job to add. What is left out follows the settings of the topic."""

    topic: str
    body: Any = None  # as json.dumps writes it; bytes are JSON that is kept byte for byte
    id: str | None = None  # made by the client if left out
    delay: Duration | None = None  # from now, to the millisecond
    at: Moment | None = None  # in place of the delay
    ttr: Duration | None = None  # how long a reservation lasts; 1 s to 24 h
    max_attempts: int | None = None  # 0: no limit
    retry: Sequence[Duration] | None = None  # the waits between attempts
    expire: Duration | datetime | None = None  # from when on it is not delivered: how long after it is due, or at this time
    on_expiry: str | None = None  # what happens then, with expire: "dead" or "delete"

    def definition(self) -> bytes:
        """The JSON of the job."""
        fields = as_json(topic=text("topic", self.topic), id=optional(text, "id", self.id),
                         delay=optional(duration, "delay", self.delay), at=optional(moment, "at", self.at),
                         ttr=optional(duration, "ttr", self.ttr), retry=optional(durations, "retry", self.retry),
                         max_attempts=optional(count, "max_attempts", self.max_attempts),
                         expire=optional(expiry, "expire", self.expire), on_expiry=optional(text, "on_expiry", self.on_expiry))
        return _with_body(fields, self.body)


@dataclass
class Job:
    """A job as the server shows it. Those from a pop also have a receipt."""

    id: str
    topic: str
    state: str  # delayed, ready, reserved or dead; later versions may have more
    created_at: datetime
    due_at: datetime
    ttr: float  # seconds
    attempts: int  # reservations so far, with this one
    max_attempts: int  # 0: no limit
    raw: bytes  # the body, byte for byte as it was added
    reason: str = ""  # why the last attempt failed
    traceparent: str = ""
    tracestate: str = ""
    receipt: str = field(default="", repr=False)
    reserved_until: datetime | None = None
    late: float = 0  # seconds from due to delivered
    expires_at: datetime | None = None  # from when on it is not delivered
    replayed: bool = False  # the add found this job there: it repeats an earlier one
    # Set when a handler must stop: its reservation is lost, or the worker's drain is over.
    lost: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @property
    def body(self) -> Any:
        """The body as json.loads reads it; `raw` also has what a float cannot hold."""
        return json.loads(self.raw)


@dataclass
class Added:
    """The result of one job of a batch."""

    id: str
    replayed: bool  # the add found this job there: it repeats an earlier one
    error: Refused | None  # None if the job is there


class Client:
    """Calls one server. Threads may share it, and processes that fork; it keeps connections open.

    A call that fails is sent again until `timeout`: when no answer came, and after 408, 429 and 5xx, with pauses that grow and
    are at least as long as the server's Retry-After. Calls raise Refused if the server answered, else NoAnswer: then the call
    may have taken effect all the same. An answer in another form than the server's counts as none. `timeout` is that of a call
    with all its tries, without the wait of a pop.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: Seconds = 10, context: ssl.SSLContext | None = None) -> None:
        limit = seconds("timeout", timeout)
        if limit <= 0:
            raise ValueError(f"timeout must be more than 0, not {timeout!r}")
        self.connections = Connections(server_url(url), bearer_token(token or ""), limit, context)

    def close(self) -> None:
        """Closes the connections that no call uses. The end of a `with` block does so, too."""
        self.connections.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, topic: str, body: Any = None, *, id: str | None = None, delay: Duration | None = None,
            at: Moment | None = None, ttr: Duration | None = None, max_attempts: int | None = None,
            retry: Sequence[Duration] | None = None, expire: Duration | datetime | None = None,
            on_expiry: str | None = None) -> Job:
        """Adds a job, as NewJob describes it. Returns it, `replayed` if the server had it already."""
        id = _new_id() if id is None else id

        def read(status: int, text: str) -> Job:
            job = _read_job(id, text)
            job.replayed = _is_replayed(status)
            return job

        new = NewJob(topic, body, id, delay, at, ttr, max_attempts, retry, expire, on_expiry)
        return self.connections.call("POST", "/jobs", new.definition(), read)

    def add_many(self, jobs: Sequence[NewJob]) -> list[Added]:
        """Adds up to 1,000 jobs in one call. The results are in the order of the jobs; one that is refused does not affect the
        others."""
        jobs = [replace(job, id=_new_id() if job.id is None else job.id) for job in jobs]

        def read(status: int, text: str) -> list[Added]:
            _require(status == 200)
            results = json.loads(text)["results"]
            _require(len(results) == len(jobs))
            return [_read_added(job.id, result) for job, result in zip(jobs, results)]

        definitions = b",".join(job.definition() for job in jobs)
        return self.connections.call("POST", "/batch/jobs", b'{"jobs":[' + definitions + b"]}", read)

    def get(self, id: str) -> Job | None:
        """Reads a job; None if there is none."""
        try:
            return self.connections.call("GET", path_of_job(id), None, _job_reader(id))
        except Refused as error:
            if error.code == "job_not_found":
                return None
            raise

    def cancel(self, id: str) -> bool:
        """Deletes a job in any state, also while a worker has it. Returns whether there was one; after a lost answer, a missing
        job counts as deleted by this call."""
        try:
            self.connections.call("DELETE", path_of_job(id), None, _read_nothing)
            return True
        except Refused as error:
            if error.code == "job_not_found":
                return error.repeated
            raise

    def reschedule(self, id: str, delay: Duration | None = None, at: Moment | None = None) -> Job:
        """Makes a delayed or ready job due after `delay`, of which 0 is now, or at a time."""
        return self.patch(id, delay=delay, at=at)

    def patch(self, id: str, *, delay: Duration | None = None, at: Moment | None = None, ttr: Duration | None = None,
              max_attempts: int | None = None, retry: Sequence[Duration] | None = None,
              expire: Duration | datetime | None = None, on_expiry: str | None = None, clear_expire: bool = False,
              body: Any = _KEEP) -> Job:
        """Changes a delayed or ready job. What is left out stays as it is; the rest is as in NewJob. `on_expiry` goes with
        `expire`; `clear_expire` takes the expiry away."""
        fields = as_json(delay=optional(duration, "delay", delay), at=optional(moment, "at", at),
                         ttr=optional(duration, "ttr", ttr), retry=optional(durations, "retry", retry),
                         max_attempts=optional(count, "max_attempts", max_attempts),
                         expire=optional(expiry, "expire", expire), on_expiry=optional(text, "on_expiry", on_expiry),
                         clear_expire=True if clear_expire else None)
        changes = fields if body is _KEEP else _with_body(fields, body)
        return self.connections.call("PATCH", path_of_job(id), changes, _job_reader(id))

    def requeue(self, id: str, delay: Duration | None = None, at: Moment | None = None) -> Job:
        """Makes a dead letter due again: at once, after `delay`, or at a time. Its attempts start anew. After a lost answer, a job
        that is no dead letter counts as requeued by this call."""
        body = as_json(delay=optional(duration, "delay", delay), at=optional(moment, "at", at))
        try:
            return self.connections.call("POST", f"{path_of_job(id)}/requeue", body, _job_reader(id))
        except Refused as error:
            job = self.get(id) if error.code == "not_dead" and error.repeated else None
            if job is None:
                raise
            return job

    def pop(self, *topics: str, max: int = 1, wait: Seconds = 0, ttr: Duration | None = None,
            worker: str | None = None) -> list[Job]:
        """Reserves up to `max` ready jobs of some topics, the most urgent topic first; none if none became ready within `wait`,
        which is up to a minute. Without `ttr`, each reservation lasts for the job's own TTR. `worker` is for the jobs' histories.
        A pop is not sent again if its answer was lost: the jobs that it may have reserved come back after their TTR."""
        return self.pop_within(None, topics, max, wait, ttr, worker)

    def pop_within(self, scope: Scope | None, topics: Sequence[str], max: int, wait: Seconds, ttr: Duration | None,
                   worker: str | None) -> list[Job]:
        """The pop of a worker, which ends with its scope and is not sent again."""
        longest = seconds("wait", wait)
        body = as_json(topics=[text("a topic", topic) for topic in topics], max=count("max", max), wait=longest,
                       ttr=optional(duration, "ttr", ttr), worker=optional(text, "worker", worker))
        return self.connections.call("POST", "/batch/pop", body, _read_jobs, repeat=NEVER if scope else UNLESS_LOST,
                                     wait=longest, scope=scope)

    def finish(self, id: str, receipt: str) -> None:
        """The work is done; the job is gone. The code lease_lost means that another worker has got it since."""
        self.hold(id, "finish", receipt)

    def release(self, id: str, receipt: str, *, delay: Duration | None = None, at: Moment | None = None, reason: str = "") -> None:
        """Gives a job back. The next attempt follows its schedule, or comes after `delay`, or at a time. The reason has up to 1,024
        bytes."""
        self.hold(id, "release", receipt, delay=optional(duration, "delay", delay), at=optional(moment, "at", at),
                  reason=text("reason", reason))

    def touch(self, id: str, receipt: str, ttr: Duration | None = None) -> None:
        """Makes a reservation last `ttr` from now, or else the job's own TTR."""
        self.hold(id, "touch", receipt, ttr=optional(duration, "ttr", ttr))

    def bury(self, id: str, receipt: str, reason: str = "") -> None:
        """Makes a job a dead letter, with a reason of up to 1,024 bytes."""
        self.hold(id, "bury", receipt, reason=text("reason", reason))

    def release_many(self, jobs: Sequence[Job], *, delay: Duration | None = None, at: Moment | None = None,
                     reason: str = "") -> list[Refused | None]:
        """Gives up to 1,000 jobs of pops back in one call. The results are in the order of the jobs: None where it is done, else
        the refusal, which does not affect the others. After a lost answer, what the first try did is refused."""
        return self.hold_many("release", _reserved(jobs), delay=optional(duration, "delay", delay), at=optional(moment, "at", at),
                              reason=text("reason", reason))

    def touch_many(self, jobs: Sequence[Job], ttr: Duration | None = None) -> list[Refused | None]:
        """Makes up to 1,000 reservations last `ttr` from now, or else each job's own TTR. The results are as in release_many."""
        return self.hold_many("touch", _reserved(jobs), ttr=optional(duration, "ttr", ttr))

    def bury_many(self, jobs: Sequence[Job], reason: str = "") -> list[Refused | None]:
        """Makes up to 1,000 jobs of pops dead letters. The results are as in release_many."""
        return self.hold_many("bury", _reserved(jobs), reason=text("reason", reason))

    def hold_many(self, step: str, reserved: Sequence[tuple[str, str]], *, repeat: int = SAFELY, limit: float | None = None,
                  **fields: Any) -> list[Refused | None]:
        """A call by the holder of many jobs, each with its id and receipt."""
        more = {name: value for name, value in fields.items() if value is not None}
        jobs = [{"id": text("id", id), "receipt": text("receipt", receipt), **more} for id, receipt in reserved]

        def read(status: int, text: str) -> list[Refused | None]:
            _require(status == 200)
            results = json.loads(text)["results"]
            _require(len(results) == len(jobs))
            return [_read_held(job["id"], result) for job, result in zip(jobs, results)]

        return self.connections.call("POST", f"/batch/{step}", as_json(jobs=jobs), read, repeat=repeat, limit=limit)

    def hold(self, id: str, step: str, receipt: str, *, repeat: int = SAFELY, limit: float | None = None,
             give_up_after: float | None = None, scope: Scope | None = None, **fields: Any) -> None:
        """A call by the holder of a reservation."""
        read: Callable[[int, str], object] = _read_nothing if step == "finish" else _job_reader(id)
        try:
            body = as_json(receipt=text("receipt", receipt), **fields)
            self.connections.call("POST", f"{path_of_job(id)}/{step}", body, read, repeat=repeat, limit=limit,
                                  give_up_after=give_up_after, scope=scope)
        except Refused as error:
            # A repeat that finds no such job has reached its aim.
            if not (step == "finish" and error.code == "job_not_found" and error.repeated):
                raise


def _new_id() -> str:
    return uuid.uuid4().hex


def as_json(**fields: Any) -> bytes:
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


def _with_body(fields: bytes, body: Any) -> bytes:
    """A JSON object with a body that is kept as it is written."""
    if isinstance(body, bytes):
        raw = body
        _AS_WRITTEN.decode(raw.decode())
    else:
        raw = json.dumps(body, allow_nan=False).encode()
    return fields[:-1] + (b"" if fields == b"{}" else b",") + b'"body":' + raw + b"}"


def _reserved(jobs: Sequence[Job]) -> list[tuple[str, str]]:
    return [(job.id, job.receipt) for job in jobs]


def _require(is_ours: bool) -> None:
    """Refuses what the server would not answer."""
    if not is_ours:
        raise ValueError("the server does not answer this")


def _read_nothing(status: int, _: str) -> None:
    _require(status == 204)


def _is_replayed(status: int) -> bool:
    """Whether an add that succeeded with this status found its job there."""
    _require(status in (200, 201))
    return status == 200


def _read_added(id: str | None, result: Any) -> Added:
    status, problem = result["status"], result.get("problem")
    if problem is None:
        _require(result.get("id", id) == id)
        return Added(id or "", _is_replayed(status), None)
    _require(is_problem(problem, status))
    return Added(id or "", False, Refused(status, problem))


def _read_held(id: str, result: Any) -> Refused | None:
    status, problem = result["status"], result.get("problem")
    if problem is None:
        _require(status == 200 and result.get("id", id) == id)
        return None
    _require(is_problem(problem, status))
    return Refused(status, problem)


def _job_reader(id: str) -> Callable[[int, str], Job]:
    """Reads the answer of a call about this job."""
    def read(status: int, text: str) -> Job:
        _require(status == 200)
        return _read_job(id, text)
    return read


def _read_job(id: str | None, text: str) -> Job:
    """Reads a job, which has this id if one is given."""
    parts = _parts(text, "{")
    raw = parts.pop("body").encode()
    found = {name: json.loads(part) for name, part in parts.items() if name in _MEMBERS}
    _require(all(isinstance(value, _MEMBERS[name]) for name, value in found.items()))
    _require(id is None or found["id"] == id)
    for name in {"created_at", "due_at", "reserved_until", "expires_at"} & found.keys():
        found[name] = datetime.fromisoformat(found[name].replace("Z", "+00:00"))
    return Job(raw=raw, **found)


def _read_jobs(status: int, text: str) -> list[Job]:
    _require(status == 200)
    jobs = [_read_job(None, job) for job in _parts(_parts(text, "{")["jobs"], "[").values()]
    _require(all(job.receipt for job in jobs))
    return jobs


def _parts(text: str, opening: str) -> dict[Any, str]:
    """The texts of the values of a JSON object by name, or of an array by index."""
    def skip(at: int) -> int:
        found = _SPACE.match(text, at)
        return found.end() if found else at

    parts: dict[Any, str] = {}
    start = skip(0)
    _require(text[start] == opening)
    at = skip(start + 1)
    while text[at] not in "}]":
        name: Any = len(parts)
        if opening == "{":
            name, at = _AS_WRITTEN.raw_decode(text, at)
            at = skip(skip(at) + 1)
        _, end = _AS_WRITTEN.raw_decode(text, at)
        parts[name], at = text[at:end], skip(end)
        if text[at] == ",":
            at = skip(at + 1)
    _require(skip(at + 1) == len(text))
    return parts
