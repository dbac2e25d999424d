# fetch: the OpenTelemetry SDKs from npm, Maven Central and PyPI at the versions pinned in this folder, once for each change of them.
# Sourced by integration/demo.sh.
#
#   fetch_otel HERE DIR     fills DIR/HASH and sets OTEL to it: node_modules, java/*.jar, venv. 77 where a registry is out of reach

fetch_step() # NAME COMMAND...
{
    name=$1
    shift
    "$@" >"$OTEL/$name.log" 2>&1 || {
        echo "demo: skipped, the packages of $name cannot be had: $(tail -n 1 "$OTEL/$name.log")" >&2
        return 77
    }
}

fetch_otel()
{
    OTEL=$2/$( (cat "$1"/package-lock.json "$1"/pom.xml "$1"/requirements.txt && /usr/bin/python3 --version) | sha256sum | cut -c1-12)
    [ ! -f "$OTEL/complete" ] || return 0
    mkdir -p "$OTEL"
    cp "$1/package.json" "$1/package-lock.json" "$OTEL"
    fetch_step npm npm ci --no-audit --no-fund --ignore-scripts --prefix "$OTEL" &&
        fetch_step maven mvn -q -B -f "$1/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$OTEL/java" &&
        fetch_step venv /usr/bin/python3 -m venv --clear --system-site-packages "$OTEL/venv" &&
        fetch_step pip "$OTEL/venv/bin/python3" -m pip install --quiet -r "$1/requirements.txt" &&
        touch "$OTEL/complete"
}
