"""The W3C traceparent header: https://www.w3.org/TR/trace-context/#traceparent-header"""
import re
from typing import NamedTuple, Optional

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Traceparent(NamedTuple):
    trace_id: str  # 32 hex digits
    span_id: str   # 16 hex digits
    sampled: bool


def parse_traceparent(header) -> Optional[Traceparent]:
    """The header's parts, or None if it is invalid. Later versions are read by version 00's fields."""
    match = _FORM.fullmatch(header) if isinstance(header, str) else None
    if not match:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest is not None):
        return None
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Traceparent(trace_id, span_id, bool(int(flags, 16) & 1))


def format_traceparent(trace_id: str, span_id: str, sampled: bool = True) -> str:
    """A version 00 header. ValueError for ids that are not 32 and 16 hex digits or are zero."""
    header = f"00-{trace_id.lower()}-{span_id.lower()}-{'01' if sampled else '00'}"
    if parse_traceparent(header) is None:
        raise ValueError("a trace id is 32 hex digits and a span id 16, neither all zero")
    return header
