"""The fast path of AG-UI's decoder, and its bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import Failed, Limits
from streamnorm.codec import decoder

STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
SPAN = {"type": "REASONING_START", "messageId": "s"}


def frames(*payloads: Any) -> bytes:
    return b"".join([b"data: %b\n\n" % json.dumps(each).encode() for each in payloads])


def text(type: str, id: str = "a", **fields: Any) -> dict[str, Any]:
    return {"type": f"TEXT_MESSAGE_{type}", "messageId": id, **fields}


def call(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"TOOL_CALL_{type}", "toolCallId": "c", **fields}


def reasoning(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"REASONING_MESSAGE_{type}", "messageId": "q", "role": "reasoning", **fields}


OPENED = [
    pytest.param([text("START")], text("CONTENT", delta="a"), id="text"),
    pytest.param([call("START", toolCallName="f")], call("ARGS", delta="a"), id="call"),
    pytest.param([SPAN, reasoning("START")], reasoning("CONTENT", delta="a"), id="reasoning"),
]


@pytest.mark.parametrize(("opened", "content"), OPENED)
def test_contents_after_the_first_take_the_fast_path(opened: list[Any], content: Any) -> None:
    reader = decoder("ag_ui")
    reader.feed(frames(STARTED, *opened, content))
    assert reader.run is not None
    assert reader.run.can_learn
    assert reader.run.text_of(frames(content).removesuffix(b"\n\n")) == "a"


def test_ids_of_messages_of_other_roles_are_bounded() -> None:
    reader = decoder("ag_ui", limits=Limits(max_accumulated_bytes=4096))
    reader.feed(frames(STARTED, *[text("START", f"{n:0100}", role="user") for n in range(100)]))
    assert isinstance(reader.outcome, Failed)
    assert reader.outcome.error.code == "max_accumulated_bytes"
