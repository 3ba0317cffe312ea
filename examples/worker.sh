#!/usr/bin/env bash
# A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies. Needs curl and jq.
set -u
url=${LINGER_URL:-http://127.0.0.1:9277} topic=${TOPIC:-hello}

work() { # The body is on stdin. May run twice for a job; failing gives the job back.
  cat
}

post() { # path [JSON]: prints the status. Longer than a connection may hang.
  curl -sS -m 30 -o /dev/null -w '%{http_code}' -H 'content-type: application/json' \
    -d "${2-}" "$url/jobs/$1"
}

while true; do
  if ! job=$(curl -sSf -m 40 "$url/topics/$topic/pop?wait=20s"); then
    sleep 2 # away or overloaded: back off
    continue
  fi
  [ -n "$job" ] || continue # 204: nothing came due; ask again
  id=$(jq -r .id <<<"$job") receipt=$(jq -r .receipt <<<"$job")
  if jq -c .body <<<"$job" | work; then
    status=$(post "$id/finish?receipt=$receipt")
  else
    status=$(post "$id/release" "{\"receipt\":\"$receipt\",\"reason\":\"work failed\"}")
  fi
  # 404 or 409: it is done already, or somebody else's by now. Otherwise it comes back by its TTR.
  [[ $status =~ ^(200|204|404|409)$ ]] || echo "job $id: status $status" >&2
done
