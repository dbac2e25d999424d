"""Servers whose spans others make, each request's samples in its own trace:

    check_served.py BUILD_DIR KIND JDK_HOME    agent: OpenTelemetry's Java agent in an HTTP service that knows of no tracer
                                               micrometer_otel, micrometer_brave: Spring Boot with Micrometer Tracing
"""
import glob
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
os.environ["DOVETAIL_BUILD"] = os.path.abspath(sys.argv[1])
sys.path[:0] = [str(HERE), str(HERE.parent / "truth")]
from artifacts import compile_java, jars  # noqa: E402
from check_mix import SURE_SHARE, method, write_works  # noqa: E402
from dovetail_store import BUILD, LONG, must, profile, traces  # noqa: E402
from mix_check import judge  # noqa: E402

AUTOCONFIGURE = "org.springframework.boot.actuate.autoconfigure.tracing"
OTHER = {"micrometer_otel": f"{AUTOCONFIGURE}.BraveAutoConfiguration",
         "micrometer_brave": f"{AUTOCONFIGURE}.OpenTelemetryTracingAutoConfiguration"}


def agent():
    """(class path, options of the JVM, main class, arguments, root's name) of the service under OpenTelemetry's agent."""
    jar, = glob.glob(jars(BUILD, HERE / "agent.xml") + ".jar")
    quiet = [f"-Dotel.{signal}.exporter=none" for signal in ("traces", "metrics", "logs")]
    return "", [f"-javaagent:{jar}", *quiet], "AgentServer", [], "GET /work/"


def spring(kind):
    """The same of the Spring Boot application. What it logs would go to standard output."""
    return jars(BUILD, HERE / "spring.xml"), [], "SpringServer", [
        "--server.port=0", "--logging.level.root=OFF", "--spring.main.banner-mode=off",
        "--management.tracing.sampling.probability=1.0", f"--spring.autoconfigure.exclude={OTHER[kind]}"], None


def main():
    kind, jdk = sys.argv[2], sys.argv[3]
    requests = 4000 if LONG else 400
    folder = pathlib.Path(BUILD) / "truth" / "jvm" / f"{kind}-{os.path.basename(jdk)}"
    class_path, options, program, args, root = agent() if kind == "agent" else spring(kind)
    folder.mkdir(parents=True, exist_ok=True)
    write_works(folder / "Works.java")
    compile_java(jdk, folder, class_path or folder, HERE / f"{program}.java", HERE / "Served.java", folder / "Works.java")
    out, store = profile(f"{jdk}/bin/java", "-Xmx256m", *options, "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Works.*",
                         "-cp", f"{folder}{os.pathsep}{class_path}", program, str(requests), *args, hz=999)
    good = judge(kind, out, store, sure_work=lambda work: SURE_SHARE * work, more_than=20, at_least=requests, no_stack=0.02,
                 plain=method)
    names = {t["root_name"] for t in traces(store)}
    good &= must(root is None or names == {root}, f"{kind}: the traces' roots are {names}")
    if good:
        shutil.rmtree(store)
    else:
        print(f"kept for a look: {store}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
