"""Google's Interactions API: streams and whole bodies."""

from __future__ import annotations

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm.dialects.gemini_interactions.outcome import overloaded_frames
from streamnorm.dialects.gemini_interactions.traits import (
    CAPABILITIES,
    ENDPOINTS,
    STORED,
    is_interaction,
    is_request,
    is_response,
    is_terminal,
)

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="gemini_interactions",
    aliases=(),
    recognises=is_interaction,
    is_terminal=is_terminal,
    overloaded_frames=overloaded_frames,
    variant_of="gemini",
    decoder=on_first_use("streamnorm.dialects.gemini_interactions.decode", "InteractionsDecoder"),
    encoder=on_first_use("streamnorm.dialects.gemini_interactions.encode", "InteractionsEncoder"),
    checker=on_first_use("streamnorm.dialects.gemini_interactions.validate", "InteractionsChecker"),
    request_checks=on_first_use(
        "streamnorm.dialects.gemini_interactions.body.validate", "request_checks"
    ),
    capabilities=CAPABILITIES,
    body=on_first_use("streamnorm.dialects.gemini_interactions.body", "CODEC").load,
    is_request=is_request,
    is_response=is_response,
    endpoints=ENDPOINTS,
    stored=STORED,
)
