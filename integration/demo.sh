#!/bin/sh
# The demo: a daemon, three services of one application (a gateway in Node.js, an order service in Java, pricing in Python), a few
# hundred requests, and the answer to "why was this one slow?": one flame graph over the three.
#
#   sh integration/demo.sh            the services mark their requests by Dovetail's own API: needs Debian packages alone
#   sh integration/demo.sh --otel     by the OpenTelemetry SDKs of npm, Maven Central and PyPI; they know nothing of Dovetail
#   sh integration/demo.sh --attach   the same, started without Dovetail: attached to while requests come, detached again
#
# Installs what is missing, builds, runs for about half a minute, leaves its store and pages in build/demo. DEMO_REQUESTS: how many, if
# not 300; every fortieth is slow.
set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
DEMO=$ROOT/integration/demo
BUILD=$ROOT/build
mode=${1:-}
case $mode in
'') api=own packages= ;;
--otel | --attach) api=otel packages="python3-venv maven $(command -v npm >/dev/null 2>&1 || echo npm)" ;;
*) echo "usage: sh integration/demo.sh [--otel | --attach]" >&2 && exit 2 ;;
esac
. "$ROOT/integration/setup.sh"
# shellcheck disable=SC2086,SC2046 # lists of words
setup_packages $BUILD_PACKAGES python3-aiohttp $(setup_node_packages) $packages
setup_build

WORK=$BUILD/demo
PATH=$BUILD/bin:$PATH
PYTHON=/usr/bin/python3
NODE_PATH=$DEMO/$api
PYTHONPATH=$DEMO/$api
CLASSPATH=$BUILD/lib/java/dovetail.jar
export PATH NODE_PATH PYTHONPATH PYTHONDONTWRITEBYTECODE=1
if [ $api = otel ]; then
    . "$DEMO/otel/fetch.sh"
    fetch_otel "$DEMO/otel" "$BUILD/demo-otel"
    PYTHON=$OTEL/venv/bin/python3
    NODE_PATH=$NODE_PATH:$OTEL/node_modules
    CLASSPATH=$OTEL/java/*
    export DOVETAIL_BAGGAGE=tenant
fi
rm -rf "$WORK"
mkdir -p "$WORK"
chmod 700 "$WORK"
# A socket's path must be short: not below the tree.
RUN=$(mktemp -d)
export DOVETAIL_SOCKET="$RUN/control.sock"
STORE=$WORK/store

daemon= services= since=
stop_services()
{
    for pid in $services; do kill "$pid" 2>/dev/null || true; done
    for pid in $services; do wait "$pid" 2>/dev/null || true; done
    services=
}
finish()
{
    trap - EXIT INT TERM
    stop_services
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

start() # SERVICE COMMAND...
{
    name=$1
    shift
    if [ "$mode" = --attach ]; then
        env -u DOVETAIL_SOCKET OTEL_SERVICE_NAME="$name" "$@" >"$WORK/$name.log" 2>&1 &
    else
        dovetail run --service "$name" -- "$@" >"$WORK/$name.log" 2>&1 &
    fi
    services="$services $!"
}

load() # REQUESTS PORT...
{
    "$PYTHON" "$DEMO/load.py" "$@" || { tail -n 20 "$WORK"/*.log >&2; exit 1; }
}

load_attached() # REQUESTS PORT...
{
    say "Not profiled"
    load $(($1 / 2)) "$2" "$3" "$4"
    say "Attached while requests come: dovetail attach$services"
    load $(($1 / 2)) "$2" "$3" "$4" &
    users=$!
    sleep 0.5
    # shellcheck disable=SC2086 # a list of pids
    dovetail attach $services
    wait "$users"
    say "Profiled"
    # Of a request that was under way at the attach only the rest is known.
    since="--since $(date -u +%Y-%m-%dT%H:%M:%S.%NZ)"
    load "$@"
}

say "Starting the daemon and the services: gateway (Node.js), orders (Java), pricing (Python)"
dovetaild --store "$STORE" --socket "$DOVETAIL_SOCKET" 2>"$WORK/daemon.log" &
daemon=$!
tries=0
until [ -S "$DOVETAIL_SOCKET" ]; do
    tries=$((tries + 1))
    kill -0 "$daemon" 2>/dev/null && [ $tries -lt 100 ] || { cat "$WORK/daemon.log" >&2; exit 1; }
    sleep 0.1
done
javac -nowarn -d "$WORK/classes" -cp "$CLASSPATH" "$DEMO/Orders.java" "$DEMO/$api/Tracing.java"
# shellcheck disable=SC2046 # three numbers
set -- $("$PYTHON" -c 'import socket
sockets = [socket.socket() for _ in range(3)]
for s in sockets: s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start pricing "$PYTHON" "$DEMO/pricing.py" "$WORK/prices.db" "$3"
start orders java -cp "$CLASSPATH:$WORK/classes" Orders "$2" "$3"
start gateway node "$DEMO/gateway.js" "$1" "$2"
ports="$1 $2 $3" requests=${DEMO_REQUESTS:-300}
if [ "$mode" = --attach ]; then
    # shellcheck disable=SC2086 # a list of numbers
    load_attached "$requests" $ports
else
    # shellcheck disable=SC2086
    load "$requests" $ports
fi

sleep 1 # the last scopes come with the next flush
say "How the profiler is doing: dovetail status"
dovetail status
if [ "$mode" = --attach ]; then
    say "Detached again: dovetail detach$services"
    # shellcheck disable=SC2086
    dovetail detach $services
    # shellcheck disable=SC2086
    load $((requests / 2)) $ports
fi
stop_services

say "The slowest requests: dovetail traces --slowest 5${since:+ $since}"
# shellcheck disable=SC2086 # an option and its value
dovetail traces --store "$STORE" --slowest 5 $since
# shellcheck disable=SC2086
SLOWEST=$(dovetail traces --store "$STORE" --slowest 1 --json $since |
    "$PYTHON" -c 'import json, sys; print(json.loads(sys.stdin.readline())["trace_id"])')

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
