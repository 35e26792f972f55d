"""Half of a surrogate pair in a request never leaves: it is U+FFFD, and nothing else changes.

Anthropic, Gemini and Cerebras refuse a body that has one (anthropics/claude-code#60394,
vertesia/llumiverse#462).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.bodies.legal_targets import TARGETS, Target

from streamnorm import EncodeError, translate_request

_CALL_ID = "call_{0}"


def _chat(half: str) -> dict[str, Any]:
    arguments = json.dumps({"path": f"a{half}b"}, ensure_ascii=False)
    call = {
        "id": _CALL_ID.format(half),
        "type": "function",
        "function": {"name": "read", "arguments": arguments},
    }
    parameters = {"type": "object", "properties": {"path": {"description": half}}}
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": f"Be brief.{half}"},
            {"role": "user", "content": f"{half}What is in it?"},
            {"role": "assistant", "content": f"Let me see {half}", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": _CALL_ID.format(half), "content": f"cut {half}"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "read", "description": half, "parameters": parameters},
            }
        ],
        "stop": [half],
        "user": f"ann{half}",
        "metadata": {half: half},
    }


def _anthropic(half: str) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "t_1", "name": "read", "input": {"path": f"a{half}b"}}
    result = {"type": "tool_result", "tool_use_id": "t_1", "content": f"cut {half}"}
    return {
        "model": "m",
        "max_tokens": 99,
        "system": f"Be brief.{half}",
        "messages": [
            {"role": "user", "content": f"{half}What is in it?"},
            {"role": "assistant", "content": [{"type": "text", "text": f"See {half}"}, use]},
            {"role": "user", "content": [result]},
        ],
        "tools": [{"name": "read", "description": half, "input_schema": {"type": "object"}}],
    }


@pytest.mark.parametrize("half", ["\ud83d", "\ude00\ud83d"])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_half_a_character_is_replaced_and_nothing_else(target: Target, half: str) -> None:
    for dialect, body_of in (("openai_chat", _chat), ("anthropic", _anthropic)):
        bodies: list[Any] = []
        for text in (half, "\ufffd" * len(half)):
            body = {**body_of(text), "model": target.model}
            for form in (body, json.dumps(body)):
                try:
                    made = translate_request(
                        form, dialect=dialect, to=target.dialect, server=target.server
                    )
                except EncodeError as exc:
                    bodies.append(exc.path)
                    continue
                json.dumps(made.body, ensure_ascii=False).encode()
                bodies.append(made.body)
        assert bodies == bodies[:1] * 4
