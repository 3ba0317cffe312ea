"""Cases of cases.py that change jobs: many at once, and by patches."""
from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Callable

from linger import Client, Job, Refused

IN_2100 = datetime(2100, 1, 1, tzinfo=timezone.utc)


def many(client: Client, say: Callable[..., None]) -> None:
    """Makes each call of the holder of many jobs. The last one comes when they are in other hands."""
    def codes(results: Sequence[Refused | None]) -> list[str]:
        return [result.code if result else "done" for result in results]

    jobs = client.pop("t", max=3, wait=20)
    stale = replace(jobs[0], receipt="0" * 32)
    say(touched=codes(client.touch_many([*jobs, stale], timedelta(hours=1))))
    sys.stdin.readline()
    say(buried=codes(client.bury_many(jobs[:1], "no such order")))
    say(released=codes(client.release_many(jobs[1:2], delay=3600, reason="later")))
    say(released=codes(client.release_many(jobs[2:], at=IN_2100, reason="in 2100")))
    say(late=codes(client.release_many(jobs)))


def patches(client: Client, say: Callable[..., None]) -> None:
    """Changes each field of a job, and then the due time alone."""
    def show(job: Job) -> None:
        expires = (job.expires_at - job.due_at).total_seconds() if job.expires_at else None
        say(state=job.state, ttr=job.ttr, max_attempts=job.max_attempts, body=job.raw.decode(), expires=expires,
            at=job.due_at == IN_2100)

    show(client.patch("a", at=IN_2100, ttr=90.5, max_attempts=3, retry=[60, timedelta(minutes=2)], body=b'{"n": 1e400}'))
    show(client.patch("a", expire=3600.5, on_expiry="delete"))
    show(client.patch("a", clear_expire=True, body=None))
    show(client.patch("a", delay=0, max_attempts=0, retry=[]))
    try:
        client.patch("a")
    except Refused as error:
        say(code=error.code)
