"""The fake libdovetail's log, as the tests read it. See fake/fake.c."""
import collections
import ctypes

import dovetail

_lib = ctypes.CDLL("libdovetail.so.0")
_lib.fake_take.restype = ctypes.c_char_p

ROOT, REMOTE_PARENT, UNSAMPLED, ALWAYS, SHARED = 2, 4, 64, 1, 256

Open = collections.namedtuple("Open", "tid serial trace span parent flags name")
Close = collections.namedtuple("Close", "tid serial fate name")
Commit = collections.namedtuple("Commit", "tid serial name labels links")


def _event(line):
    kind, _, rest = line.partition(" ")
    if kind == "open":
        tid, serial, trace, span, parent, flags, name = rest.split(" ", 6)
        return Open(int(tid), int(serial), trace, span, parent, int(flags), name)
    if kind == "close":
        tid, serial, fate, name = rest.split(" ", 3)
        return Close(int(tid), int(serial), fate, name)
    if kind == "commit":
        tid, serial, rest = rest.split(" ", 2)
        name, labels, links = rest.rsplit(" ", 2)
        return Commit(int(tid), int(serial), name, labels, int(links[6:]))
    return line


def take():
    """Events since the last call."""
    return [_event(line) for line in _lib.fake_take().decode().splitlines()]


def short(events):
    """Opens and closes of scopes as "+name" and "-name", in order."""
    names = {}
    out = []
    for e in events:
        if isinstance(e, Open):
            names[e.tid, e.serial] = e.name
            out.append("+" + e.name)
        elif isinstance(e, Close):
            out.append("-" + names.get((e.tid, e.serial), "?"))
        elif isinstance(e, str):
            out.append(e)
    return out


def story():
    return short(take())


def active(on):
    _lib.fake_active(int(on))


def keep(on):
    _lib.fake_keep(int(on))


def logging(on):
    _lib.fake_logging(int(on))


def misuse():
    return _lib.fake_misuse()


def thread_starts():
    """Calls of dvt_thread_start so far."""
    return _lib.fake_thread_starts()


def open_scopes():
    """Scopes open on this thread."""
    return _lib.fake_open_scopes()


def reset():
    active(True)
    keep(False)
    logging(True)
    take()




class Storm:
    """Walks every thread at a high rate by signals while it lasts."""

    def __init__(self, gap_us=0):
        self.gap_us = gap_us

    def __enter__(self):
        if _lib.fake_storm_start(self.gap_us):
            raise RuntimeError("no walker")
        return self

    def __exit__(self, *exc_info):
        _lib.fake_storm_stop()


_lib.fake_walks.restype = ctypes.c_uint64
_lib.fake_walk_frames.restype = ctypes.c_uint64


def walks():
    """Number of walks by reason; 0: a good stack."""
    return {reason: n for reason in range(16) if (n := _lib.fake_walks(reason))}


def walked_pairs():
    """(caller, callee) of every two frames seen next to each other, each as (name, file)."""
    codes = {0: None}
    ids = []
    caller, callee = ctypes.c_uint32(), ctypes.c_uint32()
    i = 0
    while _lib.fake_pair(i, ctypes.byref(caller), ctypes.byref(callee)):
        if callee.value:
            ids.append((caller.value, callee.value))
        i += 1
    for line in take():
        if isinstance(line, str) and line.startswith("code "):
            number, rest = line[5:].split(" ", 1)
            name, file, _ = rest.rsplit(" ", 2)
            codes[int(number)] = (name, file)
    return {(codes[a], codes[b]) for a, b in ids}


assert dovetail.status()["enabled"], dovetail.status()
