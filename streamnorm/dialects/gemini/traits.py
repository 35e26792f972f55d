"""Traits of Gemini: endpoints, recognition of bodies and frames, capabilities.

https://ai.google.dev/api/generate-content (read 2026-11-21).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import Document, Image, OpaqueBlock, Reasoning, Text, ToolCall
from streamnorm._core.codec import DONE, Endpoints, Route
from streamnorm._core.json import FAST_ERRORS, is_array, is_object, object_in, objects_of
from streamnorm._core.losses import Capabilities
from streamnorm.dialects.gemini.outcome import finish_reason_of
from streamnorm.sse import Frame

# The name of a model is everything after the first `models/`; a tuned model is named by its
# resource.  The atomic group searches the path once, however often it repeats `models/`.
_MODEL = r"\A(?>.*?(?:\bmodels/|/(?=tunedModels/)))(?P<model>.+)"

ENDPOINTS = Endpoints(
    routes=(
        Route("POST", re.compile(rf"{_MODEL}:generateContent\Z"), "message"),
        Route("POST", re.compile(rf"{_MODEL}:streamGenerateContent\Z"), "stream"),
        Route("POST", re.compile(rf"{_MODEL}:countTokens\Z"), "count"),
        Route("GET", re.compile(r"/models\Z"), "models"),
        Route("GET", re.compile(rf"{_MODEL}\Z"), "model"),
    ),
    models_path="/v1beta/models",
    key_headers=("x-goog-api-key", "authorization"),
    vendor_headers=("x-goog-api-client", "x-goog-user-project"),
    account_headers=frozenset({"x-goog-user-project"}),
    forwarded_query=("alt",),
    servers={"generativelanguage.googleapis.com": "gemini"},
)


_TEXT_FIELDS = {"text", "thought", "thoughtSignature"}


class _Candidate(Struct):
    """A candidate, whose fields are not decoded."""


class _Chunk(Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: dict[str, object] | None = None
    prompt_feedback: dict[str, object] | None = None
    response: _Chunk | None = None


_CHUNK: msgspec.json.Decoder[_Chunk] = msgspec.json.Decoder(_Chunk)


def recognises(frame: Frame) -> bool:
    """Return whether a frame is a Gemini chunk, with or without Code Assist's envelope."""
    try:
        chunk = _CHUNK.decode(frame.data)
    except FAST_ERRORS:
        return False
    while chunk.response is not None:
        chunk = chunk.response
    fields = (chunk.candidates, chunk.usage_metadata, chunk.prompt_feedback)
    return any(field is not None for field in fields)


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a request: it has contents with parts."""
    contents = body.get("contents")
    first = contents[0] if is_array(contents) and contents else contents  # or one object
    if not is_object(first):
        return False
    # Google reads one object in place of a list, too.
    parts = first.get("parts")
    return is_array(parts) or is_object(parts)


def is_response(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a response: candidates, or a blocked prompt."""
    inner = body.get("response")
    if is_object(inner):  # Code Assist
        body = inner
    candidates = body.get("candidates")
    if is_array(candidates) and candidates:
        return is_object(candidates[0])
    feedback = body.get("promptFeedback")
    return is_object(feedback) and "blockReason" in feedback


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame has a finish or block reason, or is `[DONE]`."""
    return frame.data.startswith(DONE) or has_finish(object_in(frame.data))


def has_finish(chunk: dict[str, Any]) -> bool:
    """Return whether a chunk has a candidate's finish reason, or a block reason."""
    feedback = chunk.get("promptFeedback")
    if is_object(feedback) and finish_reason_of(feedback.get("blockReason")):
        return True
    return any(map(_is_finished, objects_of(chunk.get("candidates"))))


def _is_finished(candidate: dict[str, Any]) -> bool:
    """Return whether a candidate has a finish reason and does not end in code.

    The API sends a finish reason with code that it runs; the result of the code follows.
    """
    content = candidate.get("content")
    parts = objects_of(content.get("parts")) if is_object(content) else []
    full = [part for part in parts if part.get("text") or part.keys() - _TEXT_FIELDS]
    is_code = bool(full) and "executableCode" in full[-1]
    return not is_code and finish_reason_of(candidate.get("finishReason")) != ""


CAPABILITIES = Capabilities(
    dialect="gemini",
    identity=True,
    # Clients read the first candidate alone.
    choices=False,
    # Clients join neighbouring texts to one part.
    boundaries=False,
    # Parts are complete in their order: nothing is open beside another part.
    overlapping=(),
    blank_text=True,
    # A refusal is a finish reason.
    refusal=False,
    reasoning=True,
    # Parts with `thought` have no number.
    reasoning_parts=False,
    redacted_reasoning=True,
    redacted_as_signature_of="google",
    signed=(Text, Reasoning, ToolCall, Image),
    # Gemini CLI sends no thought back, and the Interactions API signs the thought before a call.
    call_issuer="google",
    # Arguments are an object (`args`).
    custom_tools=False,
    namespaces=False,
    # A call is one complete part.
    unfinished_calls=False,
    null_arguments=False,
    # `args` is an object; text that is none has no form.
    broken_arguments=False,
    server_tools=(
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
        "functionResponse",
    ),
    media=(Image, Document, OpaqueBlock),
    file_urls=True,
    citations=frozenset({"citation", "image", "maps", "retrievedContext", "web"}),
    url_citation="web",
    citation_fields=False,
    # A segment quotes the answer, and web sources have no field for their own text.
    cited_texts=frozenset({"retrievedContext"}),
    not_round_tripped=frozenset(),
    stop_reasons=frozenset({"end_turn", "max_tokens", "tool_use", "refusal", "pause", "other"}),
    native_stop_reasons=frozenset(),
    # `STOP` does not name a stop sequence.
    unnamed_stop_sequence=False,
    service_tiers={},
    usage="known",
    # Caches are written by requests of their own.
    cache_write=False,
    # Thoughts and text are counted apart, and their sum is the output.
    reasoning_tokens=True,
    excess_reasoning=False,
)
