#!/usr/bin/env bash
# A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies. Needs curl and jq.
# It reads LINGER_URL, LINGER_TOKEN and TOPIC. SIGTERM ends it after the job at hand.
set -u
url=${LINGER_URL:-http://127.0.0.1:9277} topic=${TOPIC:-hello} pause=2 poll=
while [[ $url == */ ]]; do url=${url%/}; done
headers=(-H 'content-type: application/json')
[ -z "${LINGER_TOKEN-}" ] || headers+=(-H "authorization: Bearer $LINGER_TOKEN")
answer=$(mktemp)
stopping=
# Ending curl closes its connection, which hands a job that was about to come to another worker.
end_poll() {
  [ -z "$poll" ] || kill "$poll" 2>/dev/null
}
trap 'stopping=1; end_poll' TERM INT
trap 'rm -f "$answer"' EXIT

work() { # The body is on stdin. It may run twice for a job; fail to give the job back.
  cat
}

# Leaves the answer in $answer, prints the status, fails without a whole answer.
call=(curl -sS -o "$answer" -w '%{http_code}' "${headers[@]}")

settle() { # id, step, JSON: repeating is safe; if every try fails, the job's TTR brings it back
  local status
  for _ in 1 2 3 4 5; do
    if status=$("${call[@]}" -m 30 -d "$3" "$url/jobs/$1/$2"); then
      [[ $status == 2* ]] && return
      echo "$2 $1: $status $(<"$answer")" >&2
      [[ $status == 4* ]] && return # 404: it is gone already. 409: it has another holder by now.
    else
      echo "$2 $1: no answer" >&2
    fi
    sleep "$pause"
  done
}

while [ -z "$stopping" ]; do
  # In the background, since a trap waits for the end of a command in the foreground. A function would get a shell of
  # its own, and curl would go on after that shell's end.
  "${call[@]}" -m 40 "$url/topics/$topic/pop?wait=20s" >"$answer.status" & poll=$!
  [ -z "$stopping" ] || end_poll # the signal came before the poll had its number
  wait "$poll" # until curl ends or a signal comes
  wait "$poll" && status=$(<"$answer.status") || status='no answer'
  poll=
  rm -f "$answer.status"
  [ -z "$stopping" ] || [ "$status" = 200 ] || break
  [ "$status" != 204 ] || continue # no job came due
  if [ "$status" != 200 ] || ! job=$(jq -ce 'select(.id and .receipt)' "$answer"); then
    echo "pop: $status $(<"$answer")" >&2
    sleep "$pause"
    continue
  fi
  id=$(jq -r .id <<<"$job") receipt=$(jq -r .receipt <<<"$job")
  if jq -c .body <<<"$job" | work; then
    settle "$id" "finish?receipt=$receipt" ''
  else
    settle "$id" release "{\"receipt\":\"$receipt\",\"reason\":\"the work failed\"}"
  fi
done
