"""Capabilities of Gemini's `generateContent`."""

from __future__ import annotations

from streamnorm._core.blocks import Document, Image, OpaqueBlock, Reasoning, Text, ToolCall
from streamnorm._core.losses import Capabilities

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
    signed=(Text, Reasoning, ToolCall),
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
    # A segment quotes the answer, and web sources have no field for their own text.
    cited_text=False,
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
