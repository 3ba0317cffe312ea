"""The program that tests/it/libraries drives: `cases.py NAME` runs a case against LINGER_URL with LINGER_TOKEN. It prints a JSON
object per line, and reads from stdin what it waits for. clients/go/linger/internal/cases does the same."""
from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any, Callable, cast

from changes import many, patches
from faults import say_cuts, take_threads
from forks import OF_FORKS, local_port
from linger import Bury, Client, Error, Job, NewJob, NoAnswer, Refused, Worker
from recurring import OF_SCHEDULES
from versions import OF_VERSIONS

client = Client(os.environ["LINGER_URL"], os.environ["LINGER_TOKEN"])
output = threading.Lock()


def say(**line: Any) -> None:
    with output:
        # In one piece: other processes write to the same pipe.
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def failure(error: BaseException | None) -> Any:
    """What a caller can know of an error."""
    if error is None:
        return None
    if isinstance(error, Refused):
        return {"status": error.status, "code": error.code, "type": error.type, "detail": error.detail,
                "request_id": error.request_id, "text": str(error)}
    if isinstance(error, NoAnswer):
        return {"no_answer": True, "unsent": error.unsent, "text": str(error)}
    try:
        return {"text": str(error)}
    except RuntimeError:
        return {"text": None}


def add() -> None:
    """Adds the body that it reads."""
    body = sys.stdin.readline().rstrip("\n").encode()
    try:
        job = client.add("t", body)
    except Error as error:
        say(failed=failure(error))
    else:
        say(id=job.id, replayed=job.replayed, body=job.raw.decode())


def add_many() -> None:
    for added in client.add_many([NewJob("t", 1), NewJob("no topic"), NewJob("t", "two")]):
        say(id=added.id, replayed=added.replayed, failed=failure(added.error))


def calls() -> None:
    """Makes each call of a producer and of the holder of a job."""
    id = "a:+=@~"
    for _ in range(2):
        added = client.add("t", b'{"n":1}', id=id, delay=timedelta(seconds=90), ttr=90.5, max_attempts=0,
                           retry=[3600, timedelta(minutes=90)], expire=timedelta(seconds=604800.5), on_expiry="delete")
        assert added.expires_at
        expires = (added.expires_at - added.due_at).total_seconds()
        say(id=added.id, replayed=added.replayed, state=added.state, ttr=added.ttr, expires=expires)
    try:
        client.add("t", id=id)
    except Error as error:
        say(other=failure(error))
    at = datetime(2100, 1, 1, tzinfo=timezone.utc)
    say(at=client.reschedule(id, at=at).due_at == at)
    client.reschedule(id, 0)
    found = client.get(id)
    assert found and found.body == {"n": 1}
    say(state=found.state, body=found.raw.decode(), max_attempts=found.max_attempts)
    say(missing="job_not_found" if client.get("none") is None else None)

    poll: dict[str, Any] = {"max": 5, "wait": 0.05, "ttr": timedelta(minutes=1), "worker": "w 1"}
    [reserved] = client.pop("urgent", "t", **poll)
    assert reserved.reserved_until
    say(jobs=len(client.pop("urgent", "t", **poll)))
    client.touch(id, reserved.receipt, note="3 of 7")
    client.touch(id, reserved.receipt, 3600)
    say(touched=id)
    try:
        client.cancel(id, unless_reserved=True)
    except Error as error:
        say(kept=failure(error))
    sys.stdin.readline()
    client.release(id, reserved.receipt, delay=0, reason="later")
    [reserved] = client.pop("urgent", "t", **poll)
    say(reason=reserved.reason, note=reserved.note, noted=reserved.noted_at is not None)
    client.release(id, reserved.receipt, reason="much later")
    client.reschedule(id, 0)
    [reserved] = client.pop("urgent", "t", **poll)
    client.release(id, reserved.receipt, at=at, reason="in 2100")
    waiting = client.get(id)
    say(at=waiting is not None and waiting.due_at == at)
    client.reschedule(id, 0)
    [reserved] = client.pop("urgent", "t", **poll)
    client.bury(id, reserved.receipt, "no such order")
    say(buried=id)
    sys.stdin.readline()
    requeued = client.requeue(id, at=at)
    say(state=requeued.state, at=requeued.due_at == at)
    for unless_reserved in (True, False):
        say(cancelled=client.cancel(id, unless_reserved=unless_reserved))


def requeue() -> None:
    say(state=client.requeue("a").state)


