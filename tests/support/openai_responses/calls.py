"""Random calls and results of Responses streams, of client and server tools."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Block, ServerToolCall, ServerToolResult, ToolCall
from support.draws import Draws
from support.openai_responses.steps import (
    GeneratedItem,
    ItemStyle,
    Payload,
    Step,
    added,
    begun,
    compact,
    deltas,
    done,
    extra_of,
    id_of,
    opaque,
)

__all__ = ["make_custom", "make_function", "make_result", "make_served", "make_unknown"]


_PLAIN: tuple[dict[str, Any], ...] = ({}, {"a": [{"b": 1}, 2.5]})


def _arguments(d: Draws, style: ItemStyle) -> str:
    value: Any = {d.text(0, 3): d.pick((d.text(0, 6), 1, None, [d.text()])) for _ in range(3)}
    value = d.pick((value, *_PLAIN))
    text = json.dumps(value, ensure_ascii=d.flag(), indent=d.pick((None, None, 1)))
    if style.cut_off and d.flag():
        return text[: 1 + d.below(len(text) - 1)]
    return d.pick((text, text, ""))


def _beside(d: Draws) -> dict[str, Any]:
    return d.pick(({}, {}, {"caller": {"type": "direct"}}))


def _namespace(d: Draws) -> dict[str, Any]:
    return d.pick(({}, {}, {"namespace": "n"}))


def make_function(d: Draws, number: int, style: ItemStyle) -> GeneratedItem:
    """Return a function call."""
    text = _arguments(d, style)
    call = _call("function_call", d.pick((f"call_{number}", f"functions.f:{number}")), "find")
    beside, space = _beside(d), _namespace(d)
    whole = {
        **id_of(style, "fc", number),
        **call,
        "arguments": text,
        **beside,
        **space,
        "status": "completed",
    }
    steps = [added(whole, arguments=d.pick(("", "", text)))]
    steps += deltas(d, style, "function_call_arguments", text, {})
    if style.dones:
        steps.append(Step({"type": "response.function_call_arguments.done", "arguments": text}))
    block = ToolCall(call["call_id"], "find", text, **space)
    return begun([*steps, done(whole)], (block, extra_of(whole, **beside)), late=d.flag(8))


def make_custom(d: Draws, number: int, style: ItemStyle) -> GeneratedItem:
    """Return a custom tool call, of a client or server tool."""
    text, name, beside = d.text(0, 8), d.pick(("sing", "search")), _beside(d)
    served = style.tools is not None and name not in style.tools  # xAI calls its own searches so
    call = _call("custom_tool_call", f"call_{number}", name)
    space = {} if served else _namespace(d)
    ended = {**beside, **space, "status": "completed"}
    whole = {**id_of(style, "ctc", number), **call, "input": text, **ended}
    kind = "response.custom_tool_call_input"
    pieces = deltas(d, style, "custom_tool_call_input", text, {})
    if served:  # and their input comes at once
        pieces = [Step({"type": f"{kind}.delta", "delta": text})] if text else []
    steps = [added(whole, input=""), *pieces]
    if style.dones:
        steps.append(Step({"type": f"{kind}.done", "input": text}))
    steps.append(done(whole))
    if served:
        return begun(steps, (_server_call(whole, name), None))
    block = ToolCall(call["call_id"], name, text, kind="custom", **space)
    late = style.tools is None and d.flag(8)
    return begun(steps, (block, extra_of(whole, **beside)), late=late)


def _call(type: str, call_id: str, name: str) -> Payload:
    return {"type": type, "call_id": call_id, "name": name}


_SERVED: tuple[tuple[Payload, tuple[Payload, ...]], ...] = (
    (
        {"type": "web_search_call", "action": {"type": "search", "query": "é", "sources": []}},
        (
            {"type": "response.web_search_call.in_progress"},
            {"type": "response.web_search_call.searching"},
            {"type": "response.web_search_call.completed"},
        ),
    ),
    (
        {"type": "mcp_call", "server_label": "m", "name": "ask", "arguments": '{"a": 1}'},
        (
            {"type": "response.mcp_call.in_progress"},
            {"type": "response.mcp_call_arguments.delta", "delta": '{"a": 1}'},
            {"type": "response.mcp_call_arguments.done", "arguments": '{"a": 1}'},
        ),
    ),
    (
        {"type": "code_interpreter_call", "container_id": "c", "code": "1\n", "outputs": None},
        (
            {"type": "response.code_interpreter_call_code.delta", "delta": "1\n"},
            {"type": "response.code_interpreter_call_code.done", "code": "1\n"},
        ),
    ),
    ({"type": "mcp_list_tools", "server_label": "m", "tools": [{"name": "ask"}]}, ()),
    (
        {"type": "computer_call", "call_id": "", "action": {"type": "wait"}}
        | {"pending_safety_checks": []},
        (),
    ),
    (
        {"type": "compaction", "encrypted_content": "gAAAAAy"},
        ({"type": "response.compaction.compacting"},),
    ),
)


def make_served(d: Draws, number: int, style: ItemStyle) -> GeneratedItem:
    """Return a server-side call."""
    given, progress = d.pick(_SERVED)
    if "call_id" in given:
        given = {**given, "call_id": f"call_{number}"}
    status = {"status": d.pick(("completed", "completed", "failed"))}
    whole: Payload = {**id_of(style, "srv", number), **given, **status}
    named: Payload = {key: given[key] for key in ("type", "call_id", "name") if key in given}
    steps = [added({**id_of(style, "srv", number), **named})]
    steps += [Step(payload) for payload in progress]
    call = _server_call(whole, str(given.get("name", given["type"])))
    return begun([*steps, done(whole)], (call, None))


def _server_call(whole: Payload, name: str) -> ServerToolCall:
    """Return a call whose arguments are its item's remaining fields."""
    hidden = ("id", "type", "status") if whole["status"] == "completed" else ("id", "type")
    held = {key: value for key, value in whole.items() if key not in hidden}
    return ServerToolCall(whole.get("id", ""), name, compact(held), whole["type"])


def make_result(d: Draws, number: int, style: ItemStyle) -> GeneratedItem:
    """Return a server-side call's result."""
    id, words = f"call_s{number}", [{"type": "input_text", "text": "é"}]
    options: tuple[tuple[str, Any], ...] = (
        ("function_call_output", d.pick(("ok", words))),
        ("shell_call_output", []),
        ("computer_call_output", {"type": "computer_screenshot", "image_url": "https://i"}),
    )
    kind, output = d.pick(options)
    whole = {**id_of(style, "out", number), "type": kind, "call_id": id, "output": output}
    whole["status"] = "completed"
    return _whole(whole, ServerToolResult(id, kind, whole))


def make_unknown(d: Draws, number: int, style: ItemStyle) -> GeneratedItem:
    """Return an item of an unknown type."""
    whole = {**id_of(style, "new", number), "type": "sketch", "lines": [d.text(), {"é": None}]}
    return _whole(whole, opaque(whole))


def _whole(whole: Payload, block: Block) -> GeneratedItem:
    """Return an item whose block starts only when it is complete."""
    last = done(whole)
    last.begins.append((block, None))
    return GeneratedItem([added(whole), last], whole, last.begins)
