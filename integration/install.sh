#!/bin/sh
# Installs into a folder of its own and uses what lies there as a packager and a C developer would: pkg-config finds the library,
# a program built with it runs under the installed `dovetail run`, Python finds the package, the unit file names the binary.
set -eu
BUILD=${DOVETAIL_BUILD:?}
ROOT=$(cd "$(dirname "$0")/.." && pwd)
PREFIX=$(mktemp -d)
trap 'rm -rf "$PREFIX"' EXIT

fail()
{
    echo "install: $*" >&2
    exit 1
}

cmake --install "$BUILD" --prefix "$PREFIX" >"$PREFIX/install.log"
for f in bin/dovetail bin/dovetaild include/dovetail.h; do
    [ -f "$PREFIX/$f" ] || fail "$f is missing"
done
unit=$(find "$PREFIX" -name dovetaild.service)
[ -n "$unit" ] || fail "the systemd unit is missing"
grep -q 'ExecStart=.*/bin/dovetaild' "$unit" || fail "the unit does not start dovetaild"

PKG_CONFIG_PATH=$(dirname "$(find "$PREFIX" -name dovetail.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # flags are words
gcc -o "$PREFIX/odd_names" "$ROOT/integration/faults/odd_names.c" $(pkg-config --cflags --libs dovetail) \
    -Wl,-rpath,"$(pkg-config --variable=libdir dovetail)"
"$PREFIX/bin/dovetail" run -o "$PREFIX/c-store" -- "$PREFIX/odd_names" 2>"$PREFIX/run.log" || fail "$(cat "$PREFIX/run.log")"
[ "$("$PREFIX/bin/dovetail" traces --store "$PREFIX/c-store" --json | wc -l)" = 6 ] || fail "the C program's six traces are not there"

cat >"$PREFIX/app.py" <<'P'
import dovetail, time
with dovetail.scope("work", always=True):
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
P
"$PREFIX/bin/dovetail" run -o "$PREFIX/py-store" -- /usr/bin/python3 "$PREFIX/app.py" 2>"$PREFIX/run.log" || fail "$(cat "$PREFIX/run.log")"
[ "$("$PREFIX/bin/dovetail" traces --store "$PREFIX/py-store" --json | wc -l)" = 1 ] || fail "the Python program's trace is not there"
echo "install: binaries, library, header, pkg-config, Python package and unit are in place and work"