def texts() -> None:
    """Gives durations and times as the API has them."""
    client.add("t", id="a", delay="30m", ttr="90s", retry=["15s", 60, timedelta(minutes=2)])
    client.add("t", id="b", at="2100-01-01T00:00:00Z")
    # An offset with seconds, as time zones had them before 1900.
    client.add("t", id="c", at=datetime(2100, 1, 1, tzinfo=timezone(timedelta(seconds=3208))))
    say(added=3)
    sys.stdin.readline()
    client.reschedule("a", "0s")
    client.reschedule("b", at="2101-01-01T00:00:00Z")
    [job] = client.pop("t", ttr="2m")
    client.touch(job.id, job.receipt, "1h")
    client.release(job.id, job.receipt, delay="5m")
    say(released=job.id)
    sys.stdin.readline()


async def nothing(_: Job) -> None:
    """Is no handler: a call of it only makes a coroutine."""


def arguments() -> None:
    """Gives values that make no sense, and says what comes of it."""
    url, nan, infinity, handle = os.environ["LINGER_URL"], float("nan"), float("inf"), print
    given: dict[str, Callable[[], object]] = {
        "an empty id": lambda: client.add("t", id=""),
        "an empty id in a batch": lambda: client.add_many([NewJob("t", id="")])[0].error,
        "a number as an id": lambda: client.add("t", id=cast(Any, 5)),
        "an empty topic": lambda: client.add(""),
        "a job without an id": lambda: client.get(""),
        "a job that is a folder": lambda: client.cancel(".."),
        "an empty receipt": lambda: client.finish("a", ""),
        "no receipt": lambda: client.finish("a", cast(Any, None)),
        "a negative delay": lambda: client.add("t", delay=-5),
        "a delay that is no number": lambda: client.add("t", delay=nan),
        "an infinite delay": lambda: client.add("t", delay=infinity),
        "a boolean delay": lambda: client.add("t", delay=True),
        "a huge delay": lambda: client.add("t", delay=10 ** 400),
        "a long delay": lambda: client.add("t", delay=1e300),
        "a delay in words": lambda: client.add("t", delay="soon"),
        "one text as a schedule": lambda: client.add("t", retry="15s"),
        "a naive time": lambda: client.add("t", at=datetime(2100, 1, 1)),
        "a number as a time": lambda: client.add("t", at=cast(Any, 4102444800)),
        "a fraction of attempts": lambda: client.add("t", max_attempts=cast(Any, 2.5)),
        "a boolean maximum": lambda: client.pop("t", max=True),
        "a list as a topic": lambda: client.pop(cast(Any, ["t"])),
        "a text as a wait": lambda: client.pop("t", wait=cast(Any, "5s")),
        "an infinite wait": lambda: client.pop("t", wait=infinity),
        "a negative wait": lambda: client.pop("t", wait=-60),
        "an empty note": lambda: client.touch("a", "0" * 32, note=""),
        "a number as a note": lambda: client.touch("a", "0" * 32, note=cast(Any, 5)),
        "an empty name": lambda: Worker(client, ["t"], handle, name="").run(),
        "no topics": lambda: Worker(client, [], handle),
        "no handler": lambda: Worker(client, ["t"], cast(Any, None)),
        "a coroutine function as a handler": lambda: Worker(client, ["t"], nothing),
        "no place": lambda: Worker(client, ["t"], handle, parallel=0),
        "a negative drain": lambda: Worker(client, ["t"], handle, drain=-1),
        "no timeout": lambda: Client(url, timeout=0),
        "an infinite timeout": lambda: Client(url, timeout=infinity),
        "a token with a line break": lambda: Client(url, "secret\n"),
        "a URL without a scheme": lambda: Client("localhost:9711"),
        "a URL without a host": lambda: Client("http://:9711"),
        "a URL of another scheme": lambda: Client("ftp://localhost"),
        "a URL with a query": lambda: Client("http://localhost/?token=x"),
        "a URL with a password": lambda: Client("http://user:secret@localhost"),
        "a URL with a port that is none": lambda: Client("http://localhost:99999"),
    }
    for name, call in given.items():
        try:
            error = call()
        except (TypeError, ValueError, Error) as raised:
            error = raised
        say(given=name, error=type(error).__name__, text=str(error))


def late() -> None:
    """Finishes a job when it is told to."""
    [job] = client.pop("t", wait=20)
    say(popped=job.id)
    sys.stdin.readline()
    try:
        client.finish(job.id, job.receipt)
    except Error as error:
        say(failed=failure(error))


def pop() -> None:
    """Pops once."""
    try:
        say(jobs=len(client.pop("t")))
    except Error as error:
        say(failed=failure(error))


