"""Gemini: `generateContent`, and its Interactions API, which is only read."""

from streamnorm.codec import Dialect
from streamnorm.dialects.gemini.array import ARRAY
from streamnorm.dialects.gemini.check import GeminiChecker
from streamnorm.dialects.gemini.decode import GeminiDecoder
from streamnorm.dialects.gemini.encode import GeminiEncoder
from streamnorm.dialects.gemini.marks import recognises

__all__ = ["DIALECT"]

DIALECT = Dialect(
    name="gemini",
    aliases=("google",),
    recognises=recognises,
    decoder=GeminiDecoder,
    encoder=GeminiEncoder,
    checker=GeminiChecker,
    forms=(ARRAY,),
)
