#!/usr/bin/env bash
# Adds a job that closes an order later: producer.sh ORDER [DELAY]. Needs curl and jq.
# It reads LINGER_URL, LINGER_TOKEN and TOPIC. The job's id is made from the order's number, so adding it
# again changes nothing: the request is repeated until the server has answered.
set -u
order=${1:?usage: producer.sh ORDER [DELAY]} delay=${2:-30m} pause=1
url=${LINGER_URL:-http://127.0.0.1:9277} topic=${TOPIC:-order-close}
while [[ $url == */ ]]; do url=${url%/}; done
headers=(-H 'content-type: application/json')
[ -z "${LINGER_TOKEN-}" ] || headers+=(-H "authorization: Bearer $LINGER_TOKEN")
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

job=$(jq -nc --arg topic "$topic" --arg order "$order" --arg delay "$delay" \
  '{topic: $topic, id: "orders:\($order):close", delay: $delay, body: {order: $order}}')
for _ in 1 2 3 4 5 6 7 8; do
  if status=$(curl -sS -m 10 -o "$answer" -w '%{http_code}' "${headers[@]}" -d "$job" "$url/jobs"); then
    case $status in
      2*) cat "$answer" && exit 0 ;;                        # 201: added. 200: an earlier try had added it.
      4*) echo "add: $status $(<"$answer")" >&2 && exit 1 ;; # the request is wrong; repeating does not help
    esac
    echo "add: $status $(<"$answer")" >&2
  else
    echo "add: no answer" >&2
  fi
  sleep "$pause"
  pause=$((pause < 15 ? pause * 2 : 30))
done
echo "add: the server did not take the job; it is safe to run this again" >&2
exit 1
