"""Whole responses to a translated request: calls under the client's names and kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import EVERYTHING
from support.example_dialect.dialect import TELEGRAPH
from support.example_dialect.registration import registered

from streamnorm import (
    EncodeError,
    Event,
    Loss,
    LossyEncoding,
    Message,
    Reply,
    Request,
    Text,
    ToolCall,
    Usage,
    encode_message,
    message_events,
    translate_message,
)
from streamnorm._core.bodies.request import ToolName
from streamnorm._core.codec import BodyCodec, ReadContext, WriteContext, Written
from streamnorm._core.losses import Losses

REPLY = Reply(
    tools={
        "apply_patch": ToolName("apply_patch", is_custom=True),
        "crm__get": ToolName("get", "crm"),
    }
)
PATCH = '{"input":"*** Begin \\"x\\"\\n"}'
TEXT = '*** Begin "x"\n'


class Ledger:
    """A body codec that stores the message that it is to write."""

    def __init__(self) -> None:
        self.message = Message()

    def read_request(self, body: dict[str, Any], context: ReadContext) -> Request:
        raise NotImplementedError

    def write_request(self, request: Request, context: WriteContext) -> Written:
        raise NotImplementedError

    def read_response(self, body: dict[str, Any], context: ReadContext) -> list[Event]:
        return message_events(message(ToolCall("c", "apply_patch", body["arguments"])))

    def write_response(
        self, message: Message, created: float | None, losses: Losses
    ) -> dict[str, Any]:
        self.message = message
        return {"calls": len(message.tool_calls)}


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    written = Ledger()
    codec = BodyCodec(
        capabilities=EVERYTHING,
        read_request=written.read_request,
        read_tools=lambda body: (),
        write_request=written.write_request,
        read_response=written.read_response,
        write_response=written.write_response,
    )
    with registered(structs.replace(TELEGRAPH, body=lambda: codec)):
        yield written


def message(*blocks: Any, stop_reason: Any = "tool_use") -> Message:
    return Message("m", "gpt", blocks, stop_reason=stop_reason, usage=Usage(1, 2))


def test_calls_of_a_message_are_restored(ledger: Ledger) -> None:
    answer = message(
        Text("Hi"),
        ToolCall("c1", "apply_patch", PATCH),
        ToolCall("c2", "crm__get", '{"t":1}'),
        ToolCall("c3", "other", '{"input":"a"}'),
    )
    assert encode_message(answer, "telegraph", reply=REPLY, model="mine").body == {"calls": 3}
    assert ledger.message == Message(
        "m",
        "mine",
        (
            Text("Hi"),
            ToolCall("c1", "apply_patch", TEXT, kind="custom"),
            ToolCall("c2", "get", '{"t":1}', namespace="crm"),
            ToolCall("c3", "other", '{"input":"a"}'),
        ),
        stop_reason="tool_use",
        usage=Usage(1, 2),
    )


@pytest.mark.parametrize("reply", [None, Reply()])
def test_message_without_a_reply_stays_as_it_is(ledger: Ledger, reply: Reply | None) -> None:
    answer = message(ToolCall("c1", "apply_patch", PATCH))
    encode_message(answer, "telegraph", reply=reply)
    assert ledger.message is answer


def test_translated_message_is_restored(ledger: Ledger) -> None:
    translate_message({"arguments": PATCH}, dialect="telegraph", to="telegraph", reply=REPLY)
    assert ledger.message.blocks == (ToolCall("c", "apply_patch", TEXT, kind="custom"),)


def test_members_beside_the_text_are_a_loss(ledger: Ledger) -> None:
    answer = message(ToolCall("c", "apply_patch", '{"why":1,"input":"a"}'))
    encoded = encode_message(answer, "telegraph", reply=REPLY)
    assert encoded.losses == (Loss("custom_tool_members", "tool call", 1, "dropped"),)
    assert ledger.message.tool_calls[0].arguments == "a"
    with pytest.raises(LossyEncoding):
        encode_message(answer, "telegraph", reply=REPLY, strict=True)


def test_plain_text_is_the_text(ledger: Ledger) -> None:
    encode_message(message(ToolCall("c", "apply_patch", TEXT)), "telegraph", reply=REPLY)
    assert ledger.message.blocks == (ToolCall("c", "apply_patch", TEXT, kind="custom"),)


def test_text_that_was_cut_is_marked_or_refused(ledger: Ledger) -> None:
    call = ToolCall("c", "apply_patch", '{"input":"*** Beg')
    encode_message(message(call, stop_reason="max_tokens"), "telegraph", reply=REPLY)
    assert ledger.message.blocks == (
        ToolCall("c", "apply_patch", "*** Beg", kind="custom", is_unfinished=True),
    )
    match = r"^blocks: wrapped input of a custom call: text ends at character 17, expected more$"
    with pytest.raises(EncodeError, match=match):
        encode_message(message(call), "telegraph", reply=REPLY)


def test_own_answer_with_restored_calls_loses_nothing_else() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "crm__get", "arguments": "{}"}}
    token = {"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    message = {"role": "assistant", "content": "Hi", "refusal": None, "mood": "glad"}
    choice = {
        "index": 0,
        "finish_reason": "tool_calls",
        "logprobs": {"content": [token], "refusal": None},
        "content_filter_results": {"hate": {"filtered": False}},
    }
    body = {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "provider": "acme",
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"audio_tokens": 0},
        },
    }
    restored = {**call, "function": {"name": "get", "arguments": "{}"}}
    sent, expected = (
        {**body, "choices": [{**choice, "message": {**message, "tool_calls": [each]}}]}
        for each in (call, restored)
    )
    reply = Reply(tools={"crm__get": ToolName("get")})
    written = translate_message(sent, to="openai_chat", reply=reply)
    assert (written.body, written.losses) == (expected, ())


def test_own_answer_of_anthropic_with_restored_calls_loses_nothing_else() -> None:
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "crm__get",
        "input": {"t": 1},
        "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"},
    }
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "container": {"id": "container_1", "expires_at": "2026-11-23T00:00:00Z"},
        "safeguard_results": [{"type": "dangerous_tool_use", "status": {"type": "completed"}}],
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 2,
            "inference_geo": "us",
        },
    }
    text = {"type": "text", "text": "Hi"}
    reply = Reply(tools={"crm__get": ToolName("get")})
    written = translate_message({**body, "content": [text, call]}, to="anthropic", reply=reply)
    assert written.body == {**body, "content": [text, {**call, "name": "get"}]}
