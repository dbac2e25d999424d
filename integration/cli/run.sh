#!/bin/sh
# `dovetail run` and `status` with the real daemon: exit codes, signals, streams, a daemon that is there, one that is not.
# Programs here open no scope: what a scope shows is for other tests.  sh run.sh BUILD
set -u
build=${DOVETAIL_BUILD:-${1:?usage: run.sh BUILD}}
dovetail=$build/bin/dovetail
work=$(mktemp -d /tmp/dovetail-cli-test-XXXXXX)
daemon=
failed=0
unset DOVETAIL_SOCKET XDG_RUNTIME_DIR
export XDG_STATE_HOME="$work/state"

clean() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT

expect() { # CLAIM EXPECTED GOT
    if [ "$2" = "$3" ]; then
        echo "ok: $1"
    else
        echo "FAILED: $1: expected '$2', got '$3'"
        failed=1
    fi
}
contains() { # CLAIM PART FILE
    if grep -q -- "$2" "$3"; then
        echo "ok: $1"
    else
        echo "FAILED: $1: no '$2' in:"
        cat "$3"
        failed=1
    fi
}
folders() { # what private daemons leave behind
    find /tmp -maxdepth 1 -name 'dovetail-run-*' -user "$(id -u)" | wc -l
}

if ! "$dovetail" doctor >"$work/doctor" 2>&1; then
    cat "$work/doctor"
    echo "skipped: sampling is impossible on this machine"
    exit 77
fi
before=$(folders)

# ---- the program's exit code, output and signals are its own ----
"$dovetail" run -o "$work/a" -- sh -c 'echo to-stdout; echo to-stderr >&2; exit 7' >"$work/out" 2>"$work/err"
expect "the exit code is the program's" 7 $?
expect "standard output is the program's alone" to-stdout "$(cat "$work/out")"
contains "standard error has the program's" to-stderr "$work/err"
contains "and says that no scope was seen" "no scope was seen" "$work/err"

"$dovetail" run -o "$work/a" -- sh -c 'kill -9 $$' >"$work/out" 2>&1
expect "a signal that ends it is 128 + its number" 137 $?

"$dovetail" run -o "$work/a" -- /nonexistent/program >"$work/out" 2>&1
expect "a program that is not there is 127" 127 $?
contains "and is named" /nonexistent/program "$work/out"

# shellcheck disable=SC2016 # for the inner shell
"$dovetail" run -o "$work/a" -- sh -c 'trap "echo caught; exit 5" TERM; echo $$ >'"$work"'/ready; while :; do sleep 0.05; done' \
    >"$work/out" 2>"$work/err" &
run=$!
while [ ! -s "$work/ready" ]; do sleep 0.05; done
kill -TERM "$run"
wait "$run"
expect "SIGTERM reaches the program" 5 $?
contains "which handles it" caught "$work/out"

# ---- what the daemon refuses is told ----
"$dovetail" run --hz 99999999 -o "$work/a" -- true >"$work/out" 2>&1
expect "a rate too high is wrong use" 2 $?
contains "and says so" hz "$work/out"
"$dovetail" run --event no-such-event -o "$work/a" -- true >"$work/out" 2>&1
expect "an unknown event is wrong use" 2 $?
contains "and names it" no-such-event "$work/out"

# ---- a run of its own leaves a store and nothing else ----
"$dovetail" run -- true >"$work/out" 2>&1
expect "without -o the store is a new one" 1 "$(find "$work/state/dovetail/runs" -name index.db | wc -l)"
expect "private daemons leave no folder" "$before" "$(folders)"

# ---- with a daemon that is there ----
"$build/bin/dovetaild" --store "$work/shared" --socket "$work/sock/control.sock" 2>"$work/daemon.log" &
daemon=$!
export DOVETAIL_SOCKET="$work/sock/control.sock"
tries=0
until "$dovetail" status >"$work/out" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || break
    sleep 0.05
done
contains "status answers" "adds up" "$work/out"
contains "and names the store" "$work/shared" "$work/out"
"$dovetail" status --json | python3 -m json.tool >/dev/null
expect "status --json is JSON" 0 $?
"$dovetail" run -- true >"$work/out" 2>&1
expect "run uses the daemon that is there" "$before" "$(folders)"
kill -0 "$daemon"
expect "and leaves it running" 0 $?
"$dovetail" doctor >"$work/out" 2>&1
contains "doctor finds it" "answers at $work/sock" "$work/out"

[ $failed = 0 ] && echo "all as claimed"
exit $failed
