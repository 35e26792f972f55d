"""Requests of the Interactions API in both directions: body and `generation_config`.

google-genai 3.6.1, `_gaos/types/interactions/createmodelinteraction.py` (read 2026-11-27).  The
provider stores an interaction unless the request says otherwise, and continues a stored one that
`previous_interaction_id` names.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Text
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    as_str,
    get_bool,
    get_int,
    get_number,
    get_object,
    get_str,
    get_strings,
    prefix_path,
)
from streamnorm._core.bodies.request import (
    OutputFormat,
    ReasoningOptions,
    Request,
    is_same_dialect,
    request_source,
)
from streamnorm._core.bodies.table import (
    Field,
    Group,
    Nested,
    Reading,
    RequestTable,
    Table,
    Writing,
    unknown_of,
)
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.gemini_interactions.body.messages import (
    messages_from_wire,
    messages_to_wire,
)
from streamnorm.dialects.gemini_interactions.body.tools import (
    CHOICE,
    choice_from_wire,
    choice_to_wire,
    tools_from_wire,
    tools_to_wire,
)
from streamnorm.dialects.gemini_interactions.content import ISSUER
from streamnorm.dialects.gemini_interactions.traits import CAPABILITIES, REVISION
from streamnorm.dialects.gemini_interactions.wire import DIALECT

PATH = "/v1beta/interactions"

_JSON, _TEXT = "application/json", "text/plain"
_FORMAT, _LEVEL, _SUMMARIES = "response_format", "thinking_level", "thinking_summaries"
_LEVELS = frozenset({"minimal", "low", "medium", "high", "xhigh"})
_SHOWS = {"auto": "auto", "none": "none"}
_STATE = ("previous_interaction_id", "cached_content", "continuation_token", "background")
_TIERS = {"standard": "default", "flex": "flex", "priority": "priority"}


# The body


def _state_from_wire(reading: Reading) -> dict[str, Any]:
    body = reading.body
    state: dict[str, Any] = {name: get_str(body, name) for name in _STATE[:-1]}
    state["background"] = get_bool(body, "background") or None
    if body.get("background") is False:
        reading.unknown["background"] = False
    stated = {name: value for name, value in state.items() if value is not None}
    return {"state": stated} if stated else {}


def _state_to_wire(writing: Writing) -> dict[str, Any]:
    for name in writing.part.state:
        if name not in _STATE:
            raise EncodeError("state of another provider, expected none", path=f"state.{name}")
    return dict(writing.part.state)


def _input_to_wire(writing: Writing) -> dict[str, Any]:
    steps = messages_to_wire(writing.part.messages, writing.context)
    return {"input": steps} if steps or not writing.part.state else {}


def _input_from_wire(reading: Reading) -> dict[str, Any]:
    try:
        return {"messages": messages_from_wire(reading.body["input"])}
    except DecodeError as exc:
        raise prefix_path(exc, "$.input") from None


def _system_to_wire(system: tuple[Text, ...], writing: Writing) -> str:
    if len(system) > 1:
        writing.context.losses.add("boundaries", "system", "joined by a blank line")
    return "\n\n".join([block.text for block in system])


def _store_to_wire(store: bool | None, writing: Writing) -> bool | None:
    is_said = store is not None or "store" in writing.unknown
    # The API stores by default, other vendors store nothing.
    return store if is_said or is_same_dialect(writing.part, DIALECT) else False


def _output_from_wire(reading: Reading) -> dict[str, Any]:
    """Return the output format; fields without a unified format stay unknown fields."""
    value = reading.body[_FORMAT]
    # The API has one format for each modality of an answer, in a list or alone.
    formats = value if is_array(value) else [value]
    fields = formats[0] if len(formats) == 1 and is_object(formats[0]) else {}
    schema, kind = fields.get("schema"), fields.get("mime_type")
    is_known = fields.get("type") == "text" and fields.keys() <= {"type", "mime_type", "schema"}
    if is_known and kind == _TEXT and schema is None:
        return {"output": OutputFormat("text")}
    if is_known and kind in (None, _JSON) and schema is not None:
        schema = get_object(fields, "schema")
        return {"output": OutputFormat("json_schema", schema, strict=True)}
    if is_known and kind == _JSON:
        return {"output": OutputFormat("json_object")}
    reading.unknown[_FORMAT] = value
    return {}


def _output_to_wire(writing: Writing) -> dict[str, Any]:
    output, losses = writing.part.output, writing.context.losses
    if output.kind == "text":
        return {_FORMAT: {"type": "text", "mime_type": _TEXT}}
    if output.kind == "json_object" or output.schema is None:
        return {_FORMAT: {"type": "text", "mime_type": _JSON}}
    for name in ("name", "description"):
        if getattr(output, name) is not None:
            losses.add(f"schema_{name}", "request", "dropped")
    if output.strict is False:
        losses.add("schema_strict", "request", "enforced")
    return {_FORMAT: {"type": "text", "mime_type": _JSON, "schema": output.schema}}


# `generation_config`


def _reasoning_from_wire(reading: Reading) -> dict[str, Any]:
    level, summaries = get_str(reading.body, _LEVEL), get_str(reading.body, _SUMMARIES)
    effort = level if level in _LEVELS else None
    show = _SHOWS.get(summaries or "")
    reading.unknown |= {
        name: value
        for name, value, known in ((_LEVEL, level, effort), (_SUMMARIES, summaries, show))
        if value is not None and known is None
    }
    if effort is None and show is None:
        return {}
    return {"reasoning": ReasoningOptions(None, effort, None, show)}


def _reasoning_to_wire(writing: Writing) -> dict[str, Any]:
    reasoning: ReasoningOptions = writing.part.reasoning
    wire: dict[str, Any] = dict(unknown_of(reasoning.extra, DIALECT))
    if reasoning.effort is not None:
        wire[_LEVEL] = reasoning.effort
    if reasoning.show is not None:
        wire[_SUMMARIES] = "none" if reasoning.show == "none" else "auto"
        if reasoning.show in ("concise", "detailed"):
            writing.context.losses.add("reasoning_summary", "request", "written as auto")
    return wire


OPTIONS = Table(
    Field("temperature", get_number),
    Field("top_p", get_number),
    Field("seed", get_int),
    Field("max_tokens", get_int, wire="max_output_tokens"),
    Field("stop", get_strings, wire="stop_sequences"),
    Group(("reasoning",), (_LEVEL, _SUMMARIES), _reasoning_from_wire, _reasoning_to_wire),
    Group((CHOICE,), (CHOICE,), choice_from_wire, choice_to_wire),
)
"""Fields of `generation_config`."""

REQUEST = RequestTable(
    DIALECT,
    Field("model", get_str, write=lambda model, _: model or None),
    Group(("state",), _STATE, _state_from_wire, _state_to_wire),
    Field(
        "system",
        wire="system_instruction",
        read=lambda value: (Text(as_str(value)),),
        write=_system_to_wire,
    ),
    Group(("messages",), ("input",), _input_from_wire, _input_to_wire, ("state",), always=True),
    Group(
        ("tools",),
        ("tools",),
        lambda reading: {"tools": tools_from_wire(reading.body)},
        tools_to_wire,
    ),
    Nested("generation_config", OPTIONS, is_path=True),
    Group(("output",), (_FORMAT,), _output_from_wire, _output_to_wire),
    Field(
        "service_tier",
        read=lambda value: _TIERS.get(as_str(value)),
        write=lambda tier, writing: writing.context.capabilities.service_tiers.get(tier, tier),
    ),
    Field("stream", get_bool),
    Field("store", get_bool, write=_store_to_wire, always=True),
)


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Decode a body to a unified request.

    Raises:
        DecodeError: The body is no request of the Interactions API.
    """
    revision = context.headers.get("api-revision", REVISION)
    if revision != REVISION:  # whose events the client does not know
        raise DecodeError(f"another revision of the API, expected {REVISION}", path="$")
    if body.get("input") is None and all(body.get(name) is None for name in _STATE):
        raise DecodeError("missing, expected a string or an array", path="$.input")
    return REQUEST.read_request(body, context)


