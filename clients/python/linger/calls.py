"""Sends calls, over connections that stay open, and repeats them; knows no job. The errors of calls."""
from __future__ import annotations

import codecs
import http.client
import json
import os
import random
import select
import socket
import ssl
import threading
import time
import urllib.parse
import weakref
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, TypeVar

Answer = TypeVar("Answer")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# The codec of host names is loaded now. A child that is forked while another thread loads it would wait for that for ever.
codecs.lookup("idna")
# The longest wait; sockets and locks cannot count centuries.
A_DAY = 86400.0
# How long a connection may be idle; shorter than the server's keep_alive_timeout.
LONGEST_IDLE = 60.0

# When a call is sent again after a temporary failure: always, since the server recognises a repeat or a second run changes
# nothing; unless its answer may be lost; only if it cannot have taken effect; only if the server says that it has not begun
# it; not at all.
SAFELY, UNLESS_LOST, IF_UNDONE, IF_NOT_BEGUN, NEVER = range(5)


class Error(Exception):
    """A call failed."""

    retry_after = 0.0  # seconds


class NoAnswer(Error):
    """No complete answer of the server came: none at all, or that of something else, such as a proxy. Unless `unsent`, the call
    may have taken effect all the same."""

    unsent = False  # the server has not seen the call
    hopeless = False  # another try would fail in the same way
    status = 0  # that of the answer of something else


