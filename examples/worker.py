#!/usr/bin/env python3
"""A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies.

It reads LINGER_URL, LINGER_TOKEN and TOPIC. SIGTERM ends it after the job at hand.
"""
import http.client
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("LINGER_URL", "http://127.0.0.1:9277").rstrip("/")
TOKEN = os.environ.get("LINGER_TOKEN", "")
TOPIC = os.environ.get("TOPIC", "hello")
PAUSE = 2  # seconds before the next try after an error
NO_ANSWER = (OSError, http.client.HTTPException, ValueError)  # also an answer that was cut off

stopping = polling = False


def work(body):
    """Do the work here. It may run twice for a job; raise an exception to give the job back."""
    print(json.dumps(body), flush=True)


def call(method, path, body=None):
    """Send a request and return the status and the text of the answer."""
    headers = {"content-type": "application/json"}
    if TOKEN:
        headers["authorization"] = f"Bearer {TOKEN}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:  # an answer with an error's status
        return error.code, error.read().decode()


def complain(line):
    print(line, file=sys.stderr, flush=True)


def pop():
    """Return the next job, or None when none came due or the server did not give one."""
    global polling
    polling = not stopping
    try:
        status, text = call("GET", f"/topics/{TOPIC}/pop?wait=20s") if polling else (204, "")
        if status == 204:
            return None
        if status == 200:
            job = json.loads(text)
            return {name: job[name] for name in ("id", "receipt", "body")}
        complain(f"pop: {status} {text.strip()}")
    except NO_ANSWER + (KeyError, TypeError) as error:
        complain(f"pop: {error!r}")
    finally:
        polling = False
    time.sleep(PAUSE)
    return None


def settle(job, step, body):
    """Finish or release the job. Repeating is safe; if every try fails, the job's TTR brings it back."""
    for _ in range(5):
        try:
            status, text = call("POST", f"/jobs/{job['id']}/{step}", body)
            if status < 300:
                return
            complain(f"{step} {job['id']}: {status} {text.strip()}")
            if status < 500:  # 404: it is gone already. 409: it has another holder by now.
                return
        except NO_ANSWER as error:
            complain(f"{step} {job['id']}: {error!r}")
        time.sleep(PAUSE)


def stop(*_):
    global stopping
    stopping = True
    if polling:  # Closing the connection hands a job that was about to come to another worker.
        sys.exit(0)


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
while not stopping:
    job = pop()
    if job is None:
        continue
    try:
        work(job["body"])
    except Exception as error:
        complain(f"job {job['id']}: {error!r}")
        settle(job, "release", {"receipt": job["receipt"], "reason": str(error)[:200]})
    else:
        settle(job, "finish?receipt=" + job["receipt"], None)