def write_request(request: Request, context: WriteContext) -> Written:
    """Encode a projected request as a body.

    Raises:
        EncodeError: A part has no legal form.
    """
    source = request_source(request, DIALECT)
    body = REQUEST.write_request(request, context) if source is None else source
    return Written(body, PATH, {"api-revision": REVISION})


# google-genai 3.6.1, `Annotation`.
_CITATION_FIELDS = {
    "maps": frozenset({"place_id", "review_snippets"}),
    "retrievedContext": frozenset({"source", "media_id", "page_number", "custom_metadata"}),
    "web": frozenset[str](),
}

REQUEST_CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    messages_field="input",
    # The API counts no tokens; another one at its host does, in the dialect that it has there.
    counted_in="gemini",
    fields=REQUEST.names,
    inline_system="text",
    prefill=False,
    images=frozenset(
        {"image/bmp", "image/gif", "image/heic", "image/heif", "image/jpeg", "image/png"}
        | {"image/tiff", "image/webp"}
    ),
    image_details=frozenset({"low", "high", "original"}),
    audio=True,
    video=True,
    assistant_media=True,
    file_issuer=ISSUER,
    citations=CAPABILITIES.citations,
    citation_fields=_CITATION_FIELDS,
    result_media=frozenset({"text", "image", "document", "audio", "video", "opaque"}),
    orphan_results=False,
    error_results=True,
    # The API's own error says 64 characters, its SDK 128.
    name_pattern=r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}",
    deferred_tools=True,
    server_tools={
        "web_search": frozenset(),
        "web_fetch": frozenset(),
        "code_execution": frozenset(),
        "google_maps": frozenset(),
    },
    mcp_servers=frozenset({"url", "authorization", "headers", "require_approval"}),
    server_history=True,
    restricted_choice=True,
    chooses_server_tools=False,
    lone_choice=False,
    enforces_outputs=True,
    min_answer_tokens=1,
    number_bounds={"top_p": (0.0, 1.0)},
    max_stops=5,
    thinking="level",
    thinking_budgets=False,
    reasoning_off=False,
    efforts=("minimal", "low", "medium", "high", "xhigh"),
    reasoning_issuer=ISSUER,
    signed=frozenset({"tool_call"}),
    service_tiers={"default": "standard", "flex": "flex", "priority": "priority"},
)
