"""Pinned artifacts from Maven Central, and programs compiled against them, for the tests and benchmarks with a JVM."""
import glob
import hashlib
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77


def skip(why):
    """Where CI requires the part, a skip is a failure."""
    print(f"skipped: {why}")
    sys.exit(1 if os.environ.get("CI") == "true" else SKIPPED)


def jars(build, pom=HERE / "pom.xml"):
    """The class path of the pom's artifacts, fetched once into the build folder."""
    folder = pathlib.Path(build) / "maven" / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    stamp = folder / "complete"
    if not stamp.exists():
        try:
            subprocess.run(["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
                            f"-DoutputDirectory={folder}"], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True)
        except FileNotFoundError:
            skip("there is no mvn")
        except subprocess.CalledProcessError as e:
            skip(f"Maven Central's artifacts cannot be had: {(e.output or '').strip().splitlines()[-1:]}")
        stamp.touch()
    return os.path.join(folder, "*")


def compile_java(jdk, folder, class_path, *sources):
    """Compiles into folder, for JDK 17 and later."""
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run([f"{jdk}/bin/javac", "--release", "17", "-nowarn", "-d", folder, "-cp", class_path,
                           *map(str, sources)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def jdks():
    """{major version: home} of the JDKs that are here."""
    found = {}
    for home in sorted(glob.glob("/usr/lib/jvm/*")):
        if os.path.islink(home) or not os.path.exists(f"{home}/bin/javac"):
            continue
        try:
            release = dict(line.strip().split("=", 1) for line in open(f"{home}/release") if "=" in line)
        except OSError:
            continue
        found[int(release.get("JAVA_VERSION", '"0"').strip('"').split(".")[0])] = home
    return found
