"""Checks of requests against the rules of Responses and compatible servers.

A check is written from what the server refuses and shares no code with the encoders.  It
accepts any JSON: another rule reports a value of the wrong type.

https://platform.openai.com/docs/api-reference/responses/create (read 2026-11-23), and the types
of openai 3.54.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.json import is_object, objects_at, string_of
from streamnorm.dialects.openai_responses.items.types import ITEM_TYPES

# Codex 0.169 writes metadata in items for OpenAI.
_MESSAGE_FIELDS = frozenset({"content", "id", "phase", "role", "status", "type"}) | {
    "internal_chat_message_metadata_passthrough"
}
_PART_FIELDS = {
    "input_text": frozenset({"prompt_cache_breakpoint", "text", "type"}),
    "input_image": frozenset({"detail", "file_id", "image_url", "prompt_cache_breakpoint", "type"}),
    "input_file": frozenset(
        {
            *("detail", "file_data", "file_id", "file_url", "filename"),
            *("prompt_cache_breakpoint", "type"),
        }
    ),
    "output_text": frozenset({"annotations", "logprobs", "text", "type"}),
    "refusal": frozenset({"refusal", "type"}),
}
_OUTPUT_PARTS = ("output_text", "refusal")
_INPUT_PARTS = ("input_text", "input_image", "input_file")
_CALLS = {row.name: row.call_type for row in ITEM_TYPES.values() if row.call_type}
"""Types of results, each with the type of its call."""
# Types of items that the client adds, other than messages and results.
_CLIENT_ITEMS = {row.name for row in ITEM_TYPES.values() if row.role != "assistant"}
_STATE = ("previous_response_id", "conversation", "prompt")
# What streamnorm writes: tags that carry signatures through other dialects, and minted ids.
_TAG = re.compile(r"sn1[.-]")
_MINTED_ID = re.compile(r"[a-z]+_sn_")
# Types of one tool; in `tool_choice` the API accepts each for any other.
_SEARCHES = frozenset(
    {
        *("web_search", "web_search_2025_08_26"),
        *("web_search_preview", "web_search_preview_2025_03_11"),
    }
)


def _items(facts: RequestFacts, kind: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each input item with its path; with `kind`, only the items of this type."""
    for path, item in objects_at(facts.body.get("input"), "input"):
        if kind is None or item.get("type") == kind:
            yield path, item


def _kind(item: dict[str, Any]) -> object:
    """Return the type of an item, which messages and references may omit."""
    return item.get("type", "message" if "role" in item else "item_reference")


def _messages(facts: RequestFacts) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the messages of the input."""
    for path, item in _items(facts):
        if _kind(item) == "message":
            yield path, item


def _parts(facts: RequestFacts) -> Iterator[tuple[str, bool, dict[str, Any]]]:
    """Yield each part of messages and results: path, whether the assistant wrote it, value."""
    for path, item in _messages(facts):
        is_answer = item.get("role") == "assistant"
        for place, part in objects_at(item.get("content"), f"{path}.content"):
            yield place, is_answer, part
    for path, item in _items(facts):
        if string_of(item, "type") in _CALLS:
            for place, part in objects_at(item.get("output"), f"{path}.output"):
                yield place, False, part


def _has_state(facts: RequestFacts) -> bool:
    """Return whether the server may have stored items that the input omits."""
    if any(facts.body.get(name) is not None for name in _STATE):
        return True
    return any(_kind(item) == "item_reference" for _, item in _items(facts))


# Fields and types


def unknown_message_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield message fields that the API does not define."""
    for path, item in _messages(facts):
        for name in item:
            if name not in _MESSAGE_FIELDS:
                yield Finding(f"{path}.{name}", name=name)


def unknown_part_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield part fields that the part's type does not define."""
    for path, _, part in _parts(facts):
        known = _PART_FIELDS.get(string_of(part, "type"))
        for name in part:
            if known is not None and name not in known:
                yield Finding(f"{path}.{name}", name=name)


def parts_of_assistant(facts: RequestFacts) -> Iterator[Finding]:
    """Yield parts of assistant messages that are not output parts."""
    for path, is_answer, part in _parts(facts):
        if is_answer and part.get("type") not in _OUTPUT_PARTS:
            yield Finding(path, part.get("type"))


def parts_of_others(facts: RequestFacts) -> Iterator[Finding]:
    """Yield parts of other messages and of results that are not input parts."""
    for path, is_answer, part in _parts(facts):
        if not is_answer and part.get("type") not in _INPUT_PARTS:
            yield Finding(path, part.get("type"))


# Calls and results


def results_of_no_call(facts: RequestFacts) -> Iterator[Finding]:
    """Yield results without an earlier call."""
    if _has_state(facts):
        return
    called: set[tuple[str, str]] = set()
    for path, item in _items(facts):
        kind, id = string_of(item, "type"), string_of(item, "call_id")
        call = _CALLS.get(kind)
        if call is None:
            called.add((kind, id))
        elif (call, id) not in called:
            yield Finding(f"{path}.call_id", id, name=id)


def calls_without_result(facts: RequestFacts) -> Iterator[Finding]:
    """Yield client tool calls without a result."""
    if _has_state(facts):
        return
    answered = {
        (_CALLS[kind], string_of(item, "call_id"))
        for _, item in _items(facts)
        if (kind := string_of(item, "type")) in _CALLS
    }
    for path, item in _items(facts):
        call = string_of(item, "type"), string_of(item, "call_id")
        if call[0] in _CALLS.values() and call not in answered and not item.get("async"):
            yield Finding(path, call[1], name=call[1])


