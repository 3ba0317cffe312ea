"""Cases of cases.py about programs that fork."""
from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Callable

from linger import Client, Job, Worker


def local_port(client: Client) -> int:
    """Which connection the client keeps."""
    [(_, connection)] = client.connections._idle
    port = connection.sock.getsockname()[1]
    assert isinstance(port, int)
    return port


def fork(client: Client, say: Callable[..., None]) -> None:
    """Forks two children with a connection that is open and a lock that is held. They run workers that were made before."""
    # Nothing is left to load while a thread may fork.
    assert "encodings.idna" in sys.modules
    # With reads: a paused server closes the connection of a change that it has not begun.
    client.get("none")
    port, children = local_port(client), []
    for topic in ("a", "b"):
        def handle(job: Job) -> None:
            say(runs=job.id, topic=job.topic, pid=os.getpid())
            os.read(0, 1)  # a byte for each child
            made.stop()

        made = Worker(client, [topic], handle)
        with client.connections._lock:
            pid = os.fork()
        if pid == 0:
            signal.alarm(120)  # the end of a child whose test has failed
            made.run()
            return
        children.append(pid)
    parent = Client(os.environ["LINGER_URL"], os.environ["LINGER_TOKEN"])
    [job] = parent.pop("c", wait=60)
    say(popped=job.id)
    ends = [os.waitpid(pid, 0)[1] for pid in children]
    parent.finish(job.id, job.receipt)
    client.get("none")
    say(ends=ends, same_connection=local_port(client) == port)


def fork_between_calls(client: Client, say: Callable[..., None]) -> None:
    """Forks a child that makes a call and ends, between two calls of its parent."""
    client.get("none")
    port, pid = local_port(client), os.fork()
    if pid == 0:
        client.get("none")
        return
    end = os.waitpid(pid, 0)[1]
    client.get("none")
    say(ends=[end], same_connection=local_port(client) == port)


def fork_while_polling(client: Client, say: Callable[..., None]) -> None:
    """Forks a child while another thread polls. Both wait for the test."""
    threading.Thread(target=lambda: client.pop("t", wait=600), daemon=True).start()
    sys.stdin.readline()
    pid = os.fork()
    if pid == 0:
        say(child=os.getpid())
        sys.stdin.readline()
        return
    os.waitpid(pid, 0)


OF_FORKS: dict[str, Callable[..., None]] = {
    "fork": fork, "fork-between-calls": fork_between_calls, "fork-while-polling": fork_while_polling,
}
