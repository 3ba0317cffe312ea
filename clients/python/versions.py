"""Cases of cases.py about adds that replace jobs, and about jobs that have ended."""
from __future__ import annotations

import sys
from typing import Any, Callable

from linger import Client, Error, Job, NewJob, NoAnswer, Refused


def show(job: Job) -> dict[str, Any]:
    return {"id": job.id, "body": job.body, "revision": job.revision, "replayed": job.replayed, "replaced": job.replaced}


def refusal(error: Error | None) -> dict[str, Any] | None:
    if isinstance(error, Refused):
        return {"code": error.code, "revision": error.revision}
    return {"no_answer": True} if isinstance(error, NoAnswer) else None


def versions(client: Client, say: Callable[..., None]) -> None:
    """Adds versions of a job, one by one and in a batch."""
    for revision, body in [(5, "first"), (5, "again"), (4, "late"), (6, "second"), (None, "third")]:
        try:
            say(**show(client.add("t", body, id="a", if_exists="replace", revision=revision)))
        except Refused as error:
            say(**refusal(error) or {})
    job = client.get("a")
    say(got=job.revision if job else "no job")
    try:
        client.add("t", if_exists="replace")
    except Refused as error:
        say(unnamed=error.code, detail=error.detail)
    jobs = [NewJob("t", id=id, if_exists="replace", revision=revision) for id, revision in [("a", 7), ("b", 0), ("a", 7), ("a", 3)]]
    for added in client.add_many(jobs):
        say(id=added.id, replayed=added.replayed, replaced=added.replaced, error=refusal(added.error))


def replace_once(client: Client, say: Callable[..., None], revision: str, way: str) -> None:
    """Replaces the job `a` alone, or in a batch with another add."""
    new = NewJob("t", 1, "a", if_exists="replace", revision=int(revision) if revision else None)
    try:
        if way == "batch":
            for added in client.add_many([NewJob("t", id="b"), new]):
                say(id=added.id, replayed=added.replayed, replaced=added.replaced)
        else:
            say(**show(client.add(new.topic, new.body, id=new.id, if_exists=new.if_exists, revision=new.revision)))
    except Error as error:
        say(failed=refusal(error))


def holder(client: Client, say: Callable[..., None]) -> None:
    """Makes each call of the holder of jobs that were replaced meanwhile."""
    def code(call: Callable[[], object]) -> str:
        try:
            call()
        except Refused as error:
            return error.code
        return "done"

    jobs = sorted(client.pop("t", max=4, wait=20), key=lambda job: job.id)
    say(popped=[job.id for job in jobs])
    sys.stdin.readline()
    for touched in client.touch_many(jobs):
        say(touched=touched.code if touched else "done")
    (a, b, c, d) = [(job.id, job.receipt) for job in jobs]
    say(touch=code(lambda: client.touch(*a)), finish=code(lambda: client.finish(*a)), release=code(lambda: client.release(*b)),
        bury=code(lambda: client.bury(*c)), many=[result.code if result else "done" for result in client.release_many(jobs[3:])])


def ended(client: Client, say: Callable[..., None]) -> None:
    """Adds a job that was finished, alone and in a batch, and one that was deleted."""
    job = client.add("t", 1, id="a")
    assert job.ended
    say(id=job.id, topic=job.topic, state=job.state, replayed=job.replayed, replaced=job.replaced, attempts=job.attempts,
        ttr=job.ttr, has_due=job.due_at is not None, body=job.body, raw=job.raw.decode(), how=job.ended.how,
        at=job.ended.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
    [added] = client.add_many([NewJob("t", id="a")])
    assert added.ended
    say(id=added.id, replayed=added.replayed, same_end=added.ended == job.ended, error=refusal(added.error))
    try:
        client.add("t", id="b")
    except Refused as error:
        say(code=error.code)


OF_VERSIONS: dict[str, Callable[..., None]] = {
    "versions": versions, "replace-once": replace_once, "holder": holder, "ended": ended,
}
