# setup: installs the Debian packages that are missing and builds into build/. Sourced by integration/demo.sh and
# tests/run.sh, with ROOT set to the source tree. Nothing to do costs well under a second.
#
#   setup_packages PACKAGE...   as root or by sudo; otherwise names what is missing and stops
#   setup_build [DIR [CMAKE OPTION...]]

BUILD_PACKAGES="gcc g++ cmake ninja-build pkg-config libzmq3-dev libmsgpack-c-dev|libmsgpack-dev libpfm4-dev libssl-dev
 libcunit1-dev libdw-dev libelf-dev libsqlite3-dev python3 python3-dev default-jdk-headless|openjdk-17-jdk-headless"

setup_installed()
{
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

# Prints what to install for one entry: nothing if any alternative of a|b is there, else the first that apt knows.
setup_missing()
{
    for alternative in $(echo "$1" | tr '|' ' '); do
        setup_installed "$alternative" && return 0
    done
    case $1 in
    *'|'*)
        for alternative in $(echo "$1" | tr '|' ' '); do
            apt-cache show "$alternative" >/dev/null 2>&1 && echo "$alternative" && return 0
        done
        ;;
    esac
    echo "${1%%|*}"
}

# Prints the packages that Node.js and its headers come from here: none where another Node.js brings its own.
setup_node_packages()
{
    if ! command -v node >/dev/null 2>&1; then
        echo nodejs libnode-dev
        return
    fi
    prefix=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")
    for dir in "$prefix/include/node" /usr/include/node /usr/include/nodejs/src; do
        [ ! -f "$dir/node_api.h" ] || return 0
    done
    echo libnode-dev
}

setup_packages()
{
    missing=
    for p in "$@"; do
        m=$(setup_missing "$p") || return 1
        [ -z "$m" ] || missing="$missing $m"
    done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: this needs Debian's packages:$missing" >&2
        return 1
    fi
    become=
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "setup: not root and no sudo. Install these, then run again: apt-get install$missing" >&2
            return 1
        fi
        become=sudo
    fi
    echo "setup: installing$missing" >&2
    $become env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || return 1
    # The lists may have been empty before: look the alternatives up again.
    missing=
    for p in "$@"; do
        m=$(setup_missing "$p") || return 1
        [ -z "$m" ] || missing="$missing $m"
    done
    # shellcheck disable=SC2086 # a list of words
    $become env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2 || {
        echo "setup: apt-get could not install$missing" >&2
        return 1
    }
    setup_is_stale=1 # a build configured before may lack what these bring
}

setup_build()
{
    dir=${1:-$ROOT/build}
    [ $# -gt 0 ] && shift
    mkdir -p "$dir"
    if [ ! -f "$dir/build.ninja" ] || [ $# -gt 0 ] || [ -n "${setup_is_stale:-}" ]; then
        cmake -S "$ROOT" -B "$dir" -G Ninja "$@" >"$dir/configure.log" 2>&1 || {
            tail -n 40 "$dir/configure.log" >&2
            echo "setup: cmake failed; all of it is in $dir/configure.log" >&2
            return 1
        }
    fi
    ninja -C "$dir" >"$dir/build.log" 2>&1 || {
        grep -E 'error|FAILED|undefined' "$dir/build.log" | head -n 40 >&2
        echo "setup: the build failed; all of it is in $dir/build.log" >&2
        return 1
    }
}
