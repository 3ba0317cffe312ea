"""Recurring jobs: the calls about schedules, and a schedule as the server shows it."""
from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Callable

from .calls import Connections, Refused, Reply
from .jobs import Job, NewJob, added_reader, as_json, new_id, parts_of, read_moment, read_nothing, require, with_member
from .values import Duration, Moment, count as whole_number, duration, moment, optional, path_of_schedule, text

# The members of the server's schedules that a Schedule has under the same name, besides moments and the job.
_MEMBERS: dict[str, Any] = {
    "name": str, "state": str, "revision": int, "overlap": str, "missed": str, "runs": dict, "cron": str, "time_zone": str,
    "every": (int, float), "jitter": (int, float), "missed_within": (int, float), "last_job": str,
}


@dataclass
class Schedule:
    """A schedule as the server shows it. Durations are seconds."""

    name: str
    state: str  # active, paused, waiting, ahead or ended; later versions may have more
    revision: int  # counts the changes by clients, from 1
    job: bytes  # JSON as it was given, with [hidden] for the value of each header of its callback
    next: list[datetime]  # the next three runs or fewer, also while it is paused
    overlap: str
    missed: str
    runs: dict[str, int]  # how many took place ("fired"), gave way to the one before ("overlap"), or were missed ("missed")
    cron: str = ""
    time_zone: str = ""
    every: float | None = None
    start: datetime | None = None
    end: datetime | None = None
    jitter: float = 0
    missed_within: float | None = None
    last: datetime | None = None  # the last run, also one that did not take place
    last_job: str = ""  # the id of the job of the last run
    waiting_since: datetime | None = None  # while a run is due that cannot be added
    waiting_reason: str = ""
    created: bool = field(default=False, compare=False)  # the put made it; False also if an earlier try of the put did


