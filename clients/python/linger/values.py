"""What callers give. Values for the server go there as they are; what cannot be sent, or what the library itself counts with, is
checked here."""
from __future__ import annotations

import math
import re
import urllib.parse
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, TypeVar, Union

Value = TypeVar("Value")
Seconds = Union[int, float, timedelta]
# Also as the API has it, such as "15m".
Duration = Union[int, float, timedelta, str]
# Also as the API has it, such as "2027-01-01T00:00:00Z".
Moment = Union[datetime, str]


def optional(check: Callable[[str, Any], Value], name: str, value: Any) -> Value | None:
    """None for a value that is not given."""
    return None if value is None else check(name, value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r}")
    return value


def count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {value!r}")
    return value


def seconds(name: str, value: Any, form: str = "a number of seconds or a timedelta") -> float:
    """A duration that the library counts with, to the millisecond."""
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be {form}, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number of seconds, not {value!r}")
    return round(number, 3)


def duration(name: str, value: Any) -> float | str:
    """A duration for the server, which checks its text and its bounds."""
    if isinstance(value, str):
        return value
    return seconds(name, value, 'a number of seconds, a timedelta or a text such as "15m"')


def durations(name: str, values: Any) -> list[float | str]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of durations, not {values!r}")
    return [duration(f"a duration of {name}", value) for value in values]


def expiry(name: str, value: Any) -> float | str:
    """A duration or a time for the server."""
    return moment(name, value) if isinstance(value, datetime) else duration(name, value)


def moment(name: str, value: Any) -> str:
    """A time for the server."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        raise TypeError(f'{name} must be a datetime with a time zone or a text such as "2027-01-01T00:00:00Z", not {value!r}')
    if value.utcoffset() is None:
        raise ValueError(f"{name} must have a time zone, which {value!r} has not")
    try:
        # In UTC, since RFC 3339 has no seconds in offsets.
        return value.astimezone(timezone.utc).isoformat()
    except OverflowError:
        raise ValueError(f"{name} is out of range: {value!r}") from None


def path_of_job(id: Any) -> str:
    return "/jobs/" + _segment("id", id)


def path_of_schedule(name: Any) -> str:
    return "/schedules/" + _segment("name", name)


def _segment(what: str, name: Any) -> str:
    if text(what, name) in ("", ".", ".."):
        raise ValueError(f"{'an' if what == 'id' else 'a'} {what} must not be {name!r}, which no URL can name")
    return urllib.parse.quote(name, safe=":@+=~")


def server_url(url: str) -> urllib.parse.SplitResult:
    """The parts of a server's URL: a scheme, a host, perhaps a port and the beginning of all paths."""
    url = text("url", url)
    shown = "url" if "@" in url else repr(url)  # it may have a password
    form = f"{shown} must be the URL of a server, such as http://localhost:9277"
    try:
        parts = urllib.parse.urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError as error:
        raise ValueError(f"{form}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
        raise ValueError(form)
    if parts.username is not None or not re.fullmatch(r"[^\s\x00-\x1f\x7f?#]*", url):
        raise ValueError(f"{form}, without a user, a query, a fragment and spaces")
    if not parts.path.isascii():
        raise ValueError(f"{form}, with a path in ASCII")
    return parts


def bearer_token(token: Any) -> str:
    """A token that a header can carry. No error shows it."""
    if not isinstance(token, str):
        raise TypeError("the token must be a str")
    if not re.fullmatch(r"[!-~]*", token):
        raise ValueError("the token must have visible ASCII characters only, and no line break at its end")
    return token
