#!/usr/bin/env python3
"""Adds a job that closes an order later: producer.py ORDER [DELAY]

It reads LINGER_URL, LINGER_TOKEN and TOPIC. The job's id is made from the order's number, so adding it
again changes nothing: the request is repeated until the server has answered.
"""
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("LINGER_URL", "http://127.0.0.1:9277").rstrip("/")
TOKEN = os.environ.get("LINGER_TOKEN", "")
TOPIC = os.environ.get("TOPIC", "order-close")
TRIES = 8


def add(job):
    """Send the job once and return the status and the text of the answer."""
    headers = {"content-type": "application/json"}
    if TOKEN:
        headers["authorization"] = f"Bearer {TOKEN}"
    request = urllib.request.Request(URL + "/jobs", json.dumps(job).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


if len(sys.argv) < 2:
    sys.exit("usage: producer.py ORDER [DELAY]")
order, delay = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "30m"
job = {"topic": TOPIC, "id": f"orders:{order}:close", "delay": delay, "body": {"order": order}}
pause = 1
for _ in range(TRIES):
    try:
        status, text = add(job)
        if status < 300:  # 201: added. 200: an earlier try had added it.
            print(text.strip())
            sys.exit(0)
        print(f"add: {status} {text.strip()}", file=sys.stderr)
        if status < 500:  # the request is wrong, and repeating it does not help
            sys.exit(1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        print(f"add: {error!r}", file=sys.stderr)
    time.sleep(pause)
    pause = min(pause * 2, 30)
sys.exit("add: the server did not take the job; it is safe to run this again")
