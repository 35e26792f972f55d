"""A request to a named server of its own dialect is changed where that refuses it, not elsewhere.

To the vendor itself, and to a server that nobody knows, it passes as it is.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from msgspec import structs
from support.bodies.legal_targets import TARGETS, Target, violations_of
from support.bodies.request_corpus import RealRequest, needs_requests, real_requests, share_of

from streamnorm import DecodeError, Encoded, EncodeError, decode_request, encode_request
from streamnorm._upstream.requests import splice
from streamnorm.profiles import shipped_profiles

# Servers that run the models of the dialect's vendor, whose rules are those of the vendor.
_NAMED = [
    target
    for target in TARGETS
    if target.dialect in ("openai_chat", "anthropic")
    and target.server is not None
    and shipped_profiles().knows(target.server, target.dialect)
    and not shipped_profiles().runs_vendor_models(target.server, target.dialect)
]
# Fields of the body that a loss of another name is about.
_FIELDS = {
    "allowed_tools_filtered": {"tools", "tool_choice"},
    "effort_changed": {"output_config", "reasoning", "reasoning_effort", "thinking"},
    "json_mode_dropped": {"response_format"},
    "schema_dropped": {"response_format"},
    "stop_dropped": {"stop", "stop_sequences"},
    "system_moved": {"messages", "system"},
    "temperature_clamped": {"temperature"},
    "tool_choice_weakened": {"tools", "tool_choice"},
    "user_hashed": {"user"},
    "max_completion_tokens": {"max_tokens", "max_completion_tokens"},
    "seed": {"seed", "random_seed"},
    "type": {"response_format"},
    "reasoning": {"enable_thinking", "reasoning_effort", "thinking", "thinking_budget"},
}


class Sent(NamedTuple):
    """What a server is sent of a real request.

    Attributes:
        body: The body that it was made of, with the server's model.
        encoded: What is sent.
    """

    body: dict[str, Any]
    encoded: Encoded


def sent(real: RealRequest, target: Target) -> Sent | None:
    """Return a real request for a target; None if it is none of its dialect, or has no form."""
    body = {**real.body, "model": target.model}
    try:
        request = decode_request(body, real.dialect, path=real.path, headers=real.headers)
        made = encode_request(request, target.dialect, server=target.server)
    except (DecodeError, EncodeError):
        return None
    return Sent(body, made)


def named_fields(encoded: Encoded) -> set[str]:
    """Return the fields of a body that its losses are about."""
    fields: set[str] = set()
    for loss in encoded.losses:
        fields |= {loss.feature, loss.where} | _FIELDS.get(loss.feature, set())
    return fields


def with_root_types(tools: Any) -> Any:
    """Return tools whose schemas all have a type, as Kimi demands; arguments are objects anyway."""
    if not isinstance(tools, list):
        return tools
    typed: list[Any] = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        parameters = function.get("parameters") if isinstance(function, dict) else None
        if isinstance(parameters, dict):
            root = {"type": "object", **parameters}
            typed.append({**tool, "function": {**function, "parameters": root}})
        else:
            typed.append(tool)
    return typed


@needs_requests
@pytest.mark.parametrize("target", _NAMED, ids=str)
def test_real_request_is_changed_where_its_server_refuses_it(target: Target) -> None:
    for real in share_of(real_requests(target.dialect), _NAMED.index(target), shares=6):
        found = sent(real, target)
        if found is None:
            continue
        body, encoded = found
        assert violations_of(encoded, target) == [], real.name
        names = body.keys() | encoded.body.keys()
        changed = {name for name in names if body.get(name) != encoded.body.get(name)}
        if with_root_types(body.get("tools")) == with_root_types(encoded.body.get("tools")):
            changed.discard("tools")
        assert changed <= named_fields(encoded), real.name
        if not violations_of(structs.replace(encoded, body=body), target):
            assert changed == set(), real.name
            data = json.dumps(body, indent=1).encode()
            assert splice(data, body, encoded.body) == data


@needs_requests
@pytest.mark.parametrize("server", [None, "nobody-knows-it"])
@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "openai_chat", "openai_responses"])
def test_real_request_passes_to_its_vendor_as_it_is(dialect: str, server: str | None) -> None:
    for real in real_requests(dialect):
        try:
            request = decode_request(real.body, dialect, path=real.path, headers=real.headers)
        except DecodeError:
            continue
        made = encode_request(request, dialect, server=server)
        assert (made.body, made.losses) == (real.body, ()), real.name
