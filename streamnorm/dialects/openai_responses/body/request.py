"""Requests in both directions: single fields, then input, tools and compaction.

https://platform.openai.com/docs/api-reference/responses/create (read 2026-11-23), with what
Codex, opencode and LangChain send beyond it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from streamnorm._core.blocks import CacheMark, OpaqueBlock, ServerToolResult, Text
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    as_object,
    as_str,
    get_bool,
    get_int,
    get_labels,
    get_number,
    get_object,
    get_str,
    get_strings,
    prefix_path,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.projection.reasoning_options import is_reasoning
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
    WithRest,
    Writing,
)
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, is_object, object_in
from streamnorm._core.tools import AnyTool, CustomTool, ServerTool, Tool
from streamnorm.dialects.openai_responses.body.content import as_extra, unknown_fields_of
from streamnorm.dialects.openai_responses.body.messages import InputReader, input_to_wire
from streamnorm.dialects.openai_responses.body.tools import (
    CLIENT_SEARCH,
    choice_from_wire,
    choice_to_wire,
    tools_from_wire,
    tools_to_wire,
)
from streamnorm.dialects.openai_responses.wire import DIALECT, ENCRYPTED_REASONING

_Value: TypeAlias = dict[str, Any]

_PATH = "/v1/responses"

_LOGPROBS = "message.output_text.logprobs"
_FORMATS = ("text", "json_object", "json_schema")
_COMPACTION = {"type", "compact_threshold"}


# State, input and tools


def input_items(body: _Value) -> list[_Value]:
    """Return the input of a request as items; [] without an input.

    Raises:
        DecodeError: The input is neither a text nor a list of objects.
    """
    value = body.get("input")
    items = [] if value is None else _items_of(value)
    return [as_object(item, f"$.input[{number}]") for number, item in enumerate(items)]


def references_in(items: list[_Value]) -> dict[int, str]:
    """Return the ids that item references name, by the position of the reference in `items`."""
    references: dict[int, str] = {}
    # The AI SDK sends references to all items of earlier answers.
    for number, item in enumerate(items):
        kind = item.get("type")
        # The type of a reference may be left out.
        if kind == "item_reference" or (kind is None and "role" not in item):
            try:
                references[number] = require_str(item, "id")
            except DecodeError as exc:
                raise prefix_path(exc, f"$.input[{number}]") from None
    return references


def _state_from_wire(reading: Reading) -> _Value:
    body = reading.body
    state = {
        "conversation": body.get("conversation"),
        "previous_response_id": get_str(body, "previous_response_id"),
        "prompt": get_object(body, "prompt"),
        "background": get_bool(body, "background") or None,
    }
    if not isinstance(state["conversation"], str | dict | None):
        raise unexpected(state["conversation"], "a string or an object", "$.conversation")
    if body.get("background") is False:
        reading.unknown["background"] = False
    stated = {name: value for name, value in state.items() if value is not None}
    return {"state": stated} if stated else {}


def _state_to_wire(writing: Writing) -> _Value:
    state: _Value = writing.part.state or {}
    return {name: value for name, value in state.items() if name != "item_reference"}


def _input_from_wire(reading: Reading) -> _Value:
    """Return the messages, the tools and the item references of a request with input."""
    tools = tools_from_wire(reading.body)
    items = _items_of(reading.body["input"])
    reader = InputReader(items, _declared_names(tools), reading.context.server)
    fields: _Value = {"messages": reader.messages()}
    known = {_tool_key(tool) for tool in tools}
    # The last definition of a tool replaces those before, as Codex 0.171 says to the model, which
    # defines its tools anew when the user changes the model.
    added = {_tool_key(tool): tool for tool in reader.added_tools}
    tools += [tool for key, tool in added.items() if key not in known]
    if reader.references:
        fields["state"] = {**reading.fields.get("state", {}), "item_reference": reader.references}
    return {**fields, "tools": tuple(tools)}


def _items_of(value: object) -> list[Any]:
    """Return `input` as items; a string becomes a user message."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not is_array(value):
        raise unexpected(value, "a string or an array", "$.input")
    return value