class Refused(Error):
    """The server refuses a call, with a problem document (RFC 9457)."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after: float = 0) -> None:
        super().__init__(f"{status} {problem.get('code', '')} {problem.get('detail', '')}".strip())
        self.status = status
        self.code = str(problem.get("code", ""))  # a stable word, such as lease_lost
        self.type = str(problem.get("type", ""))
        self.detail = str(problem.get("detail", ""))  # the first fault, and how to correct it
        self.request_id = str(problem.get("request_id", ""))
        self.retaken = problem.get("retaken") is not False  # of lease_lost: whether a finish would be refused, too
        revision = problem.get("revision")
        self.revision = revision if isinstance(revision, int) else None  # of stale_revision: that of the job which is there
        self.retry_after = retry_after
        self.repeated = False  # an earlier try of this call may have taken effect

    @property
    def is_temporary(self) -> bool:
        """Whether a later try may be answered otherwise."""
        return self.status in (408, 429) or self.status >= 500

    @property
    def is_not_begun(self) -> bool:
        """Whether the server says that it has not begun the call, because it was paused while the call waited."""
        return self.status == 503 and self.code == "not_begun"


class Reply(NamedTuple):
    """An answer with the status of a success."""

    status: int
    headers: http.client.HTTPMessage
    text: str


class Scope:
    """Calls that another thread may cut short, all together."""

    def __init__(self) -> None:
        self.is_cut = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()

    def enter(self, sock: socket.socket) -> None:
        with self._lock:
            if self.is_cut.is_set():
                raise OSError("the call was cut short")
            self._sockets.add(sock)

    def leave(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(sock)

    def cut(self) -> None:
        with self._lock:
            self.is_cut.set()
            for sock in self._sockets:
                try:
                    # SSLSocket.shutdown would meddle with the state of the thread that reads.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
                except OSError:
                    pass  # the server has closed it


def pause_after(failures: int, error: Error) -> float:
    """How long to wait before the next try: twice as long each time, and as long as the server asks for."""
    longest = min(FIRST_PAUSE * 2.0 ** min(failures, 10), LONGEST_PAUSE)
    # Clients that failed together must not come back together.
    return max(longest * random.uniform(0.5, 1), error.retry_after)


class Connections:
    """The connections to one server. They belong to the process that opened them: a forked child starts without any."""

    def __init__(self, url: urllib.parse.SplitResult, token: str, timeout: float, context: ssl.SSLContext | None) -> None:
        self._host, self._port, self._base = url.hostname or "", url.port, url.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if url.scheme == "https" else None
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._reset()
        _every.add(self)

    def _reset(self) -> None:
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()  # idle or in use
        # In a child this takes the place of a lock that a thread of the parent may have held at the fork.
        self._lock = threading.Lock()

    def leave_to_parent(self) -> None:
        """Drops the connections in a child. That sends nothing, also not the end of a TLS session, and while the parent has them
        they stay open. A child that kept them would keep a poll alive whose process has ended."""
        inherited = list(self._open)
        self._reset()
        for sock in inherited:
            descriptor = sock.detach()
            if descriptor >= 0:
                os.close(descriptor)

    def close(self) -> None:
        """Closes the connections that no call uses."""
        with self._lock:
            while self._idle:
                self._idle.pop()[1].close()

    def call(self, method: str, path: str, body: bytes | None, read: Callable[[Reply], Answer], *, repeat: int = SAFELY,
             wait: float = 0, limit: float | None = None, give_up_after: float | None = None, scope: Scope | None = None,
             if_match: str | None = None) -> Answer:
        """Sends a call until it is answered or may not be sent again. `read` makes the answer of a success, and raises an error if
        the reply is not the server's. The server may take `wait` longer than others; `limit` is that of
        one try. `give_up_after` replaces the timeout as the limit of all tries together."""
        end = time.monotonic() + (self._timeout if give_up_after is None else give_up_after)
        scope, failures, may_have_happened = scope or Scope(), 0, False
        headers = self._headers if if_match is None else {**self._headers, "If-Match": if_match}
        while True:
            left = max(end - time.monotonic(), 0.001) if give_up_after is None else self._timeout
            try:
                return self._try(method, path, body, headers, read, min((limit or left) + max(wait, 0), A_DAY), scope)
            except Refused as error:
                failure: Error = error
                error.repeated = may_have_happened
                may_have_happened |= error.status >= 500 and not error.is_not_begun
                is_temporary = error.is_temporary and (error.is_not_begun or repeat != IF_NOT_BEGUN)
            except NoAnswer as error:
                failure = error
                may_have_happened |= not error.unsent
                is_temporary = not error.hopeless and (error.unsent or repeat != UNLESS_LOST) and repeat != IF_NOT_BEGUN
            if repeat == NEVER or not is_temporary or repeat == IF_UNDONE and may_have_happened:
                raise failure
            pause = pause_after(failures, failure)
            failures += 1
            if give_up_after is not None:
                pause = min(pause, LONGEST_PAUSE)
            # A pause lasts longer where the machine is busy or this process was stopped.
            if time.monotonic() + pause >= end or scope.is_cut.wait(pause) or time.monotonic() >= end:
                raise failure

    def _try(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], read: Callable[[Reply], Answer],
             limit: float, scope: Scope) -> Answer:
        connection = self._connect(limit)
        sock = connection.sock
        try:
            scope.enter(sock)
            try:
                sock.settimeout(limit)
                connection.request(method, self._base + path, body, headers)
                response = connection.getresponse()
                content = response.read()
            finally:
                scope.leave(sock)
            answer = _interpret(response, content, read)
        except Refused:
            self._keep(connection, response)
            raise
        except NoAnswer:
            connection.close()
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise NoAnswer(f"no answer: {error!r}") from error
        except BaseException:
            # Such as KeyboardInterrupt. Nothing reads the answer, which may have jobs.
            connection.close()
            raise
        self._keep(connection, response)
        return answer

    def _connect(self, limit: float) -> http.client.HTTPConnection:
        """A connection that is open: an idle one, or a new one."""
        while True:
            with self._lock:
                since, idle = self._idle.pop() if self._idle else (0.0, None)
            if idle is None:
                break
            if time.monotonic() - since < LONGEST_IDLE and not _is_readable(idle.sock):
                return idle
            idle.close()
        if self._context:
            new: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=limit, context=self._context)
        else:
            new = http.client.HTTPConnection(self._host, self._port, timeout=limit)
        try:
            new.connect()
        except (OSError, ValueError) as error:  # a host name with a label that is too long is a ValueError
            new.close()
            failure = NoAnswer(f"not connected: {error!r}")
            failure.unsent, failure.hopeless = True, isinstance(error, ValueError)  # a certificate's error is one, too
            raise failure from error
        with self._lock:
            self._open.add(new.sock)
        return new

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        if response.will_close or connection.sock is None:
            connection.close()
            return
        with self._lock:
            self._idle.append((time.monotonic(), connection))


_every: weakref.WeakSet[Connections] = weakref.WeakSet()


def _after_fork() -> None:
    for connections in _every:
        connections.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_readable(sock: socket.socket) -> bool:
    """Whether the server has closed an idle connection, or sent bytes without a request."""
    if not hasattr(select, "poll"):
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def is_problem(problem: Any, status: int) -> bool:
    """Whether this is a problem document of the server about a failure with this status."""
    code = problem.get("code") if isinstance(problem, dict) else None
    return isinstance(code, str) and code != "" and problem.get("status") == status


def _interpret(response: http.client.HTTPResponse, content: bytes, read: Callable[[Reply], Answer]) -> Answer:
    """The answer of the server, or the error that it is. An answer in another form comes from something else."""
    try:
        text = content.decode()
        if response.status < 300:
            return read(Reply(response.status, response.headers, text))
        problem = json.loads(text)
    except Exception as error:  # a text that is not the server's may fail in any way
        raise _foreign(response, content) from error
    if not is_problem(problem, response.status):
        raise _foreign(response, content)
    raise Refused(response.status, problem, _retry_after(response))


def _foreign(response: http.client.HTTPResponse, content: bytes) -> NoAnswer:
    kind = response.getheader("Content-Type") or "no Content-Type"
    begin = content[:200].decode(errors="replace")
    failure = NoAnswer(f"the answer did not come from Linger: status {response.status}, {kind}, {begin!r}")
    # A proxy that refuses a call does not pass it on.
    failure.unsent = 300 <= response.status < 500
    failure.status, failure.retry_after = response.status, _retry_after(response)
    return failure


def _retry_after(response: http.client.HTTPResponse) -> float:
    after = response.getheader("Retry-After") or ""
    return min(float(after), A_DAY) if after.isdecimal() else 0
