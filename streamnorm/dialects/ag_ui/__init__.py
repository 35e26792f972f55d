"""AG-UI, a protocol between agents and web pages.

A front end's dialect: no provider speaks it, so it has no endpoints, and its requests are only
read.
"""

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm.dialects.ag_ui.traits import (
    CAPABILITIES,
    PageOptions,
    is_request,
    is_terminal,
    recognises,
)

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="ag_ui",
    aliases=(),
    recognises=recognises,
    decoder=on_first_use("streamnorm.dialects.ag_ui.decode", "AGUIDecoder"),
    encoder=on_first_use("streamnorm.dialects.ag_ui.encode", "AGUIEncoder"),
    checker=on_first_use("streamnorm.dialects.ag_ui.validate", "AGUIChecker"),
    is_terminal=is_terminal,
    page_path="/ag-ui/run",
    body=on_first_use("streamnorm.dialects.ag_ui.body", "CODEC").load,
    is_request=is_request,
    capabilities=CAPABILITIES,
    options=PageOptions,
)
