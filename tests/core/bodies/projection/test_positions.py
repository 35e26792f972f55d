"""Paths in errors: those of the request that is encoded, whatever its projection moves."""

from __future__ import annotations

import pytest

from streamnorm import (
    EncodeError,
    Image,
    InputMessage,
    Request,
    Text,
    ToolCall,
    ToolResult,
    encode_request,
)
from streamnorm._core.bodies.projection.positions import path_before

USER = InputMessage("user", (Text("Hi."),))
CALLS = InputMessage("assistant", (ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))
RESULTS = [InputMessage("user", (ToolResult(id, (Text("1"),)),)) for id in "ab"]
SHOWN = InputMessage("user", (Text("Look."), Image("image/png", data="@@")))
TARGETS = ["anthropic", "bedrock_converse", "gemini", "gemini_interactions", "openai_chat"]


def path_of_error(request: Request, target: str) -> str:
    with pytest.raises(EncodeError) as raised:
        encode_request(request, target)
    return raised.value.path


@pytest.mark.parametrize("target", TARGETS)
def test_path_behind_results_that_are_joined(target: str) -> None:
    request = Request(model="m", messages=(USER, CALLS, *RESULTS, SHOWN))
    assert path_of_error(request, target) == "messages[4].blocks[1]"


@pytest.mark.parametrize("target", TARGETS)
def test_path_of_a_result_that_is_joined(target: str) -> None:
    shown = InputMessage("user", (ToolResult("b", SHOWN.blocks),))
    request = Request(model="m", messages=(USER, CALLS, RESULTS[0], shown, USER))
    assert path_of_error(request, target).startswith("messages[3].blocks[0]")


@pytest.mark.parametrize("target", ["anthropic", "bedrock_converse", "gemini"])
def test_path_behind_a_system_message_that_becomes_a_field(target: str) -> None:
    called = InputMessage("assistant", (Text("So."), ToolCall("a", "f", "[1")))
    system = InputMessage("system", (Text("Be brief."),))
    request = Request(model="m", messages=(system, USER, called, RESULTS[0]))
    assert path_of_error(request, target) == "messages[2].blocks[1]"


def test_path_of_a_block_that_was_changed_is_that_of_its_message() -> None:
    changed = InputMessage("user", (Text("Look!"), SHOWN.blocks[1]))
    assert (
        path_before("messages[0].blocks[0]", (changed,), (USER, SHOWN)) == "messages[1].blocks[0]"
    )
    assert (
        path_before("messages[0].blocks[9]", (changed,), (USER, SHOWN)) == "messages[1].blocks[9]"
    )


def test_path_that_stands_nowhere_before_stays() -> None:
    made = InputMessage("user", (Text("new"),))
    for path in ("messages[0].blocks[0]", "messages[0]", "messages[7]", "tools[0]"):
        assert path_before(path, (made,), (USER, SHOWN)) == path
