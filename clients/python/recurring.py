"""Cases of cases.py about schedules."""
from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

from linger import Client, NewJob, Refused, Schedule

BEGIN, END = (datetime(2099, month, 28, tzinfo=timezone.utc) for month in (3, 6))


def text(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None


def show(schedule: Schedule) -> dict[str, Any]:
    return {"created": schedule.created, "revision": schedule.revision, "state": schedule.state}


def show_whole(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name, "cron": schedule.cron, "time_zone": schedule.time_zone, "every": schedule.every or 0,
        "start": text(schedule.start), "end": text(schedule.end), "jitter": schedule.jitter, "overlap": schedule.overlap,
        "missed": schedule.missed, "missed_within": schedule.missed_within or 0, "job": schedule.job.decode(),
        "next": [text(at) for at in schedule.next], "last": text(schedule.last), "fired": schedule.runs["fired"],
        "waiting": schedule.waiting_reason, "waiting_since": text(schedule.waiting_since), "last_job": schedule.last_job,
    }


def schedules(client: Client, say: Callable[..., None]) -> None:
    """Makes each call about a schedule."""
    def code(call: Callable[[], object]) -> str:
        try:
            call()
        except Refused as error:
            return error.code
        return "done"

    job = NewJob("reports", b'{"n":  1e400}', ttr=600, retry=[60])
    rule: dict[str, Any] = {
        "cron": "30 2 * * *", "time_zone": "Europe/Berlin", "start": BEGIN, "end": END, "jitter": timedelta(minutes=5),
        "overlap": "allow", "missed": "all", "missed_within": "1h",
    }
    say(missing=client.get_schedule("nightly:report") is None)
    for _ in range(2):
        say(**show(client.put_schedule("nightly:report", job, **rule)))
    found = client.get_schedule("nightly:report")
    assert found
    say(**show_whole(found))
    say(**show(client.put_schedule("nightly:report", found.job, **rule, revision=1)))
    say(other=code(lambda: client.put_schedule("nightly:report", job, every=90.5, revision=7)),
        none=code(lambda: client.put_schedule("nightly:report", job, every=90.5, revision=0)))
    say(**show(client.put_schedule("nightly:report", job, every=90.5, start=BEGIN, revision=1)))
    found = client.get_schedule("nightly:report")
    assert found
    say(cron=found.cron, every=found.every, jitter=found.jitter)
    say(next=[text(at) for at in client.next_runs("nightly:report", 2)], ten=len(client.next_runs("nightly:report")))
    say(**show(client.pause_schedule("nightly:report")))
    say(**show(client.resume_schedule("nightly:report")))
    for _ in range(2):
        run = client.run_schedule("nightly:report", "incident-7")
        say(id=run.id, state=run.state, replayed=run.replayed, body=run.raw.decode())
    runs = [client.run_schedule("nightly:report").id for _ in range(2)]
    say(generated=[id.startswith("run:nightly:report:") for id in runs], differ=runs[0] != runs[1])
    sys.stdin.readline()
    waiting = client.get_schedule("waiting")
    assert waiting
    say(waiting=waiting.waiting_reason, since=waiting.waiting_since is not None, last=waiting.last is not None)
    say(deleted=[client.delete_schedule("nightly:report") for _ in range(2)])
    say(refused=code(lambda: client.put_schedule("a", job, cron="61 * * * *")), gone=code(lambda: client.pause_schedule("none")))
    try:
        client.get_schedule("..")
    except ValueError as error:
        say(folder=str(error))


def schedules_again(client: Client, say: Callable[..., None]) -> None:
    """Makes the calls that change something, each of which loses its first answer."""
    job = NewJob("reports")
    say(put=client.put_schedule("a", job, cron="@daily").created)
    say(paused=client.pause_schedule("a").state)
    say(resumed=client.resume_schedule("a").state)
    say(runs=[client.run_schedule("a", "1").replayed, client.run_schedule("a").replayed])
    try:
        client.put_schedule("a", job, cron="@hourly", revision=3)
    except Refused as error:
        say(code=error.code, repeated=error.repeated)
    say(deleted=client.delete_schedule("a"))


def list_schedules(client: Client, say: Callable[..., None]) -> None:
    """Lists all schedules, and waits for a line behind the first."""
    is_first = True
    try:
        for schedule in client.schedules():
            say(name=schedule.name)
            if is_first:
                sys.stdin.readline()
            is_first = False
    except Refused as error:
        say(code=error.code)


OF_SCHEDULES: dict[str, Callable[..., None]] = {
    "schedules": schedules, "schedules-again": schedules_again, "list-schedules": list_schedules,
}
