"""Gemini's `generateContent`: responses, and streams as server-sent events or a JSON array."""

from __future__ import annotations

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm.dialects.gemini.body_format import JSON_ARRAY
from streamnorm.dialects.gemini.traits import (
    CAPABILITIES,
    ENDPOINTS,
    is_request,
    is_response,
    is_terminal,
    recognises,
)

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="gemini",
    aliases=("google",),
    recognises=recognises,
    is_terminal=is_terminal,
    decoder=on_first_use("streamnorm.dialects.gemini.decode", "GeminiDecoder"),
    encoder=on_first_use("streamnorm.dialects.gemini.encode", "GeminiEncoder"),
    checker=on_first_use("streamnorm.dialects.gemini.validate", "GeminiChecker"),
    request_checks=on_first_use("streamnorm.dialects.gemini.body.validate", "request_checks"),
    formats=(JSON_ARRAY,),
    capabilities=CAPABILITIES,
    body=on_first_use("streamnorm.dialects.gemini.body", "CODEC").load,
    is_request=is_request,
    is_response=is_response,
    endpoints=ENDPOINTS,
)
