"""The calls of producers and of the holders of jobs."""
from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Callable

from .calls import IF_NOT_BEGUN, IF_UNDONE, SAFELY, UNLESS_LOST, Connections, Refused, Reply, Scope
from .jobs import (Added, Job, NewJob, added_reader, as_json, job_reader, read_added, read_held, read_jobs, read_nothing, require,
                   with_member)
from .schedules import ScheduleCalls
from .values import (Duration, Moment, Seconds, bearer_token, count, duration, durations, expiry, moment, optional, path_of_job,
                     seconds, server_url, text)

# The body of a patch that changes none; None is a body.
_KEEP: Any = object()


class Client(ScheduleCalls):
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
            on_expiry: str | None = None, if_exists: str | None = None, revision: int | None = None) -> Job:
        """Adds a job, as NewJob describes it. Returns it, `replayed` if the server had it already, `replaced` if it took the place of an
        older version. A job that replaces others without a revision is not sent again if it may have done so: a late repeat would
        restore an older version."""
        new = NewJob(topic, body, id, delay, at, ttr, max_attempts, retry, expire, on_expiry, if_exists, revision).with_id()
        return self.connections.call("POST", "/jobs", new.definition(), added_reader(new.id),
                                     repeat=SAFELY if new.is_repeatable else IF_UNDONE)

    def add_many(self, jobs: Sequence[NewJob]) -> list[Added]:
        """Adds up to 1,000 jobs in one call. The results are in the order of the jobs; one that is refused does not affect the
        others. If one of them may not be sent again, as in add, then none of them is."""
        jobs = [job.with_id() for job in jobs]

        def read(reply: Reply) -> list[Added]:
            require(reply.status == 200)
            results = json.loads(reply.text)["results"]
            require(len(results) == len(jobs))
            return [read_added(job.id, result) for job, result in zip(jobs, results)]

        definitions = b",".join(job.definition() for job in jobs)
        return self.connections.call("POST", "/batch/jobs", b'{"jobs":[' + definitions + b"]}", read,
                                     repeat=SAFELY if all(job.is_repeatable for job in jobs) else IF_UNDONE)

    def get(self, id: str) -> Job | None:
        """Reads a job; None if there is none."""
        try:
            return self.connections.call("GET", path_of_job(id), None, job_reader(id))
        except Refused as error:
            if error.code == "job_not_found":
                return None
            raise

    def cancel(self, id: str, *, unless_reserved: bool = False) -> bool:
        """Deletes a job in any state, also while a worker has it; with `unless_reserved`, such a job is refused with the code
        job_reserved. Returns whether there was one; after a lost answer, a missing job counts as deleted by this call, although
        a worker may have finished it."""
        query = "?unless_reserved=true" if unless_reserved else ""
        try:
            self.connections.call("DELETE", path_of_job(id) + query, None, read_nothing)
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
        changes = fields if body is _KEEP else with_member(fields, "body", body)
        return self.connections.call("PATCH", path_of_job(id), changes, job_reader(id))

    def requeue(self, id: str, delay: Duration | None = None, at: Moment | None = None) -> Job:
        """Makes a dead letter due again: at once, after `delay`, or at a time. Its attempts start anew. After a lost answer, a job
        that is no dead letter counts as requeued by this call."""
        body = as_json(delay=optional(duration, "delay", delay), at=optional(moment, "at", at))
        try:
            return self.connections.call("POST", f"{path_of_job(id)}/requeue", body, job_reader(id))
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
        """The pop of a worker, which ends with its scope and is sent again only if the server has not begun it."""
        longest = seconds("wait", wait)
        body = as_json(topics=[text("a topic", topic) for topic in topics], max=count("max", max), wait=longest,
                       ttr=optional(duration, "ttr", ttr), worker=optional(text, "worker", worker))
        return self.connections.call("POST", "/batch/pop", body, read_jobs, repeat=IF_NOT_BEGUN if scope else UNLESS_LOST,
                                     wait=longest, scope=scope)

    def finish(self, id: str, receipt: str) -> None:
        """The work is done; the job is gone. The code lease_lost means that another worker has got it since."""
        self.hold(id, "finish", receipt)

    def release(self, id: str, receipt: str, *, delay: Duration | None = None, at: Moment | None = None, reason: str = "") -> None:
        """Gives a job back. The next attempt follows its schedule, or comes after `delay`, or at a time. The reason has up to 1,024
        bytes."""
        self.hold(id, "release", receipt, delay=optional(duration, "delay", delay), at=optional(moment, "at", at),
                  reason=text("reason", reason))

    def touch(self, id: str, receipt: str, ttr: Duration | None = None, *, note: str | None = None) -> None:
        """Makes a reservation last `ttr` from now, or else the job's own TTR. The note says in 1 to 256 bytes how far the work is;
        the next attempt gets it, too."""
        self.hold(id, "touch", receipt, ttr=optional(duration, "ttr", ttr), note=optional(text, "note", note))

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

        def read(reply: Reply) -> list[Refused | None]:
            require(reply.status == 200)
            results = json.loads(reply.text)["results"]
            require(len(results) == len(jobs))
            return [read_held(job["id"], result) for job, result in zip(jobs, results)]

        return self.connections.call("POST", f"/batch/{step}", as_json(jobs=jobs), read, repeat=repeat, limit=limit)

    def hold(self, id: str, step: str, receipt: str, *, repeat: int = SAFELY, limit: float | None = None,
             give_up_after: float | None = None, scope: Scope | None = None, **fields: Any) -> None:
        """A call by the holder of a reservation."""
        read: Callable[[Reply], object] = read_nothing if step == "finish" else job_reader(id)
        try:
            body = as_json(receipt=text("receipt", receipt), **fields)
            self.connections.call("POST", f"{path_of_job(id)}/{step}", body, read, repeat=repeat, limit=limit,
                                  give_up_after=give_up_after, scope=scope)
        except Refused as error:
            # A repeat that finds no such job has reached its aim.
            if not (step == "finish" and error.code == "job_not_found" and error.repeated):
                raise


def _reserved(jobs: Sequence[Job]) -> list[tuple[str, str]]:
    return [(job.id, job.receipt) for job in jobs]
