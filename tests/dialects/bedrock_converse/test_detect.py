"""Detection of Converse, and its HTTP interface."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import detect
from streamnorm._registry import DIALECTS
from streamnorm.sse import Frame

CONVERSE = DIALECTS["bedrock_converse"]
SAID = {"role": "user", "content": [{"text": "Hi"}]}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("messageStart", "bedrock_converse"),
        ("contentBlockDelta", "bedrock_converse"),
        ("metadata", "bedrock_converse"),
        ("message", None),
    ],
)
def test_frame_is_recognised_by_its_name(name: str, found: str | None) -> None:
    assert detect(Frame(name, "{}")) == found


def test_stop_is_the_terminal() -> None:
    assert CONVERSE.is_terminal(Frame("messageStop", "{}"))
    assert not CONVERSE.is_terminal(Frame("metadata", "{}"))


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [SAID]},
        {"messages": [], "inferenceConfig": {"maxTokens": 5}},
        {
            "messages": [
                {"role": "user", "content": [{"text": "a"}, {"cachePoint": {"type": "default"}}]}
            ]
        },
        {"messages": [{"role": "assistant", "content": [{"toolUse": {}}]}]},
    ],
)
def test_request_is_recognised(body: dict[str, Any]) -> None:
    assert CONVERSE.is_request(body)
    assert detect(body) == "bedrock_converse"


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "messages": [SAID]},
        {"inferenceConfig": {}},
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image", "image": {}}]}]},
    ],
)
def test_other_request_is_not(body: dict[str, Any]) -> None:
    assert not CONVERSE.is_request(body)


def test_response_is_recognised() -> None:
    body = {"output": {"message": SAID}, "stopReason": "end_turn"}
    assert detect(body) == "bedrock_converse"
    for other in ({"output": {}}, {"output": {"message": {}}}, {"output": [], "stopReason": "x"}):
        assert not CONVERSE.is_response(other)


@pytest.mark.parametrize(
    ("path", "operation", "model"),
    [
        ("/model/anthropic.claude-3:0/converse", "message", "anthropic.claude-3:0"),
        ("/model/us.amazon.nova-lite-v1:0/converse-stream", "stream", "us.amazon.nova-lite-v1:0"),
        (
            "/x/model/arn:aws:bedrock:us-east-1:1:inference-profile/p/converse-stream",
            "stream",
            "arn:aws:bedrock:us-east-1:1:inference-profile/p",
        ),
        ("/model/m/count-tokens", "count", "m"),
    ],
)
def test_path_names_operation_and_model(path: str, operation: str, model: str) -> None:
    asked = CONVERSE.endpoints.match("POST", path, {})
    assert asked is not None
    assert (asked.operation, asked.model) == (operation, model)


@pytest.mark.parametrize("path", ["/model/converse", "/model/m/invoke", "/v1/messages"])
def test_other_path_is_not_of_converse(path: str) -> None:
    assert CONVERSE.endpoints.match("POST", path) is None
