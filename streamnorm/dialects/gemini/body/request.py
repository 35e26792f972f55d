"""Requests of Gemini's `generateContent` in both directions: body and `generationConfig`.

https://ai.google.dev/api/generate-content (read 2026-11-23).  The path names the model and
whether the answer is a stream.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from streamnorm._core.blocks import Text
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    as_object,
    as_str,
    get_bool,
    get_int,
    get_number,
    get_object,
    get_strings,
    prefix_path,
    read_objects,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.files import PDF
from streamnorm._core.bodies.request import (
    OutputFormat,
    ReasoningOptions,
    Request,
    is_same_dialect,
    unchanged_source,
)
from streamnorm._core.bodies.table import (
    Field,
    Group,
    Nested,
    Reading,
    RequestTable,
    Table,
    Writing,
)
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import clean, is_array, is_object
from streamnorm._core.tools import AnyTool
from streamnorm.dialects.gemini.body.content import ISSUER
from streamnorm.dialects.gemini.body.messages import ContentsWriter, messages_from_wire
from streamnorm.dialects.gemini.body.tools import (
    TOOL_CONFIG,
    choice_from_wire,
    choice_to_wire,
    json_schema,
    lower_case_types,
    tools_from_wire,
    tools_to_wire,
)
from streamnorm.dialects.gemini.traits import ENDPOINTS
from streamnorm.dialects.gemini.wire import (
    DIALECT,
    add_extra,
    add_fields,
    extra_of,
    to_camel,
    wrap_singles,
)

_THINKING = "thinkingConfig"
_LEVELS = frozenset({"MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"})
_JSON, _TEXT = "application/json", "text/plain"
_STATE = "cachedContent"
_TIERS = {"standard": "default", "flex": "flex", "priority": "priority"}
_RESOURCES = ("models/", "tunedModels/")
_FORMAT = ("responseMimeType", "responseJsonSchema", "responseSchema", "responseFormat")
# `responseFormat` has the media type or, as in Google's reference, the name of the enumeration.
_MEDIA_TYPES = {"APPLICATION_JSON": _JSON, "TEXT_PLAIN": _TEXT}


# The body


def _normalize(body: dict[str, Any]) -> dict[str, Any]:
    return wrap_singles(to_camel(body), "contents", "tools")


def _system_from_wire(value: object) -> tuple[Text, ...]:
    """Return the system instruction; the vendor ignores its role."""
    content = wrap_singles(as_object(value), "parts")
    try:
        return tuple(read_objects(content.get("parts") or [], _instruction_from_wire))
    except DecodeError as exc:
        raise prefix_path(exc, "$.parts") from None


def _instruction_from_wire(value: dict[str, Any]) -> Text:
    part = to_camel(value)
    text = require_str(part, "text")
    others = {key: item for key, item in part.items() if key != "text" and item is not False}
    return Text(text, extra=extra_of(others))


def _system_to_wire(system: tuple[Text, ...], writing: Writing) -> dict[str, Any]:
    return {"parts": [add_extra({"text": text.text}, text.extra) for text in system]}


def _choice_from_wire(reading: Reading) -> dict[str, Any]:
    choice, _, unknown = choice_from_wire(reading.body)
    reading.unknown |= unknown
    return {"tool_choice": choice}


def _state_to_wire(state: dict[str, Any], writing: Writing) -> Any:
    for name in state:
        if name != _STATE:
            raise EncodeError("state of another provider, expected none", path=f"state.{name}")
    return state.get(_STATE)


# `generationConfig`


def _get_integer(wire: dict[str, Any], field: str) -> int:
    """Return an integer field, which JavaScript clients may send as `40.0`."""
    value = get_number(wire, field) or 0
    if value != value // 1:
        raise unexpected(value, "an integer", f"$.{field}")
    return int(value)


def _output_from_wire(reading: Reading) -> dict[str, Any]:
    """Return the output format; fields without a unified format stay unknown fields."""
    wire = reading.body
    kind, schema, own = wire.get("responseMimeType"), *map(partial(get_object, wire), _FORMAT[1:3])
    output: OutputFormat | None = None
    unused: tuple[str, ...] = _FORMAT
    if wire.get("responseFormat") is not None:
        # Google deprecates the three other fields in favour of this one.
        output = _read_format(wire["responseFormat"])
        unused = _FORMAT if output is None else _FORMAT[:3]
    elif kind == _TEXT and schema is None and own is None:
        output, unused = OutputFormat("text"), ()
    elif kind in (None, _JSON) and schema is not None:
        schema = lower_case_types(schema)
        output, unused = OutputFormat("json_schema", schema, strict=True), ("responseSchema",)
    elif kind in (None, _JSON) and own is not None:
        try:
            output = OutputFormat("json_schema", json_schema(own), strict=True)
        except DecodeError as exc:
            raise prefix_path(exc, "$.responseSchema") from None
        unused = ()
    elif kind == _JSON:
        output, unused = OutputFormat("json_object"), ()
    reading.unknown |= {name: wire[name] for name in unused if wire.get(name) is not None}
    return {} if output is None else {"output": output}


def _read_format(value: object) -> OutputFormat | None:
    """Return the output format of a `responseFormat`; None for other formats than one of text.

    The API has one format for each modality of an answer, in a list or alone
    (https://ai.google.dev/gemini-api/docs/file-search#structured-output, read 2026-12-01).
    """
    formats = value if is_array(value) else [value]
    modalities = formats[0] if len(formats) == 1 and is_object(formats[0]) else {}
    text = modalities.get("text")
    if modalities.keys() != {"text"} or not is_object(text):
        return None
    fields = to_camel(text)
    kind, schema = fields.get("mimeType"), fields.get("schema")
    if not fields.keys() <= {"mimeType", "schema"} or not isinstance(kind, str | None):
        return None
    kind = _MEDIA_TYPES.get(kind or "", kind)
    if is_object(schema) and kind in (None, _JSON):
        return OutputFormat("json_schema", lower_case_types(schema), strict=True)
    if schema is not None:
        return None
    return {_TEXT: OutputFormat("text"), _JSON: OutputFormat("json_object")}.get(kind or "")


def _output_to_wire(writing: Writing) -> dict[str, Any]:
    output, losses = writing.part.output, writing.context.losses
    if output.kind == "text":
        return {"responseMimeType": _TEXT}
    if output.kind == "json_object" or output.schema is None:
        return {"responseMimeType": _JSON}
    for name in ("name", "description"):
        if getattr(output, name) is not None:
            losses.add(f"schema_{name}", "request", "dropped")
    if output.strict is False:
        losses.add("schema_strict", "request", "enforced")
    return {"responseMimeType": _JSON, "responseJsonSchema": output.schema}


def _effort_from_wire(level: object) -> str | None:
    return level.lower() if isinstance(level, str) and level.upper() in _LEVELS else None


_REASONING = Table(
    Field("budget", get_int, wire="thinkingBudget"),
    Field("shown", get_bool, wire="includeThoughts"),
    Field("effort", wire="thinkingLevel", read=_effort_from_wire),
    normalize=to_camel,
)


def _reasoning_from_wire(value: object) -> ReasoningOptions:
    fields, unknown = _REASONING.read(as_object(value))
    budget, shown, effort = (fields.get(name) for name in ("budget", "shown", "effort"))
    show = None if shown is None else "auto" if shown else "none"
    extra = extra_of(unknown)
    if budget is None:
        return ReasoningOptions(None, effort, None, show, extra)
    if budget > 0:
        return ReasoningOptions("budget", effort, budget, show, extra)
    # The vendor's -1 leaves the budget to the model.
    return ReasoningOptions("off" if budget == 0 else "adaptive", effort, None, show, extra)


def _reasoning_to_wire(reasoning: ReasoningOptions, writing: Writing) -> dict[str, Any] | None:
    context = writing.context
    wire: dict[str, Any] = dict((reasoning.extra or {}).get(DIALECT, {}))
    match reasoning.mode:
        case "off":
            wire["thinkingBudget"] = 0
        case "budget":
            wire["thinkingBudget"] = reasoning.budget_tokens
        # `thinkingBudget: -1` asks a model with budgets to think as it likes; models with levels
        # do that anyway.  A request of this dialect keeps it, whatever the model.
        case "adaptive" if context.capabilities.thinking == "budget" or is_same_dialect(
            writing.part, DIALECT
        ):
            wire["thinkingBudget"] = -1
        case _:
            pass
    if reasoning.effort is not None:
        if "thinkingBudget" in wire:  # the API refuses both
            context.losses.add("effort_changed", "request", "dropped beside a budget")
        else:
            wire["thinkingLevel"] = reasoning.effort.upper()
    if reasoning.show is not None:
        wire["includeThoughts"] = reasoning.show != "none"
        if reasoning.show in ("concise", "detailed"):
            context.losses.add("reasoning_summary", "request", "written as includeThoughts")
    return wire or None


OPTIONS = Table(
    Field("temperature", get_number),
    Field("top_p", get_number, wire="topP"),
    Field("frequency_penalty", get_number, wire="frequencyPenalty"),
    Field("presence_penalty", get_number, wire="presencePenalty"),
    Field("top_k", _get_integer, wire="topK"),
    Field("seed", _get_integer),
    Field("choices", _get_integer, wire="candidateCount"),
    Field("max_tokens", _get_integer, wire="maxOutputTokens"),
    Field("top_logprobs", _get_integer, wire="logprobs"),
    Field("stop", get_strings, wire="stopSequences"),
    Field("logprobs", get_bool, wire="responseLogprobs"),
    Group(("output",), _FORMAT, _output_from_wire, _output_to_wire),
    Field("reasoning", wire=_THINKING, read=_reasoning_from_wire, write=_reasoning_to_wire),
    normalize=to_camel,
)
"""Fields of `generationConfig`."""

REQUEST = RequestTable(
    DIALECT,
    Field(
        "messages",
        wire="contents",
        read=messages_from_wire,
        write=lambda messages, writing: ContentsWriter(writing.context).write(messages),
        required="an array",
        always=True,
    ),
    Field("system", wire="systemInstruction", read=_system_from_wire, write=_system_to_wire),
    Group(
        ("tools",),
        ("tools",),
        lambda reading: {"tools": read_tools(reading.body)},
        lambda writing: {"tools": tools_to_wire(writing.part.tools, writing.context)},
    ),
    Group(
        ("tool_choice",),
        (TOOL_CONFIG,),
        _choice_from_wire,
        lambda writing: choice_to_wire(writing.part, writing.context),
        needs=("tools",),
        always=True,
        is_path=True,
    ),
    Nested("generationConfig", OPTIONS, is_path=True),
    Field(
        "state",
        wire=_STATE,
        read=lambda value: {_STATE: as_str(value)},
        write=_state_to_wire,
    ),
    Field(
        "service_tier",
        wire="serviceTier",
        read=lambda value: _TIERS.get(as_str(value)),
        write=lambda tier, writing: writing.context.capabilities.service_tiers.get(tier, tier),
    ),
    # The path names the model.
    Field(
        "model",
        read=lambda value: as_str(value).removeprefix("models/"),
        write=lambda model, writing: None,
    ),
    normalize=_normalize,
    add=add_fields,
)


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Decode a body to a unified request.

    Raises:
        DecodeError: The body is no request of Gemini.
    """
    path = context.path.partition("?")[0]
    model = unquote(ENDPOINTS.model(path, None))
    if not model:
        return REQUEST.read_request(body, context)
    stream = ENDPOINTS.streams(path, None)
    return REQUEST.read_request(body, context, model=model, stream=stream)


def read_tools(body: dict[str, Any]) -> tuple[AnyTool, ...]:
    """Return the tools that a request offers.

    Raises:
        DecodeError: An entry is no tool of the dialect.
    """
    wire = _normalize(body)
    return tools_from_wire(wire, strict=choice_from_wire(wire)[1])


def write_request(request: Request, context: WriteContext) -> Written:
    """Encode a projected request as a body.

    Raises:
        EncodeError: A part has no legal form.
    """
    source = unchanged_source(request, DIALECT, but="model")
    body = REQUEST.write_request(request, context) if source is None else source
    return Written(body, _path(request))


def _path(request: Request) -> str:
    """Return the path of the endpoint; "" if the request names no model."""
    if not request.model:
        return ""
    model = clean(request.model)
    resource = model if model.startswith(_RESOURCES) else f"models/{quote(model, safe='')}"
    method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
    return f"/v1beta/{resource}:{method}"


REQUEST_CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    messages_field="contents",
    fields=OPTIONS.names | {"service_tier", "stream"},
    system="blocks",
    inline_system="text",
    prefill=False,
    # The API refuses image/gif (microsoft/vscode#286628).
    images=frozenset({"image/heic", "image/heif", "image/jpeg", "image/png", "image/webp"}),
    image_details=frozenset({"low", "high", "original"}),
    # Office files are refused (googleapis/python-genai#829, google/generative-ai-go#161).
    document_types=frozenset({PDF}),
    audio=True,
    video=True,
    assistant_media=True,
    file_issuer=ISSUER,
    result_media=frozenset({"image", "document", "audio", "video", "opaque"}),
    error_results=True,
    calls_after_user=True,
    # The API's own error says 64 characters, its SDK 128.
    name_pattern=r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}",
    max_tools=512,
    server_tools={
        "web_search": frozenset(),
        "web_fetch": frozenset(),
        "code_execution": frozenset(),
    },
    mcp_servers=frozenset({"url", "authorization", "headers", "require_approval"}),
    server_history=True,
    restricted_choice=True,
    chooses_server_tools=False,
    enforces_outputs=True,
    min_answer_tokens=1,
    number_bounds={"choices": (1, 8), "top_p": (0.0, 1.0)},
    # "Only valid if responseLogprobs=True": ai.google.dev/api/generate-content#generationconfig
    dependent_fields={"top_logprobs": "logprobs"},
    max_stops=5,
    thinking="level",
    efforts=("minimal", "low", "medium", "high", "xhigh"),
    reasoning_issuer=ISSUER,
    signed=frozenset({"text", "tool_call", "image"}),
    signature_placeholder="skip_thought_signature_validator",
    service_tiers={"default": "standard", "flex": "flex", "priority": "priority"},
)
