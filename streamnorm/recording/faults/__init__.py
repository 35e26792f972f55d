"""Faults: failures between a provider and its client, as values.

`fault(playback)` returns a played answer with the fault injected; a list of faults is applied
in order.  Faults with equal arguments are equal, and `str(fault)` is an id for a parametrised
test, such as `cut(byte=900)`.

    cut(…)                 the connection is lost
    truncate(…)            the body ends as if it were complete
    stall(…, s=inf)        a pause of `s` seconds
    slow_first_byte(s)     a pause before the body
    garbage(…, data=…)     inserted bytes
    error_event(…)         the provider's own error before an event, and the end of the stream
    drop_terminal()        the terminal is missing
    drop(…)                one event is missing
    duplicate(…)           one event comes twice
    reorder(…)             one event comes after the next
    crlf()                 every line ends in CRLF
    bom()                  a byte order mark comes first
    content_type(value)    another content type
    http(status, times=1)  an error response with the provider's own body, for `times` requests;
                           None for all

`…` is one position: `byte=` an offset in the body, `event=` before the event of that number
(from 0; negative from the end), or `when=` before the first event whose `streamnorm.sse.Frame`
it returns true for.  For `drop`, `duplicate` and `reorder` it is the event that begins there,
or that holds the byte.  Comments and blank lines are no events; data at the end of the body
without a blank line is one.

All other bytes arrive when they would have.  A position that the answer does not have is a
`ValueError` when the fault is applied; none, or several, when it is made.
"""

from streamnorm.recording.faults.fault import Fault, FaultQueue, ReplayFault, When
from streamnorm.recording.faults.kinds import (
    bom,
    content_type,
    crlf,
    cut,
    drop,
    drop_terminal,
    duplicate,
    error_event,
    every,
    garbage,
    http,
    reorder,
    slow_first_byte,
    stall,
    truncate,
)

__all__ = [
    "Fault",
    "FaultQueue",
    "ReplayFault",
    "When",
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
