"""Gemini: `generateContent`, and its Interactions API, which is only read."""

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm.dialects.gemini.array import ARRAY
from streamnorm.dialects.gemini.capabilities import CAPABILITIES
from streamnorm.dialects.gemini.endpoints import ENDPOINTS, is_terminal, overloaded_frames
from streamnorm.dialects.gemini.marks import recognises

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="gemini",
    aliases=("google",),
    recognises=recognises,
    is_terminal=is_terminal,
    decoder=on_first_use("streamnorm.dialects.gemini.decode", "GeminiDecoder"),
    encoder=on_first_use("streamnorm.dialects.gemini.encode", "GeminiEncoder"),
    checker=on_first_use("streamnorm.dialects.gemini.check", "GeminiChecker"),
    forms=(ARRAY,),
    capabilities=CAPABILITIES,
    endpoints=ENDPOINTS,
    overloaded_frames=overloaded_frames,
)
