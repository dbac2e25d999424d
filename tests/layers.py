#!/usr/bin/env python3
"""Holds the layers of the architecture against the #include lines of the source.

daemon, cli and shims include nothing of each other; all of them may include proto, which includes none of
them. A file of the daemon includes its own layer and lower ones; a module is a .c and a .h, and a file that
is in no layer fails, so that a new module gets its place here. What a header says of its layer ("Layer 2.")
is the layer it has here. No header includes itself by way of others.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

LAYERS = [
    # 0: plain structs, logs, the ledger, hand-over between threads
    "sample scope switches log stats queue ptrmap process urgent",
    # 1: the edge: sockets, messages, perf events
    "config peer session feed ingest loop listener conn handshake control status flush board "
    "perf_open perf_budget perf_ring perf_decode switch_ring sampler",
    # 2: what is known of one thread or one process over time
    "scope_index scope_batch wait_log codetable stacks watermark procmap procmap_files",
    # 3: samples x scopes
    "thread_state join",
    # 4: traces under assembly
    "trace trace_build trace_table",
    # 5: names, chunks, the store
    "unwind demangle symbols symbols_elf symbols_table symbols_dwarf symbols_kernel symbols_names "
    "symbols_heap trace_jfr store store_impl store_sql store_segment store_rows store_index store_recover store_retain",
    # 6: threads, signals, wiring
    "pipeline pipeline_state pipeline_message pipeline_join pipeline_close driver writer daemon main",
]

# Upward all the same: (file, header) and why.
EXCEPTIONS = {
    ("process.c", "procmap.h"): "a process owns its map: the last user of the process frees it",
    ("handshake.c", "procmap.h"): "that map is made where the process is met, while it is known to be there",
}

MAY_INCLUDE = {
    "proto": {"proto"},
    "daemon": {"daemon", "proto"},
    "cli": {"cli", "proto"},
    "shims/core": {"shims/core", "proto"},
    "shims/python": {"shims/python", "shims/core", "proto"},
    "shims/jvm": {"shims/jvm", "shims/core", "proto"},
    "shims/node": {"shims/node", "shims/core", "proto"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


errors = []


def fail(text):
    errors.append(text)


def sources():
    """Paths, from the root, of every .c and .h of the product; folders of shims as MAY_INCLUDE names them."""
    for top in ("proto", "daemon", "cli", "shims"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def folder_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "shims" else parts[0]


def resolve(path, name):
    """The file of this tree that path means by name, or None for one of the system's."""
    for folder in (os.path.dirname(path), "", "shims/core"):
        found = os.path.normpath(os.path.join(folder, name))
        if os.path.exists(os.path.join(ROOT, found)):
            return found
    return None


def read_includes():
    """{file: [files of this tree that it includes]}"""
    includes = {}
    for path in sources():
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            found = INCLUDE.findall(f.read())
        resolved = [(name, quote, resolve(path, name)) for quote, name in found]
        includes[path] = [r for _, _, r in resolved if r]
        for name, quote, target in resolved:
            if quote == '"' and not target:
                fail(f"{path}: includes {name}, which is not there")
    return includes


def check_folders(includes):
    for path, targets in includes.items():
        allowed = MAY_INCLUDE.get(folder_of(path))
        if allowed is None:
            fail(f"{path}: folder {folder_of(path)} has no rule in MAY_INCLUDE")
            continue
        for target in targets:
            if folder_of(target) not in allowed:
                fail(f"{path}: includes {target}; {folder_of(path)} may include {', '.join(sorted(allowed))}")


def check_claim(path, layer):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        claim = re.search(r"\bLayer\s+(?:\*\s+)?(\d)", f.read())
    if claim and int(claim.group(1)) != layer:
        fail(f"{path}: says layer {claim.group(1)}, is in layer {layer} of LAYERS")
    elif not claim and path.endswith(".h"):
        fail(f"{path}: does not say which layer it is in")


def check_layers(includes):
    layer_of = {module: n for n, line in enumerate(LAYERS) for module in line.split()}
    modules = set()
    used = set()
    for path, targets in includes.items():
        if folder_of(path) != "daemon":
            continue
        file = os.path.basename(path)
        module = file[:-2]
        modules.add(module)
        if module not in layer_of:
            fail(f"{path}: in no layer of LAYERS")
            continue
        check_claim(path, layer_of[module])
        for target in targets:
            header = os.path.basename(target)
            upward = folder_of(target) == "daemon" and layer_of.get(header[:-2], 0) > layer_of[module]
            if upward and (file, header) in EXCEPTIONS:
                used.add((file, header))
            elif upward:
                fail(f"{path} (layer {layer_of[module]}): includes {header} (layer {layer_of[header[:-2]]})")
    for module in sorted(set(layer_of) - modules):
        fail(f"LAYERS: there is no daemon/{module}")
    for file, header in sorted(set(EXCEPTIONS) - used):
        fail(f"EXCEPTIONS: {file} does not include {header}")


def check_cycles(includes):
    done, path_to = set(), []

    def visit(header):
        if header in path_to:
            fail("headers in a circle: " + " -> ".join(path_to[path_to.index(header):] + [header]))
            return
        if header in done:
            return
        path_to.append(header)
        for target in includes.get(header, []):
            visit(target)
        done.add(path_to.pop())

    for path in includes:
        if path.endswith(".h"):
            visit(path)


def main():
    includes = read_includes()
    check_folders(includes)
    check_layers(includes)
    check_cycles(includes)
    for error in errors:
        print(error)
    print(f"{len(includes)} files, {sum(map(len, includes.values()))} includes, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