def _declared_names(tools: list[AnyTool]) -> frozenset[str] | None:
    """Return the names of the client's tools; None if further tools may be loaded later."""
    if not tools or any(
        isinstance(tool, ServerTool) and tool.kind in ("tool_search", CLIENT_SEARCH)
        for tool in tools
    ):
        return None
    return frozenset(tool.name for tool in tools if isinstance(tool, (Tool, CustomTool)))


def _tool_key(tool: AnyTool) -> object:
    """Return a tool's key within a request: name or kind, and namespace."""
    if isinstance(tool, (Tool, CustomTool)):
        return tool.name, tool.namespace and tool.namespace.name
    return (tool.kind, None) if isinstance(tool, ServerTool) else (tool.name, None)


def _input_to_wire(writing: Writing) -> _Value:
    items = input_to_wire(writing.part.messages, writing.context)
    return {"input": items} if items or not writing.part.state else {}


def _tools_from_wire(reading: Reading) -> _Value:
    """Return the tools of a request without input."""
    return {} if "tools" in reading.fields else {"tools": tuple(tools_from_wire(reading.body))}


def _tools_to_wire(writing: Writing) -> _Value:
    added = _added_tool_keys(writing.part)
    tools = tools_to_wire([tool for tool in writing.part.tools if _tool_key(tool) not in added])
    return {"tools": tools} if tools else {}


def _added_tool_keys(request: Request) -> set[object]:
    """Return the keys of tools that input items add."""
    keys: set[object] = set()
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, OpaqueBlock) and block.kind == "additional_tools":
                keys |= {_tool_key(tool) for tool in tools_from_wire(object_in(block.data))}
            elif isinstance(block, ServerToolResult) and block.kind == "tool_search_output":
                keys |= {_tool_key(tool) for tool in tools_from_wire(block.content)}
    return keys


def _choice_from_wire(reading: Reading) -> _Value:
    choice, inexact = choice_from_wire(reading.body)
    if inexact is not None:
        reading.unknown["tool_choice"] = inexact
    return {"tool_choice": choice}


def _choice_to_wire(writing: Writing) -> _Value:
    choice = writing.part.tool_choice
    # An unchanged choice keeps the details that `ToolChoice` cannot hold.
    inexact = writing.unknown.pop("tool_choice", None)
    is_same = inexact is not None and choice_from_wire({"tool_choice": inexact})[0] == choice
    return {"tool_choice": inexact if is_same else choice_to_wire(choice, writing.part.tools)}


# Options


def _format_kind(value: object) -> str:
    if (kind := as_str(value)) not in _FORMATS:
        raise unexpected(kind, "text, json_object or json_schema", "$")
    return kind


_FORMAT = Table(
    Field("kind", wire="type", read=_format_kind, required="a string"),
    Field("schema", get_object),
    Field("name", get_str),
    Field("description", get_str),
    Field("strict", get_bool),
)


def _format_from_wire(value: object) -> OutputFormat:
    fields, unknown = _FORMAT.read(as_object(value))
    return OutputFormat(**fields, extra=as_extra(unknown))


def _format_to_wire(output: OutputFormat, writing: Writing) -> _Value:
    value: _Value = {"type": output.kind}
    if output.kind == "json_schema":
        # Two dialects have no names, and the API requires one.
        value |= {"name": output.name or "response", "schema": output.schema or {}}
        said = {"description": output.description, "strict": output.strict}
        value |= {name: field for name, field in said.items() if field is not None}
    return value | unknown_fields_of(output.extra)


_REASONING = Table(Field("effort", get_str), Field("show", get_str, wire="summary"))


def _reasoning_from_wire(value: object) -> ReasoningOptions | None:
    fields, unknown = _REASONING.read(as_object(value))
    return ReasoningOptions(**fields, extra=as_extra(unknown)) if fields else None


def _reasoning_to_wire(options: ReasoningOptions, writing: Writing) -> _Value | None:
    effort = options.effort or ("none" if options.mode == "off" else None)
    value: _Value = {} if effort is None else {"effort": effort}
    if options.show not in (None, "none"):
        value["summary"] = options.show
    return value | unknown_fields_of(options.extra) or None