class Silent(Exception):
    """An error that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("there is no text")


def end_oddly(job: Job) -> object:
    """What a handler may do besides its work. What it returns is ignored, if nothing is left to run."""
    if job.raw == b'"coroutine"':
        return asyncio.sleep(0)
    if job.raw == b'"fail"':
        raise KeyError("psp timeout")
    if job.raw == b'"panic"':
        sys.exit("psp broken")
    if job.raw == b'"bury"':
        raise Bury("no such order")
    if job.raw == b'"silent"':
        raise Silent
    if job.raw == b'"exit"':
        raise KeyboardInterrupt
    if job.raw == b'"nothing"':
        raise SystemExit
    if job.raw == b'"change"':
        job.id, job.receipt, job.lost = "another", "0" * 32, threading.Event()
    return None


def worker(parallel: str = "1", ttr_ms: str = "0", drain_ms: str = "0", hook: str = "say") -> None:
    """Runs jobs whose bodies say how they end. A job whose body is "wait" waits for a line with its id. The hook says
    each event, and then may "raise" or "wait" for such a line; there may also be "none"."""
    gates: defaultdict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(0))

    def read() -> None:
        for line in sys.stdin:
            gates[line.strip()].release()

    def handle(job: Job) -> object:
        say(runs=job.id, body=job.raw.decode(), receipt=job.receipt)
        if job.raw == b'"note"' and not job.note:
            job.set_note("resume at 41,200")
            say(noted=job.id)
            gates[job.id].acquire()
            raise ValueError("halfway")
        if job.note:
            say(resumes=job.id, note=job.note)
        result = end_oddly(job)
        if job.raw == b'"wait"':
            gate = gates[job.id]
            while not job.lost.wait(0.01) and not gate.acquire(blocking=False):
                pass
            if job.lost.is_set():
                now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
                say(told=job.id, at=now.replace("+00:00", "Z"))
                gate.acquire()
        # Also after it was told to stop, which must not finish the job.
        say(returns=job.id)
        return result

    def on_event(event: str, job: Job | None, error: BaseException | None) -> None:
        say(event=event, error=failure(error), **({"id": job.id} if job else {}))
        if hook == "raise":
            sys.exit("the hook is broken")
        if hook == "wait" and job:
            gates[job.id].acquire()

    threading.Thread(target=read, daemon=True).start()
    options: dict[str, Any] = {}
    if int(ttr_ms):
        options["ttr"] = int(ttr_ms) / 1000
    if int(drain_ms):
        options["drain"] = int(drain_ms) / 1000
    if hook != "none":
        options["on_event"] = on_event
    try:
        Worker(client, ["t"], handle, parallel=int(parallel), **options).run_until_signal()
    except Error as error:
        say(ended=failure(error))
    else:
        say(ended=None)


def worker_without_threads(target: str, first: str, ttr_ms: str) -> None:
    take_threads(target, int(first))
    worker("2", ttr_ms)


def worker_with_short_reports() -> None:
    say_cuts(say)
    worker("1", "0", "1")


def misuse() -> None:
    """Runs a worker again, in a thread and in a child of the process that runs it."""
    made = Worker(client, ["t"], print)

    def attempt(what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except RuntimeError as error:
            say(misuse=what, text=str(error))
        else:
            say(misuse=what, text=None)

    thread = threading.Thread(target=attempt, args=("in a thread", made.run_until_signal))
    thread.start()
    thread.join()
    running = threading.Thread(target=made.run)
    running.start()
    sys.stdin.readline()  # once it polls
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)
        attempt("in a child", made.run)
        return
    os.waitpid(pid, 0)
    attempt("while it runs", made.run)
    made.stop()
    running.join()
    attempt("after it ran", made.run)


def with_block() -> None:
    with client as same:
        same.add("t")
        local_port(client)
    say(idle=len(client.connections._idle))


if __name__ == "__main__":
    cases: dict[str, Callable[..., None]] = {
        "add": add, "add-many": add_many, "calls": calls, "requeue": requeue, "texts": texts, "arguments": arguments,
        "late": late, "pop": pop, "worker": worker, "without-threads": worker_without_threads,
        "short-reports": worker_with_short_reports, "misuse": misuse, "with": with_block,
    }
    for name, case in {"many": many, "patches": patches, **OF_FORKS, **OF_VERSIONS, **OF_SCHEDULES}.items():
        cases[name] = partial(case, client, say)
    cases[sys.argv[1]](*sys.argv[2:])
