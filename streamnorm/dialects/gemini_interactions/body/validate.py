"""Checks of a request against the rules of the Interactions API.

google-genai 3.6.1, `_gaos/types/interactions` (read 2026-11-27), and what the vendor's
documentation of the steps demands.

A check shares no code with the encoders and accepts any JSON: other rules report values of a
wrong type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.json import is_array, is_object, objects_at

_CONTENTS = frozenset({"text", "image", "audio", "video", "document"})
_STEPS = frozenset(
    {"user_input", "model_output", "thought", "function_call", "function_result"}
    | {
        f"{tool}_{end}"
        for tool in (
            *("code_execution", "file_search", "google_maps", "google_search"),
            *("mcp_server_tool", "processing", "retrieval", "tool_search", "url_context"),
        )
        for end in ("call", "result")
    }
)
_STATE = ("previous_interaction_id", "cached_content", "continuation_token")


def _entries_of(facts: RequestFacts) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the steps or contents of `input` that are objects, each with its path."""
    return objects_at(facts.body.get("input"), "input")


def _named_models(body: dict[str, Any]) -> bool:
    return any(isinstance(body.get(name), str) for name in ("model", "agent"))


def missing_model(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `model` if the request names neither a model nor an agent."""
    if not _named_models(facts.body):
        yield Finding("model")


def missing_input(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `input` if it is missing or empty and the request continues no interaction."""
    value = facts.body.get("input")
    is_empty = value is None or value == [] or value == ""
    if is_empty and all(facts.body.get(name) is None for name in _STATE):
        yield Finding("input")


def entry_types(facts: RequestFacts) -> Iterator[Finding]:
    """Yield steps and contents of an unknown type."""
    for path, entry in _entries_of(facts):
        kind = entry.get("type")
        if not isinstance(kind, str) or kind not in _CONTENTS | _STEPS:
            yield Finding(f"{path}.type", kind)


def call_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield calls without id, name or arguments object, and results without a call id."""
    for path, entry in _entries_of(facts):
        if entry.get("type") == "function_call":
            for name in ("id", "name"):
                if not isinstance(entry.get(name), str) or not entry[name]:
                    yield Finding(f"{path}.{name}", name=name)
            if not is_object(entry.get("arguments")):
                yield Finding(f"{path}.arguments", name="arguments")
        elif entry.get("type") == "function_result":
            if not isinstance(entry.get("call_id"), str) or not entry["call_id"]:
                yield Finding(f"{path}.call_id", name="call_id")
            if not isinstance(entry.get("result"), str | list | dict):
                yield Finding(f"{path}.result", name="result")


def unknown_calls(facts: RequestFacts) -> Iterator[Finding]:
    """Yield results without their call in `input`, if the request continues no interaction."""
    if any(facts.body.get(name) is not None for name in _STATE):
        return
    called: set[str] = set()
    for path, entry in _entries_of(facts):
        id = entry.get("id") if entry.get("type") == "function_call" else entry.get("call_id")
        if not isinstance(id, str):
            continue
        if entry.get("type") == "function_call":
            called.add(id)
        elif entry.get("type") == "function_result" and id not in called:
            yield Finding(f"{path}.call_id", id)


def function_names(facts: RequestFacts) -> Iterator[Finding]:
    """Yield functions without a name, or with the name of an earlier function."""
    seen: set[str] = set()
    for path, tool in objects_at(facts.body.get("tools"), "tools"):
        if tool.get("type") != "function":
            continue
        name = tool.get("name")
        if not isinstance(name, str) or name in seen or not name:
            yield Finding(f"{path}.name", name)
        else:
            seen.add(name)


def allowed_names(facts: RequestFacts) -> Iterator[Finding]:
    """Yield tool names in the tool choice that no tool of the request has."""
    options = facts.body.get("generation_config")
    choice = options.get("tool_choice") if is_object(options) else None
    allowed = choice.get("allowed_tools") if is_object(choice) else None
    names = allowed.get("tools") if is_object(allowed) else None
    offered = [tool.get("name") for _, tool in objects_at(facts.body.get("tools"), "tools")]
    known = {name for name in offered if isinstance(name, str)}
    for number, name in enumerate(names if is_array(names) else ()):
        if isinstance(name, str) and name not in known:
            yield Finding(f"generation_config.tool_choice.allowed_tools.tools[{number}]", name)


_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        allowed_names,
        call_fields,
        entry_types,
        function_names,
        missing_input,
        missing_model,
        unknown_calls,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return all request checks of the Interactions API by name."""
    return _CHECKS
