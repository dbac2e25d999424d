"""Starting at import, attaching to a process that runs, detaching. Answers for `dovetail attach` begin with good, none or bad."""
import atexit
import os
import sys

from . import _dovetail

_registered = False


def _register():
    global _registered
    if not _registered:
        _registered = True
        os.register_at_fork(after_in_child=_dovetail.after_fork)
        atexit.register(_dovetail.stop)


def start():
    """Not where the import is an attach: attach follows, and knows the socket."""
    if not hasattr(sys, "_dovetail_attach") and _dovetail.start():
        _register()


def attach(socket, service):
    reason = _dovetail.attach(socket, service or None)
    if reason:
        return f"bad: {reason}"
    _register()
    return "good: " + ("OpenTelemetry and own scopes" if _dovetail.status()["opentelemetry"] else "own scopes; no OpenTelemetry is "
                       "loaded yet")


def detach():
    if not _dovetail.status()["enabled"]:
        return "none: it is not profiled"
    _dovetail.stop()
    return "good: its hooks stay, and do nothing"
