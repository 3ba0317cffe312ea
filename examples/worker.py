#!/usr/bin/env python3
"""A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies."""
import json, os, sys, time, urllib.error, urllib.request

URL, TOPIC = os.environ.get("LINGER_URL", "http://127.0.0.1:9277"), os.environ.get("TOPIC", "hello")

def work(body):  # May run twice for a job; raising gives the job back.
    print(json.dumps(body), flush=True)

def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.loads(answer.read() or "null")

while True:
    try:
        job = call("GET", f"/topics/{TOPIC}/pop?wait=20s")
        if job is None:  # 204: nothing came due; ask again
            continue
        try:
            work(job["body"])
        except Exception as error:
            call("POST", f"/jobs/{job['id']}/release", {"receipt": job["receipt"], "reason": str(error)[:200]})
        else:
            call("POST", f"/jobs/{job['id']}/finish?receipt={job['receipt']}")
    except (OSError, ValueError) as error:
        if getattr(error, "code", 0) not in (404, 409):  # these: done already, or somebody else's by now
            print(error, file=sys.stderr)
            time.sleep(2)  # away or overloaded: back off; an unfinished job comes back by its TTR
