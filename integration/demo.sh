#!/bin/sh
# The demo: a daemon, a real Python web service, a few hundred requests, and the answer to "why was this one slow?".
# Installs what is missing, builds, runs for about half a minute, leaves its store and pages in build/demo.
set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
. "$ROOT/integration/setup.sh"
# shellcheck disable=SC2086 # a list of words
setup_packages $BUILD_PACKAGES python3-aiohttp
setup_build

WORK=$ROOT/build/demo
PATH=$ROOT/build/bin:$PATH
export PATH
rm -rf "$WORK"
mkdir -p "$WORK"
chmod 700 "$WORK"
# A socket's path must be short: not below the tree.
RUN=$(mktemp -d)
export DOVETAIL_SOCKET="$RUN/control.sock"
STORE=$WORK/store

daemon= service=
finish()
{
    trap - EXIT INT TERM
    [ -z "$service" ] || kill "$service" 2>/dev/null || true
    [ -z "$service" ] || wait "$service" 2>/dev/null || true
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    [ -z "$daemon" ] || wait "$daemon" 2>/dev/null || true
    rm -rf "$RUN"
}
trap finish EXIT
trap 'finish; exit 130' INT TERM

say()
{
    if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
        printf '\n\033[1m== %s\033[0m\n\n' "$*"
    else
        printf '\n== %s\n\n' "$*"
    fi
}

say "Starting the daemon and the pricing service"
dovetaild --store "$STORE" --socket "$DOVETAIL_SOCKET" 2>"$WORK/daemon.log" &
daemon=$!
tries=0
until [ -S "$DOVETAIL_SOCKET" ]; do
    tries=$((tries + 1))
    kill -0 "$daemon" 2>/dev/null && [ $tries -lt 100 ] || { cat "$WORK/daemon.log" >&2; exit 1; }
    sleep 0.1
done
PORT=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
DOVETAIL_SERVICE=pricing dovetail run -- /usr/bin/python3 "$ROOT/integration/demo/pricing.py" "$WORK/orders.db" "$PORT" \
    >"$WORK/service.log" 2>&1 &
service=$!
/usr/bin/python3 "$ROOT/integration/demo/load.py" "$PORT" 300

sleep 1 # the last scopes come with the next flush
say "How the profiler is doing: dovetail status"
dovetail status
kill "$service"
wait "$service" 2>/dev/null || true
service=

say "The slowest requests: dovetail traces --slowest 5"
dovetail traces --store "$STORE" --slowest 5
SLOWEST=$(dovetail traces --store "$STORE" --slowest 1 --json |
    /usr/bin/python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["trace_id"])')

say "Where the slowest one spent its time: dovetail flame $(echo "$SLOWEST" | cut -c1-8)"
dovetail flame "$(echo "$SLOWEST" | cut -c1-8)" --store "$STORE"
dovetail flame "$SLOWEST" --store "$STORE" -o "$WORK/slowest.html"
dovetail flame "$SLOWEST" --store "$STORE" -o "$WORK/slowest.jfr"

say "All that tenant acme cost: dovetail flame --label tenant=acme"
dovetail flame --label tenant=acme --store "$STORE"
dovetail flame --label tenant=acme --store "$STORE" -o "$WORK/acme.html"

say "Who used how much: dovetail tags"
dovetail tags --store "$STORE" --key tenant

say "Look on"
cat <<EOT
  flame graph of the slowest request   $WORK/slowest.html
  the same as a JDK Flight Recording   $WORK/slowest.jfr
  flame graph of tenant acme           $WORK/acme.html
  ask the store yourself               $ROOT/build/bin/dovetail traces --store $STORE --label tenant=acme
EOT