def _include_from_wire(reading: Reading) -> _Value:
    names = get_strings(reading.body, "include") or ()
    rest = [name for name in names if name != _LOGPROBS]
    if rest or not names:
        reading.unknown["include"] = rest
    return {"logprobs": True} if len(rest) < len(names) else {}


def _include_to_wire(writing: Writing) -> _Value:
    added = [_LOGPROBS] if writing.part.logprobs else []
    if _needs_encrypted_reasoning(writing):
        added.append(ENCRYPTED_REASONING)
    if not added:
        return {}
    said = writing.unknown.pop("include", None) or ()
    return {"include": [*said, *(name for name in added if name not in said)]}


def _needs_encrypted_reasoning(writing: Writing) -> bool:
    """Return whether reasoning would be lost, since the answer is not stored.

    OpenAI refuses the id of an item that it has not stored, and without its reasoning a model
    starts anew at each call of a tool (openai/openai-agents-python#919, vercel/ai#7543).  Models
    that do not reason refuse the name: "Encrypted content is not supported with this model".
    """
    request, target = writing.part, writing.context.capabilities
    # Servers that run other models take reasoning back as it is, but for an issuer of its own.
    is_encrypted = target.stored_reasoning or (
        target.reasoning_issuer != REQUEST_CAPABILITIES.reasoning_issuer
    )
    return (
        is_encrypted
        and not is_same_dialect(request, DIALECT)
        and _store_to_wire(request.store, writing) is False
        and target.returns_reasoning
        and target.has_field("include")
        and is_reasoning(request, target)
    )


def _cache_from_wire(value: object) -> WithRest | None:
    options = as_object(value)
    ttl = get_str(options, "ttl")
    # An explicit mode sets no mark itself: the marks stand in the content.
    if options.get("mode") != "implicit":
        return None
    mapped = {"mode"} if ttl is None else {"mode", "ttl"}
    return WithRest(CacheMark(ttl), {k: item for k, item in options.items() if k not in mapped})


def _cache_to_wire(mark: CacheMark, writing: Writing) -> _Value:
    return {"mode": "implicit"} if mark.ttl is None else {"mode": "implicit", "ttl": mark.ttl}


def _compaction_from_wire(value: object) -> int | None:
    """Return the compaction threshold in `context_management`; None for any other entries."""
    if not is_array(value):
        raise unexpected(value, "an array", "$")
    entry = value[0] if len(value) == 1 else None
    if is_object(entry) and entry.keys() == _COMPACTION and entry["type"] == "compaction":
        threshold = entry["compact_threshold"]
        return threshold if type(threshold) is int else None
    return None


def _compaction_to_wire(threshold: int, writing: Writing) -> list[_Value]:
    return [{"type": "compaction", "compact_threshold": threshold}]


def _store_to_wire(store: bool | None, writing: Writing) -> bool | None:
    is_said = store is not None or "store" in writing.unknown
    # The API stores by default, other vendors store nothing.
    return store if is_said or is_same_dialect(writing.part, DIALECT) else False


