#!/usr/bin/env bash
# Tells a shop about its payments by calls that are repeated until the shop has answered. Needs curl and jq.
#   notification.sh endpoint URL    sets where the shop is called, and prints a secret for it; run it once
#   notification.sh paid PAYMENT    tells the shop that a payment was made; adding it again changes nothing
# It reads LINGER_URL, LINGER_TOKEN (with the scope admin for an endpoint, add for a payment) and TOPIC.
set -euo pipefail
usage='usage: notification.sh endpoint URL | paid PAYMENT'
url=${LINGER_URL:-http://127.0.0.1:9277} topic=${TOPIC:-payments-shop-17}
while [[ $url == */ ]]; do url=${url%/}; done
headers=(-H 'content-type: application/json')
[ -z "${LINGER_TOKEN-}" ] || headers+=(-H "authorization: Bearer $LINGER_TOKEN")

call() { # method, path, JSON, further arguments of curl: prints the answer, and fails if it is an error
  curl -sS -m 10 --fail-with-body "${headers[@]}" "${@:4}" -X "$1" -d "$3" "$url$2"
}

case ${1-} in
  endpoint) # At once, after 15 seconds, 3 minutes, ...: ten calls in about 26 hours. Then the job is a dead letter.
    call PUT "/topics/$topic" "$(jq -nc --arg url "${2:?$usage}" '{
      retry: ["15s", "3m", "10m", "30m", "30m", "1h", "2h", "6h", "15h"],
      callback: {url: $url, timeout: "10s"}}')" >&2
    call POST "/topics/$topic/secrets" '{}' | jq -r .secret
    ;;
  paid)
    call POST /jobs "$(jq -nc --arg topic "$topic" --arg payment "${2:?$usage}" \
      '{topic: $topic, id: "payments:\($payment):paid", body: {payment: $payment, status: "paid"}}')" --retry 5 --retry-connrefused
    ;;
  *)
    echo "$usage" >&2
    exit 2
    ;;
esac
