"""What a request loses is named: without a loss, all that it said arrives.

The other laws compare with the projection, which this one does not trust.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import structs
from support.bodies.checks import BODIES
from support.bodies.request_equality import same
from support.bodies.request_strategies import make_request
from support.draws import Draws, draws

from streamnorm import (
    EncodeError,
    InputBlock,
    InputMessage,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    decode_request,
    encode_request,
)

_LONG_OR_DIGEST = re.compile(r".{41,}|[0-9a-f]{24}", re.DOTALL)
_ALWAYS = ("model", "messages", "max_tokens")  # the last of which Anthropic demands
_INSTRUCTIONS = ("system", "developer")


def small_request(d: Draws) -> Request:
    """Return a request of few parts, of which none may be lost."""
    full = make_request(d)
    names = [name for name in full.__struct_fields__ if name not in _ALWAYS]
    kept: dict[str, Any] = {name: getattr(full, name) for name in d.some(2, lambda: d.pick(names))}
    if kept.get("tool_choice") is not None:
        kept["tools"] = full.tools
    return Request(model="m", messages=_without_wrapped_calls(full), max_tokens=5, **kept)


def _without_wrapped_calls(request: Request) -> tuple[InputMessage, ...]:
    """Return messages up to the first call that is written otherwise where its tool is."""
    kept: list[InputMessage] = []
    for message in request.messages[:6]:
        if any(call.kind == "custom" or call.namespace for call in message.tool_calls):
            break
        kept.append(message)
    return tuple(kept)


def meaning(request: Request, dialect: str) -> Request:
    """Return a request without what the mapping writes elsewhere or otherwise, which is no loss.

    Instructions stand in a field or in messages; reasoning is asked for by an effort or a budget,
    the end user is named in one of two fields, and the provider's own mark may be the default.
    """
    request = same(request, dialect)
    leading = 0
    while leading < len(request.messages) and request.messages[leading].role in _INSTRUCTIONS:
        leading += 1
    told = (*request.system, *(b for m in request.messages[:leading] for b in m.blocks))
    texts = "".join(block.text for block in told if isinstance(block, Text))
    marks = [block.cache for block in told if block.cache is not None]
    ids: dict[str, str] = {}
    messages = tuple(_with_short_ids(message, ids) for message in request.messages[leading:])
    return structs.replace(
        request,
        system=(Text(texts, extra={"marks": {str(marks): len(told) > 0}}),),
        messages=messages,
        tools=tuple(
            _with_properties(tool) if isinstance(tool, Tool) else tool for tool in request.tools
        ),
        reasoning=None,
        user=request.user or request.safety_identifier,
        safety_identifier=None,
        cache=None,
    )


def _with_properties(tool: Tool) -> Tool:
    """Return a tool whose schema names its properties, be they none, as OpenAI demands."""
    schema = tool.input_schema
    if schema == {"type": "object"}:
        schema = {**schema, "properties": {}}
    return structs.replace(tool, vendor_type=None, input_schema=schema)


def _with_short_ids(message: InputMessage, ids: dict[str, str]) -> InputMessage:
    """Return a message in the role of the target, its ids that are too long numbered.

    For one that is too long a digest is written: the client still has its own, and the model
    needs it only to tell calls apart.
    """

    def short(id: str) -> str:
        return ids.setdefault(id, f"call {len(ids)}") if _LONG_OR_DIGEST.fullmatch(id) else id

    blocks: list[InputBlock] = []
    for block in message.blocks:
        if isinstance(block, ToolCall):
            block = structs.replace(block, id=short(block.id))
        elif isinstance(block, ToolResult):
            block = structs.replace(block, tool_call_id=short(block.tool_call_id))
        blocks.append(block)
    role = "system" if message.role == "developer" else message.role
    return structs.replace(message, role=role, blocks=tuple(blocks))


@pytest.mark.parametrize("dialect", BODIES)
@settings(max_examples=3 * settings().max_examples)
@given(d=draws(250))
def test_request_without_a_loss_says_all_that_it_said(dialect: str, d: Draws) -> None:
    request = small_request(d)
    try:
        made = encode_request(request, dialect)
    except EncodeError:
        return
    if made.losses:
        return
    back = decode_request(
        json.loads(json.dumps(made.body)), dialect, path=made.path, headers=made.headers
    )
    assert meaning(back, dialect) == meaning(request, dialect)