REQUEST = RequestTable(
    DIALECT,
    Field("model", get_str, write=lambda model, _: model or None),
    Field(
        "system",
        wire="instructions",
        read=lambda value: (Text(as_str(value)),),
        # `instructions` is one string, with no parts to keep apart.
        write=lambda system, _: "\n\n".join([block.text for block in system]),
    ),
    Group(
        ("state",),
        ("conversation", "previous_response_id", "prompt", "background"),
        _state_from_wire,
        _state_to_wire,
    ),
    Group(("messages",), ("input",), _input_from_wire, _input_to_wire, ("state",), always=True),
    Group(("tools",), ("tools",), _tools_from_wire, _tools_to_wire, ("messages",)),
    Group(("tool_choice",), ("tool_choice",), _choice_from_wire, _choice_to_wire, ("tools",)),
    Field("max_tokens", get_int, wire="max_output_tokens"),
    Field("temperature", get_number),
    Field("top_p", get_number),
    Field("top_logprobs", get_int),
    Field("parallel_tool_calls", get_bool),
    Field("user", get_str),
    Field("safety_identifier", get_str),
    Field("service_tier", get_str),
    Field("cache_key", get_str, wire="prompt_cache_key"),
    Field("stream", get_bool),
    Field("metadata", get_labels),
    Field("store", get_bool, write=_store_to_wire, always=True),
    Field("reasoning", read=_reasoning_from_wire, write=_reasoning_to_wire),
    Nested(
        "text",
        Table(
            Field("output", wire="format", read=_format_from_wire, write=_format_to_wire),
            Field("verbosity", get_str),
        ),
    ),
    Group(("logprobs",), ("include",), _include_from_wire, _include_to_wire, always=True),
    Field("cache", wire="prompt_cache_options", read=_cache_from_wire, write=_cache_to_wire),
    Field(
        "compact_at_tokens",
        wire="context_management",
        read=_compaction_from_wire,
        write=_compaction_to_wire,
    ),
)


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Decode a body to a unified request.

    Raises:
        DecodeError: The body is not a Responses request.
    """
    request = REQUEST.read_request(body, context)
    # `input` is optional if the server stores a prompt or a conversation.
    if body.get("input") is None and request.state is None:
        raise DecodeError("missing, expected a string or an array", path="$.input")
    return request


def write_request(request: Request, context: WriteContext) -> Written:
    """Encode a projected request as a body."""
    source = request_source(request, DIALECT)
    if source is not None:
        return Written({**source}, _PATH)
    return Written(REQUEST.write_request(request, context), _PATH)


_TIERS = ("auto", "default", "fast", "flex", "priority", "scale", "ultrafast")
_TTLS = {"": "", "5m": "", "30m": "30m", "1h": "12h", "12h": "12h"}

# openai 3.57.0, `AnnotationURLCitation` and others; the API refuses unknown parameters.
_CITATION_FIELDS = {
    "container_file_citation": frozenset({"container_id", "file_id", "filename"}),
    "file_citation": frozenset({"file_id", "filename", "index"}),
    "file_path": frozenset({"file_id", "index"}),
    "url_citation": frozenset[str](),
}

REQUEST_CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    messages_field="input",
    fields=REQUEST.names,
    roles=frozenset({"user", "assistant", "system", "developer"}),
    system="text",
    inline_system="message",
    prefill=False,
    # heic: openai/codex#7214
    images=frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"}),
    image_details=frozenset({"low", "high", "original", "auto"}),
    system_media=True,
    file_issuer="openai",
    refusal=True,
    citations=frozenset(_CITATION_FIELDS),
    citation_fields=_CITATION_FIELDS,
    split_results=True,
    result_media=frozenset({"image", "document"}),
    max_id_chars=64,
    unique_ids=True,
    # 64 is the bound of Chat Completions; the specification of Responses has this one.
    name_pattern="[a-zA-Z0-9_-]{1,128}",
    custom_tools=True,
    namespaces=True,
    deferred_tools=True,
    server_tools={
        "web_search": frozenset({"allowed_domains", "search_context_size", "user_location"}),
        "code_execution": frozenset(),
        "image_generation": frozenset(),
        "tool_search": frozenset(),
    },
    mcp_servers=frozenset({"url", "authorization", "headers", "allowed_tools", "require_approval"}),
    server_history=True,
    restricted_choice=True,
    output_name_pattern="[a-zA-Z0-9_-]{1,64}",  # openclaw/openclaw#114200
    reasoning_issuer="openai",
    reasoning_answered=True,
    stored_reasoning=True,  # vercel/ai#7543
    # continuedev/continue#8933, jlcodes99/cockpit-tools#2090, ranxianglei/billion-context#1052
    reasoning_id_pattern="rs[a-zA-Z0-9_-]{0,62}",
    marks=frozenset({"text", "image", "document"}),
    mark_ttls=_TTLS,
    request_ttls=_TTLS,
    service_tiers={tier: tier for tier in _TIERS},
    max_user_chars=128,
    max_cache_key_chars=64,
    min_answer_tokens=16,  # farion1231/cc-switch#7287
)
