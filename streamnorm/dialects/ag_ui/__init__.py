"""AG-UI, the protocol between agents and pages.

A front end's dialect: no provider speaks it, so it has neither endpoints nor requests to send.
"""

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm.dialects.ag_ui.capabilities import CAPABILITIES
from streamnorm.dialects.ag_ui.detect import is_terminal, recognises

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="ag_ui",
    aliases=(),
    recognises=recognises,
    decoder=on_first_use("streamnorm.dialects.ag_ui.decode", "AGUIDecoder"),
    encoder=on_first_use("streamnorm.dialects.ag_ui.encode", "AGUIEncoder"),
    is_terminal=is_terminal,
    capabilities=CAPABILITIES,
)
