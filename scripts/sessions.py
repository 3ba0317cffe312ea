"""Programs in sessions of their own, so that all that they began can be ended."""

import contextlib
import os
import signal


def end_session(leader):
    """Kills every process of a session. Some may have made groups of their own, as workers do."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(process)) == leader:
                os.kill(int(process), signal.SIGKILL)