class ScheduleCalls:
    """The calls of a Client about schedules."""

    connections: Connections

    def put_schedule(self, name: str, job: NewJob | bytes, *, cron: str | None = None, every: Duration | None = None,
                     time_zone: str | None = None, start: Moment | None = None, end: Moment | None = None,
                     jitter: Duration | None = None, overlap: str | None = None, missed: str | None = None,
                     missed_within: Duration | None = None, revision: int | None = None) -> Schedule:
        """Makes a schedule, or replaces its definition as a whole. The same definition again changes nothing. What is left out has the
        server's default.

        `job` is the one of each run, without an id and a due time, or its JSON, such as that of a Schedule. It runs by `cron`, a
        pattern of five fields or of six with the second first, in a `time_zone`; or `every` so often. No run is before `start` or
        after `end`, and each job is due up to `jitter` later. `overlap` says what a run does if the job of the last one is not over:
        "skip", "allow" or "replace". `missed` says which runs take place that an outage has made late: "one", "all" or "none", and
        `missed_within` how late those may be.

        With `revision` the schedule must have that one, or, for 0, there must be none. Otherwise the call is refused with the code
        revision_differs. If the refusal is `repeated`, an earlier try of this call may have made that change."""
        fields = as_json(cron=optional(text, "cron", cron), every=optional(duration, "every", every),
                         time_zone=optional(text, "time_zone", time_zone), start=optional(moment, "start", start),
                         end=optional(moment, "end", end), jitter=optional(duration, "jitter", jitter),
                         overlap=optional(text, "overlap", overlap), missed=optional(text, "missed", missed),
                         missed_within=optional(duration, "missed_within", missed_within))
        definition = with_member(fields, "job", job.definition() if isinstance(job, NewJob) else job)

        def read(reply: Reply) -> Schedule:
            require(reply.status in (200, 201))
            schedule = _read_schedule(name, reply.text)
            schedule.created = reply.status == 201
            return schedule

        expected = optional(whole_number, "revision", revision)
        etag = None if expected is None else f'"{expected}"'
        return self.connections.call("PUT", path_of_schedule(name), definition, read, if_match=etag)

    def get_schedule(self, name: str) -> Schedule | None:
        """Reads a schedule; None if there is none."""
        try:
            return self.connections.call("GET", path_of_schedule(name), None, _schedule_reader(name))
        except Refused as error:
            if error.code == "schedule_not_found":
                return None
            raise

    def schedules(self) -> Iterator[Schedule]:
        """Lists all schedules by name. It reads up to a hundred at a time, when they are needed."""
        query = ""
        while True:
            schedules, cursor = self.connections.call("GET", "/schedules" + query, None, _read_page)
            yield from schedules
            if not cursor:
                return
            query = "?cursor=" + urllib.parse.quote(cursor, safe="")

    def next_runs(self, name: str, count: int = 10) -> list[datetime]:
        """The next runs of a schedule, also while it is paused; up to 1,000."""
        def read(reply: Reply) -> list[datetime]:
            require(reply.status == 200)
            return [read_moment(at) for at in json.loads(reply.text)["next"]]

        path = f"{path_of_schedule(name)}/next?count={whole_number('count', count)}"
        return self.connections.call("GET", path, None, read)

    def delete_schedule(self, name: str) -> bool:
        """Deletes a schedule, but not the jobs that it has added. Returns whether there was one; after a lost answer, a missing
        schedule counts as deleted by this call."""
        try:
            self.connections.call("DELETE", path_of_schedule(name), None, read_nothing)
            return True
        except Refused as error:
            if error.code == "schedule_not_found":
                return error.repeated
            raise

    def pause_schedule(self, name: str) -> Schedule:
        """Pauses a schedule: it adds no jobs until it is resumed."""
        return self.connections.call("POST", f"{path_of_schedule(name)}/pause", None, _schedule_reader(name))

    def resume_schedule(self, name: str) -> Schedule:
        """Resumes a schedule, without the runs that it would have had while it was paused."""
        return self.connections.call("POST", f"{path_of_schedule(name)}/resume", None, _schedule_reader(name))

    def run_schedule(self, name: str, id: str | None = None) -> Job:
        """Adds a job of a schedule now, and returns it; the schedule does not change. A second run with the same id adds nothing while
        that job lives, and returns it, `replayed`. The client makes an id if it is left out."""
        id = new_id() if id is None else text("id", id)
        return self.connections.call("POST", f"{path_of_schedule(name)}/run", as_json(id=id), added_reader(f"run:{name}:{id}"))


def _schedule_reader(name: str) -> Callable[[Reply], Schedule]:
    """Reads the answer of a call about this schedule."""
    def read(reply: Reply) -> Schedule:
        require(reply.status == 200)
        return _read_schedule(name, reply.text)
    return read


def _read_page(reply: Reply) -> tuple[list[Schedule], str]:
    """A page of schedules, and where the next one begins."""
    require(reply.status == 200)
    parts = parts_of(reply.text, "{")
    schedules = [_read_schedule(None, schedule) for schedule in parts_of(parts["schedules"], "[").values()]
    return schedules, str(json.loads(parts.get("next_cursor", '""')))


def _read_schedule(name: str | None, text: str) -> Schedule:
    """Reads a schedule, which has this name if one is given."""
    parts = parts_of(text, "{")
    job = parts.pop("job").encode()
    found = {member: json.loads(part) for member, part in parts.items()}
    known = {member: value for member, value in found.items() if member in _MEMBERS}
    require(all(isinstance(value, _MEMBERS[member]) for member, value in known.items()))
    require(name is None or found["name"] == name)
    for member in {"start", "end", "last"} & found.keys():
        known[member] = read_moment(found[member])
    if "waiting" in found:
        known["waiting_since"] = read_moment(found["waiting"]["since"])
        known["waiting_reason"] = str(found["waiting"]["reason"])
    return Schedule(job=job, next=[read_moment(at) for at in found["next"]], **known)
