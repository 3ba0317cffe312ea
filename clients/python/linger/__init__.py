"""Calls a Linger server, a durable delay queue: Client adds jobs and changes them, Worker runs them.

It needs the standard library of Python 3.9 only; this folder may be copied into another project. Durations are seconds, as
numbers, or timedelta, or texts of the API such as "15m". Times are datetime with a time zone, or texts of the API. A value that
makes no sense raises TypeError or ValueError; the server checks the rest.

SPDX-License-Identifier: Apache-2.0
"""
from .attempt import Bury
from .calls import Error, NoAnswer, Refused
from .client import Client
from .jobs import Added, Ended, Job, NewJob
from .schedules import Schedule
from .worker import Worker

__all__ = ["Added", "Bury", "Client", "Ended", "Error", "Job", "NewJob", "NoAnswer", "Refused", "Schedule", "Worker"]
