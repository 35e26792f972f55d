"""Faults: what goes wrong between a provider and its client, as values.

A fault turns the answer that is played into a spoilt one, `fault(playback)`; a list of them
is applied in order, each to what the one before it left.  Faults are equal where they say
the same, and `str(fault)` is an id for a parametrised test, as `cut(byte=900)`.

    cut(…)                 the connection breaks there
    truncate(…)            the body ends there, as if it were whole
    stall(…, s=inf)        silence of so many seconds before that place
    slow_first_byte(s)     silence before the body
    garbage(…, data=…)     bytes that belong to nothing, put in there
    error_event(…)         the provider's own error, at the beginning of the event there, and
                           the end of the stream
    drop_terminal()        all but what tells that the message is complete
    drop(…)                one event is missing
    duplicate(…)           one event comes twice
    reorder(…)             one event comes behind the next
    crlf()                 every line ends in CRLF
    bom()                  a byte order mark comes first
    content_type(value)    another content type
    http(status, times=1)  an error response with the provider's own body, in place of so many
                           answers; None for all of them

`…` is one place: `byte=` so many bytes into the body, `event=` before the event of that
number (from 0; negative from the end), or `when=` before the first event whose
`streamnorm.sse.Frame` it returns true for.  For `drop`, `duplicate` and `reorder` it is the
event that begins there, or that holds the byte.  Comments and blank lines are no events; what
the body leaves without its blank line is one, if it has data.

What is not touched comes at the time it would have come at.  A place that the answer does
not have is a `ValueError` when the fault is applied; no place, or two, when it is made.
"""

from streamnorm.recording.faults.answers import content_type, http
from streamnorm.recording.faults.breaks import cut, error_event, slow_first_byte, stall, truncate
from streamnorm.recording.faults.changes import (
    bom,
    crlf,
    drop,
    drop_terminal,
    duplicate,
    garbage,
    reorder,
)
from streamnorm.recording.faults.every import every
from streamnorm.recording.faults.fault import Fault, When, Where

__all__ = [
    "Fault",
    "When",
    "Where",
    "bom",
    "content_type",
    "crlf",
    "cut",
    "drop",
    "drop_terminal",
    "duplicate",
    "error_event",
    "every",
    "garbage",
    "http",
    "reorder",
    "slow_first_byte",
    "stall",
    "truncate",
]
