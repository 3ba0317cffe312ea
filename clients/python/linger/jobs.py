"""Jobs as they are sent and as the server shows them. Knows no call."""
from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Callable

from .calls import Refused, Reply, is_problem
from .values import Duration, Moment, count, duration, durations, expiry, moment, optional, text

# Keeps numbers as they are written: int() refuses more than 4,300 digits.
_AS_WRITTEN = json.JSONDecoder(parse_int=str, parse_float=str)
_SPACE = re.compile(r"[ \t\n\r]*")
# The members of the server's jobs that a Job has, besides the body.
_MEMBERS: dict[str, Any] = {
    "id": str, "topic": str, "state": str, "created_at": str, "due_at": str, "ttr": (int, float), "attempts": int,
    "max_attempts": int, "expires_at": str, "reason": str, "traceparent": str, "tracestate": str, "receipt": str, "reserved_until": str,
    "late": (int, float), "revision": int, "note": str, "noted_at": str,
}


@dataclass
class NewJob:
    """A job to add. What is left out follows the settings of the topic."""

    topic: str
    body: Any = None  # as json.dumps writes it; bytes are JSON that is kept byte for byte
    id: str | None = None  # made by the client if left out
    delay: Duration | None = None  # from now, to the millisecond
    at: Moment | None = None  # in place of the delay
    ttr: Duration | None = None  # how long a reservation lasts; 1 s to 30 days
    max_attempts: int | None = None  # 0: no limit
    retry: Sequence[Duration] | None = None  # the waits between attempts
    expire: Duration | datetime | None = None  # from when on it is not delivered: how long after it is due, or at this time
    on_expiry: str | None = None  # what happens then, with expire: "dead" or "delete"
    # What happens to a job of the same topic and id: with "keep", the default, it stays; with "replace", which needs an id, this job
    # takes its place.
    if_exists: str | None = None
    # Your number of this version, from 0 on. With "replace", a higher one replaces a lower one or none, an equal one is a repeat, and a
    # lower one is refused with the code stale_revision.
    revision: int | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether the add may be sent again after a lost answer. Without a revision, a late repeat would restore an older version."""
        return self.if_exists != "replace" or self.revision is not None

    def with_id(self) -> NewJob:
        """The same with an id. A job that replaces another must name that."""
        return self if self.id is not None or self.if_exists == "replace" else replace(self, id=new_id())

    def definition(self) -> bytes:
        """The JSON of the job with what is given."""
        fields = as_json(topic=text("topic", self.topic), id=optional(text, "id", self.id),
                         delay=optional(duration, "delay", self.delay), at=optional(moment, "at", self.at),
                         ttr=optional(duration, "ttr", self.ttr), retry=optional(durations, "retry", self.retry),
                         max_attempts=optional(count, "max_attempts", self.max_attempts),
                         expire=optional(expiry, "expire", self.expire), on_expiry=optional(text, "on_expiry", self.on_expiry),
                         if_exists=optional(text, "if_exists", self.if_exists),
                         revision=optional(count, "revision", self.revision))
        return with_member(fields, "body", self.body)


@dataclass
class Ended:
    """How and when a job ended."""

    how: str  # such as finished
    at: datetime


@dataclass
class Job:
    """A job as the server shows it. Those from a pop also have a receipt."""

    id: str
    topic: str
    state: str  # delayed, ready, reserved or dead, or as `ended` says; later versions may have more
    created_at: datetime | Any  # None if the job has ended, as for due_at
    due_at: datetime | Any
    ttr: float  # seconds
    attempts: int  # reservations so far, with this one
    max_attempts: int  # 0: no limit
    raw: bytes  # the body, byte for byte as it was added; empty if the job has ended
    reason: str = ""  # why the last attempt failed
    note: str = ""  # how far a worker was with it
    noted_at: datetime | None = None
    traceparent: str = ""
    tracestate: str = ""
    receipt: str = field(default="", repr=False)
    reserved_until: datetime | None = None
    late: float = 0  # seconds from due to delivered
    expires_at: datetime | None = None  # from when on it is not delivered
    revision: int | None = None  # the producer's number of this version
    replayed: bool = False  # the add repeats an earlier one, and changed nothing
    replaced: bool = False  # the add put this job in the place of an older version
    # The job is gone, and the server remembers its id: an add was a repeat. Then only id, topic and state are known.
    ended: Ended | None = None
    # Set when a handler must stop: its reservation is lost, or the worker's drain is over.
    lost: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    send_note: Callable[[str], None] | None = field(default=None, repr=False, compare=False)  # set by the worker

    @property
    def body(self) -> Any:
        """The body as json.loads reads it; `raw` also has what a float cannot hold."""
        return json.loads(self.raw) if self.raw else None

    def set_note(self, note: str) -> None:
        """Says in 1 to 256 bytes how far a handler is with its job. The note is shown to operators, and the next attempt gets it
        as `note`. It is sent at once, by a touch, and fails as that does."""
        if self.send_note is None:
            raise RuntimeError("a note is set by the handler of a worker")
        self.send_note(note)


@dataclass
class Added:
    """The result of one job of a batch."""

    id: str
    replayed: bool  # the add repeats an earlier one, and changed nothing
    replaced: bool  # the add put this job in the place of an older version
    ended: Ended | None  # how and when the job ended, if this add repeats that of a finished job
    error: Refused | None  # None if the job is there or was finished


def new_id() -> str:
    return uuid.uuid4().hex


def as_json(**fields: Any) -> bytes:
    given = {name: value for name, value in fields.items() if value is not None}
    # Without spaces, as the server writes: it compares the job of a schedule byte for byte.
    return json.dumps(given, separators=(",", ":")).encode()


def with_member(fields: bytes, name: str, value: Any) -> bytes:
    """A JSON object with one more member, of which bytes are kept as they are written."""
    if isinstance(value, bytes):
        raw = value
        _AS_WRITTEN.decode(raw.decode())
    else:
        raw = json.dumps(value, allow_nan=False).encode()
    return fields[:-1] + (b"" if fields == b"{}" else b",") + f'"{name}":'.encode() + raw + b"}"


def require(is_ours: bool) -> None:
    """Refuses what the server would not answer."""
    if not is_ours:
        raise ValueError("the server does not answer this")


def read_nothing(reply: Reply) -> None:
    require(reply.status == 204)


def added_reader(id: str | None) -> Callable[[Reply], Job]:
    """Reads the answer of an add of a job, which has this id if one is given."""
    def read(reply: Reply) -> Job:
        job = read_job(id, reply.text)
        job.replayed, job.replaced = what_it_found(reply.status, reply.headers.get("Linger-Replaced") == "true")
        return job
    return read


def what_it_found(status: int, replaced: bool) -> tuple[bool, bool]:
    """Whether an add that succeeded is a repeat, and whether it has replaced a job."""
    require(status in (200, 201))
    return status == 200 and not replaced, status == 200 and replaced


def read_ended(ended: Any) -> Ended:
    return Ended(str(ended["how"]), read_moment(ended["at"]))


def read_added(id: str | None, result: Any) -> Added:
    status, problem = result["status"], result.get("problem")
    if problem is None:
        require(result.get("id", id) == id)
        ended = read_ended(result["ended"]) if result.get("ended") is not None else None
        return Added(id or "", *what_it_found(status, result.get("replaced") is True), ended, None)
    require(is_problem(problem, status))
    return Added(id or "", False, False, None, Refused(status, problem))


def read_held(id: str, result: Any) -> Refused | None:
    status, problem = result["status"], result.get("problem")
    if problem is None:
        require(status == 200 and result.get("id", id) == id)
        return None
    require(is_problem(problem, status))
    return Refused(status, problem)


def job_reader(id: str) -> Callable[[Reply], Job]:
    """Reads the answer of a call about this job."""
    def read(reply: Reply) -> Job:
        require(reply.status == 200)
        return read_job(id, reply.text)
    return read


def read_job(id: str | None, text: str) -> Job:
    """Reads a job, which has this id if one is given."""
    parts = parts_of(text, "{")
    ended = json.loads(parts.pop("ended", "null"))
    raw = parts.pop("body", "").encode()
    found = {name: json.loads(part) for name, part in parts.items() if name in _MEMBERS}
    require(all(isinstance(value, _MEMBERS[name]) for name, value in found.items()))
    require(id is None or found["id"] == id)
    for name in {"created_at", "due_at", "reserved_until", "expires_at", "noted_at"} & found.keys():
        found[name] = read_moment(found[name])
    if ended is not None:
        found = {"created_at": None, "due_at": None, "ttr": 0, "attempts": 0, "max_attempts": 0, **found}
        return Job(raw=raw, ended=read_ended(ended), **found)
    require(raw != b"")
    return Job(raw=raw, **found)


def read_moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def read_jobs(reply: Reply) -> list[Job]:
    require(reply.status == 200)
    jobs = [read_job(None, job) for job in parts_of(parts_of(reply.text, "{")["jobs"], "[").values()]
    require(all(job.receipt for job in jobs))
    return jobs


def parts_of(text: str, opening: str) -> dict[Any, str]:
    """The texts of the values of a JSON object by name, or of an array by index."""
    def skip(at: int) -> int:
        found = _SPACE.match(text, at)
        return found.end() if found else at

    parts: dict[Any, str] = {}
    start = skip(0)
    require(text[start] == opening)
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
    require(skip(at + 1) == len(text))
    return parts
