"""Reports what happens to a worker: to the hook of the user, or to the log."""
from __future__ import annotations

import contextlib
import logging
import threading
from typing import Callable, Optional

from .jobs import Job

Hook = Callable[[str, Optional[Job], Optional[BaseException]], object]

logger = logging.getLogger("linger")


class Events:
    """Calls the hook of a worker. The hook is the user's code, and can do nothing to the worker."""

    def __init__(self, hook: Hook | None) -> None:
        self._hook = hook or _log

    def send(self, event: str, job: Job | None, error: BaseException | None) -> None:
        try:
            self._hook(event, job, error)
        except BaseException as raised:  # also sys.exit()
            if isinstance(raised, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # Ctrl-C
            with contextlib.suppress(BaseException):
                logger.error("on_event failed at %s", event, exc_info=raised)


def text_of(error: BaseException) -> str:
    """The text of an exception, which may be of a class of the user's."""
    try:
        return str(error)
    except BaseException:
        return "its text cannot be read"


def describe(error: BaseException) -> str:
    """The class and the text of an exception, such as KeyError: 'order'."""
    name, text = type(error).__name__, text_of(error)
    return f"{name}: {text}" if text else name


def _log(event: str, job: Job | None, error: BaseException | None) -> None:
    what = f"job {job.id} {event}" if job else f"the server is {event}"
    if error is None:
        logger.warning("%s", what)
    elif event == "failed":
        logger.warning("%s: %s", what, describe(error), exc_info=error)
    else:
        logger.warning("%s: %s", what, error)
