"""Capabilities of `ConverseStream`."""

from __future__ import annotations

from streamnorm._core.blocks import Image, OpaqueBlock, Reasoning
from streamnorm._core.losses import Capabilities
from streamnorm.dialects.bedrock_converse.content import LOCATIONS, UNLOCATED, WEB
from streamnorm.dialects.bedrock_converse.outcome import NATIVE_STOP_REASONS
from streamnorm.dialects.bedrock_converse.tool_calls import TOOL_RESULT, TOOL_USE
from streamnorm.dialects.bedrock_converse.wire import BLOCK_DELTA, DIALECT

CAPABILITIES = Capabilities(
    dialect=DIALECT,
    # `messageStart` has a role and nothing else.
    identity=False,
    # One message per request.
    choices=False,
    boundaries=True,
    # No recording has a block that starts within another.
    overlapping=(),
    # The API refuses a blank text when the client sends it back.
    blank_text=False,
    # A refusal is a stop reason.
    refusal=False,
    reasoning=True,
    # Reasoning is one text.
    reasoning_parts=False,
    redacted_reasoning=True,
    redacted_as_signature_of=None,
    signed=(Reasoning,),
    # The input of every tool is a JSON object.
    custom_tools=False,
    namespaces=False,
    unfinished_calls=False,
    # The API refuses any input but an object when the history comes back.
    null_arguments=False,
    # The input is a text in a stream, whatever it says.
    broken_arguments=True,
    server_tools=(TOOL_USE, TOOL_RESULT),
    media=(Image, OpaqueBlock),
    # An image comes by its bytes; one in S3 has no URL that others can fetch.
    file_urls=False,
    citations=LOCATIONS | {UNLOCATED},
    url_citation=WEB,
    cited_text=True,
    not_round_tripped=frozenset(),
    # A delta of a block that is not written would open another at its index.
    block_events=frozenset({BLOCK_DELTA}),
    stop_reasons=frozenset({"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}),
    native_stop_reasons=NATIVE_STOP_REASONS,
    unnamed_stop_sequence=True,
    service_tiers={
        "auto": "default",
        "default": "default",
        "flex": "flex",
        "priority": "priority",
        "reserved": "reserved",
        "standard": "default",
    },
    # Clients of boto3 index the counts.
    usage="always",
    cache_write=True,
    # No field counts reasoning.
    reasoning_tokens=False,
    excess_reasoning=False,
)
