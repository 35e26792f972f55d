"""The positions of opaque data that is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk
from support.openai_chat.chunks import DONE, chunk, content, decode, frame

from streamnorm import (
    Event,
    Loss,
    Message,
    MessageStart,
    MessageStop,
    Opaque,
    TextDelta,
    Transcoder,
    encode_message,
)
from streamnorm.codec import encoder
from streamnorm.dialects.openai_chat.content import opaque_to_wire

PLACES: dict[str, tuple[str, Any, int | None, tuple[str, Any]]] = {
    "logprobs": ("logprobs", {"content": []}, 0, ("choice", {"content": []})),
    "audio": ("audio", {"id": "a"}, None, ("delta", {"id": "a"})),
    "tools of the server": (
        "executed_tools",
        [{"name": "a"}, {"index": 7}, "b"],
        None,
        ("delta", [{"index": 0, "name": "a"}, {"index": 7}, "b"]),
    ),
    "images of an answer": ("images", [{"url": "u"}], 0, ("delta", [{"index": 0, "url": "u"}])),
    "images without a text": (
        "images",
        [{"type": "image_url"}],
        None,
        ("delta", [{"index": 0, "type": "image_url"}]),
    ),
    "images of a search": ("images", [{"url": "u"}], None, ("chunk", [{"url": "u"}])),
    "sources of a search": ("citations", ["u"], None, ("chunk", ["u"])),
    "its results": ("search_results", [{"url": "u"}], 0, ("chunk", [{"url": "u"}])),
    "a loose source": ("annotations", {"type": "k"}, None, ("end", {"type": "k"})),
}


@pytest.mark.parametrize(("name", "value", "index", "placed"), PLACES.values(), ids=PLACES)
def test_field_is_written_at_its_position(
    name: str, value: Any, index: int | None, placed: tuple[str, Any]
) -> None:
    place, field = placed
    event = Opaque("openai_chat", name, json.dumps(value), index)
    assert opaque_to_wire(event) == (place, {name: field})


@pytest.mark.parametrize("name", ["frame", "chat.completion.moderation", "content"])
def test_opaque_frame_has_no_position(name: str) -> None:
    assert opaque_to_wire(Opaque("openai_chat", name, "{}")) is None


def test_field_that_is_no_json_has_no_position() -> None:
    assert opaque_to_wire(Opaque("openai_chat", "audio", "{")) is None


def written(*events: Event) -> list[str]:
    writer = encoder("openai_chat")
    begun = writer.encode(MessageStart("m", "gpt"))
    return b"".join([begun, *map(writer.encode, events)]).decode().split("\n\n")[1:-1]


def test_later_images_of_an_answer_continue_the_numbers() -> None:
    """The SDK joins the URLs of two images with one index."""
    images = [{"type": "image_url", "image_url": {"url": url}} for url in ("a", "b", "c")]
    first, later = (json.dumps(part) for part in (images[:2], images[2:]))
    events = [Opaque("openai_chat", "images", first), Opaque("openai_chat", "images", later)]
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    writer = encoder("openai_chat")
    stop = MessageStop("end_turn", "stop")
    for event in (MessageStart("m", "gpt"), *events, stop):
        for line in writer.encode(event).decode().split("\n\n"):
            if line.startswith("data: {"):
                read = ChatCompletionChunk.model_validate_json(line.removeprefix("data: "))
                state.handle_chunk(read)
    numbered = [{"index": number, **image} for number, image in enumerate(images)]
    message = state.get_final_completion().choices[0].message
    assert message.model_dump()["images"] == numbered
    whole = Message("m", "gpt", (), "end_turn", opaque=tuple(events))
    body = encode_message(whole, "openai_chat").body
    assert body["choices"][0]["message"]["images"] == numbered


def test_opaque_frame_is_written_on_one_line() -> None:
    event = Opaque("openai_chat", "x", '{"object":"x",\r\n"n":1\r}')
    (line,) = written(event)
    assert json.loads(line.removeprefix("data: ")) == {"object": "x", "n": 1}


def test_opaque_frame_that_is_no_object_is_dropped() -> None:
    writer = encoder("openai_chat")
    writer.encode(MessageStart("m", "gpt"))
    for data in ("[1]", '"text"', "7", "null"):
        assert writer.encode(Opaque("openai_chat", "vendor", data)) == b""
    assert writer.losses == (Loss("opaque", "vendor", 4, "no object, dropped"),)


def test_field_before_the_message_is_a_frame_of_its_own() -> None:
    writer = encoder("openai_chat")
    early = Opaque("openai_chat", "logprobs", '{"content":[]}')
    assert writer.encode(early) == b'data: {"content":[]}\n\n'


def test_chunk_of_a_top_level_field_has_a_choice() -> None:
    (line,) = written(Opaque("openai_chat", "citations", '["u"]'))
    payload = json.loads(line.removeprefix("data: "))
    assert payload["citations"] == ["u"]
    assert len(payload["choices"]) == 1
    assert payload["choices"][0]["delta"] == {}


def test_opaque_data_round_trips_through_a_re_encoded_stream() -> None:
    frames = [
        content("hi", citations=["u"]),
        chunk({"audio": {"id": "a"}, "images": [{"index": 0, "url": "v"}]}),
        frame({"object": "vendor.frame", "n": 1}),
        chunk({}, "stop", images=[{"url": "w"}]),
        DONE,
    ]
    run = Transcoder("openai_chat", "openai_chat", verbatim=False)
    out = b"".join([part for piece in frames for part in run.feed(piece)])
    before, after = (
        [event for event in decode(*body).events if isinstance(event, Opaque)]
        for body in (frames, [out])
    )
    key = lambda event: (event.name, event.data)  # noqa: E731 - used twice
    assert sorted(map(key, before)) == sorted(map(key, after))
    assert len(before) == 5
    assert decode(out).events[-1] == MessageStop("end_turn", "stop")
    assert TextDelta(0, "hi") in decode(out).events
