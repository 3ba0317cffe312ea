"""Faults of the system that the cases of cases.py make."""
from __future__ import annotations

import threading
from typing import Callable

import linger.worker
from linger.calls import Scope


def take_threads(target: str, first: int) -> None:
    """Has the system give no more threads for this function, from a number on."""
    start, count = threading.Thread.start, 0

    def refuse(thread: threading.Thread) -> None:
        nonlocal count
        if getattr(getattr(thread, "_target"), "__name__", "") == target:
            count += 1
            if count >= first:
                raise RuntimeError("can't start new thread")
        start(thread)

    setattr(threading.Thread, "start", refuse)


def say_cuts(say: Callable[..., None]) -> None:
    """Ends the last reports of a worker with its drain, and says when calls are cut."""
    cut = Scope.cut

    def say_cut(scope: Scope) -> None:
        cut(scope)
        say(cut=True)

    setattr(Scope, "cut", say_cut)
    setattr(linger.worker, "LAST_REPORTS", 0)