def calls_without_namespace(facts: RequestFacts) -> Iterator[Finding]:
    """Yield calls that lack the `namespace` of their tool."""
    plain, grouped = set[str](), set[str]()
    for _, tool in objects_at(facts.body.get("tools"), "tools"):
        if tool.get("type") == "namespace":
            grouped |= {string_of(inner, "name") for _, inner in objects_at(tool.get("tools"), "")}
        else:
            plain.add(string_of(tool, "name"))
    for path, item in _items(facts):
        name, is_call = string_of(item, "name"), item.get("type") in _CALLS.values()
        if is_call and name in grouped - plain and not item.get("namespace"):
            yield Finding(f"{path}.namespace", name=name)


def unknown_choices(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `tool_choice` if it names a tool that is not in `tools`."""
    choice = facts.body.get("tool_choice")
    if not is_object(choice):
        return
    offered = [tool for _, tool in objects_at(facts.body.get("tools"), "tools")]
    for _, item in _items(facts, "additional_tools"):
        offered += [tool for _, tool in objects_at(item.get("tools"), "")]
    chosen = [("tool_choice", choice)]
    if choice.get("type") == "allowed_tools":
        chosen = list(objects_at(choice.get("tools"), "tool_choice.tools"))
    for path, tool in chosen:
        kind = string_of(tool, "type")
        label = "server_label" if kind == "mcp" else "name"
        if not any(_is_chosen(tool, other, label, facts.server) for other in offered):
            name = string_of(tool, label) if kind in ("function", "custom", "mcp") else kind
            yield Finding(path, name, name=name)


def _is_chosen(
    chosen: dict[str, Any], tool: dict[str, Any], label: str, server: str | None
) -> bool:
    kind, other = string_of(chosen, "type"), string_of(tool, "type")
    if kind in ("function", "custom") and other == "namespace":
        inner = [tool for _, tool in objects_at(tool.get("tools"), "")]
        return any(_is_chosen(chosen, one, label, server) for one in inner)
    if kind in ("function", "custom", "mcp"):
        return kind == other and chosen.get(label) == tool.get(label)
    if kind in _SEARCHES and server != "chatgpt":
        return other in _SEARCHES
    return kind == other


def undescribed_searches(facts: RequestFacts) -> Iterator[Finding]:
    """Yield client-executed tool searches without a description."""
    for path, tool in objects_at(facts.body.get("tools"), "tools"):
        is_client = tool.get("type") == "tool_search" and tool.get("execution") == "client"
        if is_client and not tool.get("description"):
            yield Finding(f"{path}.description", name="description")


# Reasoning


def unverifiable_reasoning(facts: RequestFacts) -> Iterator[Finding]:
    """Yield reasoning whose `encrypted_content` streamnorm has tagged or whose id it has minted."""
    for path, item in _items(facts, "reasoning"):
        encrypted, id = string_of(item, "encrypted_content"), string_of(item, "id")
        if _TAG.match(encrypted) or (encrypted and _MINTED_ID.match(id)):
            yield Finding(path, id, name=id)


def reasoning_alone(facts: RequestFacts) -> Iterator[Finding]:
    """Yield reasoning items that no other item of the same answer follows."""
    waiting: list[tuple[str, dict[str, Any]]] = []
    for path, item in _items(facts):
        if _kind(item) == "reasoning":
            waiting.append((path, item))
            continue
        if not _is_answer(item):
            yield from map(_reasoning_finding, waiting)
        waiting.clear()
    yield from map(_reasoning_finding, waiting)


def _is_answer(item: dict[str, Any]) -> bool:
    """Return whether an item may be part of the model's answer."""
    kind = _kind(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return not isinstance(kind, str) or not (kind in _CLIENT_ITEMS or kind.endswith("_call_output"))


def _reasoning_finding(reasoning: tuple[str, dict[str, Any]]) -> Finding:
    path, item = reasoning
    id = string_of(item, "id")
    return Finding(path, id, name=id)


def reasoning_not_stored(facts: RequestFacts) -> Iterator[Finding]:
    """Yield reasoning without `encrypted_content` in a request with `store` false."""
    if facts.body.get("store") is not False:
        return
    for path, item in _items(facts, "reasoning"):
        id = string_of(item, "id")
        if id and not item.get("encrypted_content"):
            yield Finding(path, id, name=id)


# Servers other than the vendor's API


def incomplete_answers(facts: RequestFacts) -> Iterator[Finding]:
    """Yield missing fields of assistant messages with output text."""
    for path, item in _messages(facts):
        if item.get("role") != "assistant":
            continue
        parts = list(objects_at(item.get("content"), f"{path}.content"))
        texts = [(place, part) for place, part in parts if part.get("type") == "output_text"]
        for name in ("id", "status") if texts else ():
            if not item.get(name):
                yield Finding(f"{path}.{name}", name=name)
        for place, part in texts:
            if part.get("annotations") is None:
                yield Finding(f"{place}.annotations", name="annotations")


def stored_answers(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `store` if it is not false."""
    if facts.body.get("store") is not False:
        yield Finding("store", facts.body.get("store"))


def whole_answers(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `stream` if it is not true."""
    if facts.body.get("stream") is not True:
        yield Finding("stream", facts.body.get("stream"))


_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        calls_without_namespace,
        calls_without_result,
        incomplete_answers,
        parts_of_assistant,
        parts_of_others,
        reasoning_alone,
        reasoning_not_stored,
        results_of_no_call,
        stored_answers,
        undescribed_searches,
        unknown_choices,
        unknown_message_fields,
        unknown_part_fields,
        unverifiable_reasoning,
        whole_answers,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return all request checks of Responses by name."""
    return _CHECKS
