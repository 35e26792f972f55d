"""The answer to a translated request: the fields of the response object that the client gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.bedrock_converse.frames import START, text
from support.recording.comparison import decode
from support.streams.replies import payloads

from streamnorm import (
    Reply,
    Transcoder,
    accumulate,
    encode_message,
    iter_transcode,
    translate_message,
)
from streamnorm.codec import EVENTSTREAM
from streamnorm.recording import Recording

RECORDINGS = Path(__file__).parents[2] / "recordings"
FIELDS = {"id": "resp_7", "store": True, "previous_response_id": "resp_6"}
REPLY = Reply(response=FIELDS)
RECORDED = {
    "anthropic": "anthropic/anthropic/parallel-tools",
    "openai_chat": "openai_chat/openai/text",
    "openai_responses": "openai_responses/openai/parallel-calls",
    "gemini": "gemini/google/text",
}


def recorded(source: str) -> Recording:
    return Recording.load(RECORDINGS / f"{RECORDED[source]}.sse")


def transcoded(body: bytes, source: str, target: str, **options: Any) -> list[dict[str, Any]]:
    transcoder = Transcoder(source, target, **options)
    return payloads(b"".join([*transcoder.feed(body), *transcoder.close()]))


def snapshots(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["response"] for event in events if "response" in event]


@pytest.mark.parametrize("source", RECORDED)
def test_each_snapshot_has_the_fields(source: str) -> None:
    events = transcoded(recorded(source).body, source, "openai_responses", reply=REPLY)
    first, *_, last = snapshots(events)
    assert first | FIELDS == first
    assert last | FIELDS == last
    assert last["status"] in ("completed", "incomplete")


def test_item_ids_are_made_of_the_id() -> None:
    events = transcoded(recorded("anthropic").body, "anthropic", "openai_responses", reply=REPLY)
    ids = [item["id"] for item in snapshots(events)[-1]["output"]]
    assert ids
    assert all(id.split("_", 1)[1].startswith("7_") for id in ids)


def test_stream_without_fields_passes_unchanged() -> None:
    body = recorded("openai_responses").body
    transcoder = Transcoder("openai_responses", "openai_responses", reply=Reply())
    assert b"".join([*transcoder.feed(body), *transcoder.close()]) == body


def test_failed_stream_has_the_fields() -> None:
    start = recorded("anthropic").body.split(b"\n\n")[0] + b"\n\n"
    events = transcoded(start, "anthropic", "openai_responses", reply=REPLY)
    last = snapshots(events)[-1]
    assert (last["id"], last["status"]) == ("resp_7", "failed")


def test_dialect_without_such_fields_ignores_them() -> None:
    source = recorded("openai_responses")
    plain = transcoded(source.body, "openai_responses", "anthropic")
    assert transcoded(source.body, "openai_responses", "anthropic", reply=REPLY) == plain
    message = accumulate(decode(source)[0])
    assert encode_message(message, "anthropic", reply=REPLY) == encode_message(message, "anthropic")


@pytest.mark.parametrize("source", RECORDED)
def test_whole_response_is_that_of_the_stream(source: str) -> None:
    body = recorded(source).body
    transcoder = Transcoder(source, "openai_responses", reply=REPLY)
    events = payloads(b"".join([*transcoder.feed(body), *transcoder.close()]))
    encoded = encode_message(transcoder.message, "openai_responses", reply=REPLY)
    streamed = snapshots(events)[-1]
    assert [item["id"] for item in encoded.body["output"]] == [
        item["id"] for item in streamed["output"]
    ]
    assert encoded.body | FIELDS == encoded.body


def test_response_that_needs_no_translation_gets_the_fields() -> None:
    whole = encode_message(accumulate(decode(recorded("anthropic"))[0]), "openai_responses").body
    translated = translate_message(whole, to="openai_responses", reply=REPLY)
    assert translated.body | FIELDS == translated.body


NAMELESS = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def run_ids(body: bytes) -> set[str]:
    events = [json.loads(frame[6:]) for frame in body.split(b"\n\n")[:-1]]
    return {event["messageId"] for event in events if "messageId" in event}


def test_id_of_a_message_without_one_is_the_callers_to_make() -> None:
    """Clients of AG-UI append a message to the one of its id, from whatever run."""
    for minted, prefix in (("", "run"), ("7f", "7f")):
        transcoder = Transcoder("openai_chat", "ag_ui")
        transcoder.set_minted_id(minted)
        body = b"".join([*transcoder.feed(NAMELESS), *transcoder.close()])
        assert run_ids(body) == {f"{prefix}-1"}


@pytest.mark.parametrize("source", [None, "bedrock_converse"])
def test_id_of_the_response_names_a_message_without_one(source: str | None) -> None:
    transcoder = Transcoder(source, "openai_chat", framing=EVENTSTREAM)
    transcoder.set_response_id("req-1")
    (written,) = transcoder.feed(START + text(0, "a"))
    assert b'"id":"req-1"' in written
    assert transcoder.message.id == "req-1"


def test_streams_over_io_have_ids_of_their_own() -> None:
    first, second = (
        run_ids(b"".join(iter_transcode([NAMELESS], to="ag_ui", dialect="openai_chat")))
        for _ in range(2)
    )
    assert len(first) == len(second) == 1
    assert first.isdisjoint(second)
