"""Adaptation of same-dialect bodies to the checks of Anthropic's servers.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).  A body whose dialect is the
server's passes unchanged, except for what `fit_body` changes for a server that applies
Anthropic's checks.  Each change is counted as a loss.
"""

from __future__ import annotations

import re
from operator import is_
from typing import Any

from streamnorm._core.blocks import ToolCall
from streamnorm._core.bodies.tool_calls import fill_error
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import compact, is_array, is_object, objects_of, string_of
from streamnorm._core.text import escape_id
from streamnorm.dialects.anthropic.content import CALL_TYPES

_Body = dict[str, Any]

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_CLEARING = "clear_thinking_"


def fit_body(body: _Body, context: WriteContext) -> _Body:
    """Return a body that passes Anthropic's checks, if the server applies these checks.

    Raises:
        EncodeError: A part has no legal form.
    """
    if not (context.named and context.capabilities.vendor_checks):
        return body
    body = _fit_messages(body, context)
    body = _fit_tools(body, context)
    return drop_clearing_edits(body, context)


# Messages


def _fit_messages(body: _Body, context: WriteContext) -> _Body:
    before = body.get("messages")
    if not is_array(before):
        return body
    after = [
        _fit_message(message, context, f"messages[{number}]", is_last=number == len(before) - 1)
        for number, message in enumerate(before)
    ]
    return body if all(map(is_, before, after)) else {**body, "messages": after}


def _fit_message(message: _Body, context: WriteContext, path: str, *, is_last: bool) -> _Body:
    content = message.get("content")
    is_prefill = is_last and message.get("role") == "assistant"
    if isinstance(content, str):
        after = _strip_end(content, context) if is_prefill else content
        return message if after == content else {**message, "content": after}
    before = objects_of(content)
    blocks = [
        _fit_block(block, context, f"{path}.blocks[{number}]")
        for number, block in enumerate(before)
    ]
    if is_prefill and blocks and blocks[-1].get("type") == "text":
        text = string_of(blocks[-1], "text")
        stripped = _strip_end(text, context)
        if stripped != text:
            blocks[-1] = {**blocks[-1], "text": stripped}
    return message if all(map(is_, before, blocks)) else {**message, "content": blocks}


def _strip_end(text: str, context: WriteContext) -> str:
    """Return a prefill's text without trailing white space, which the API refuses."""
    stripped = text.rstrip()
    if stripped != text:
        context.losses.add("trailing_white_space", "messages", "stripped")
    return stripped


def _fit_block(block: _Body, context: WriteContext, path: str) -> _Body:
    kind = block.get("type")
    if kind in CALL_TYPES:
        block = _fit_call(block, context, path)
    elif kind == "tool_result":
        if block.get("is_error") is True and block.get("content") in (None, "", []):
            block = {**block, "content": fill_error(context.losses)}
        elif block.get("content") == []:  # refused, while a missing content is accepted
            block = {name: value for name, value in block.items() if name != "content"}
        block = _fit_id(block, "tool_use_id", context)
    return block


def _fit_call(block: _Body, context: WriteContext, path: str) -> _Body:
    """Return a call whose input is an object, as the API requires (anthropics/claude-code#6695)."""
    value = block.get("input")
    if not is_object(value):
        text = value if isinstance(value, str) else "" if value is None else compact(value)
        call = ToolCall(string_of(block, "id"), string_of(block, "name"), text)
        context.losses.add("tool_input", "messages", "written as an object")
        block = {**block, "input": context.arguments_of(call, path)}
    return _fit_id(block, "id", context) if block["type"] == "tool_use" else block


def _fit_id(block: _Body, field: str, context: WriteContext) -> _Body:
    """Return a block whose id has only letters, digits, `_` and `-`, as the API requires."""
    id = string_of(block, field)
    if _LEGAL_ID.fullmatch(id):
        return block
    context.losses.add("tool_id_changed", "messages", "written in the server's characters")
    return {**block, field: escape_id(id)}


# Tools and options


def _fit_tools(body: _Body, context: WriteContext) -> _Body:
    """Return a body with at least one non-deferred tool, as the API requires.

    Raises:
        EncodeError: Two tools have the same name, which no change can repair.
    """
    tools = objects_of(body.get("tools"))
    names: set[str] = set()
    for number, tool in enumerate(tools):
        name = string_of(tool, "name")  # "" for a toolset, which has no name
        if name and name in names:
            problem = "name of another tool, expected one of its own"
            raise EncodeError(problem, path=f"tools[{number}]")
        names.add(name)
    if not tools or any(tool.get("defer_loading") is not True for tool in tools):
        return body
    context.losses.add("deferred_tool_loaded", "tools", "offered from the start")
    loaded = [
        {name: value for name, value in tool.items() if name != "defer_loading"} for tool in tools
    ]
    return {**body, "tools": loaded}


def drop_clearing_edits(body: _Body, context: WriteContext) -> _Body:
    """Return a body without `clear_thinking_…` edits if thinking is off.

    The API refuses them then: "`clear_thinking_20251015` strategy requires `thinking` to be
    enabled or adaptive" (anthropics/claude-code#11971).
    """
    management = body.get("context_management")
    edits = management.get("edits") if is_object(management) else None
    if not is_object(management) or not is_array(edits) or _thinks(body, context):
        return body
    kept = [edit for edit in edits if not _clears_thinking(edit)]
    if len(kept) == len(edits):
        return body
    context.losses.add("context_management", "request", "no thinking to clear")
    if kept:
        return {**body, "context_management": {**management, "edits": kept}}
    return {name: value for name, value in body.items() if name != "context_management"}


def _thinks(body: _Body, context: WriteContext) -> bool:
    thinking = body.get("thinking")
    if not is_object(thinking):
        return context.capabilities.reasons_by_default
    return thinking.get("type") != "disabled"


def _clears_thinking(edit: object) -> bool:
    return is_object(edit) and str(edit.get("type")).startswith(_CLEARING)
