"""Answers that arrive as a stream: appended when it has ended well, else not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from support.streams.content import encode
from support.streams.corpus import recordings

from streamnorm import (
    BlockStart,
    BlockStop,
    Conversation,
    EncodeError,
    Event,
    InputMessage,
    LimitExceeded,
    LocalProtocolError,
    Message,
    MessageStart,
    MessageStop,
    NotAStream,
    Opaque,
    RemoteProtocolError,
    Reply,
    Request,
    StreamError,
    StreamnormError,
    Text,
    TextDelta,
    ToolCall,
    TruncatedStream,
    UpstreamError,
    decode_message,
    message_events,
)
from streamnorm._core.bodies.request import ToolName

SAID = InputMessage("user", (Text("Hello"),))
MESSAGE = Message("m", "some-model", (Text("Hi"), ToolCall("c1", "f", '{"a":1}')), "tool_use")
EVENTS = message_events(MESSAGE)
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")


def begun() -> Conversation:
    return Conversation(Request(model="some-model", messages=(SAID,)))


def push(chat: Conversation, events: Iterable[Event], then: Exception | None = None) -> None:
    """Append a stream of events; `then` is raised before it is closed."""
    with chat.append_stream() as answer:
        for event in events:
            answer.push(event)
        if then is not None:
            raise then


each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def stream(dialect: str) -> bytes:
    return encode(EVENTS, dialect)[0]


@each_dialect
def test_the_history_changes_when_the_stream_has_ended(dialect: str) -> None:
    chat = begun()
    answer = chat.append_stream()
    body = stream(dialect)
    for number in range(len(body)):
        answer.feed(body[number : number + 1])
        assert len(chat.messages) == 1
    message = answer.close()
    assert message.text == "Hi"
    assert [call.name for call in chat.open_tool_calls()] == ["f"]
    assert chat.messages[1].text == "Hi"


def test_fed_bytes_are_events_for_the_caller() -> None:
    chat = begun()
    with chat.append_stream(dialect="claude") as answer:
        events = answer.feed(stream("anthropic"))
        assert TextDelta(0, "Hi") in events
        assert answer.message.text == "Hi"
    assert len(chat.messages) == 2


AUDIO = (
    {"transcript": "Hi"},  # some servers repeat the id, others begin without one
    {"id": "audio_1", "data": "AAAA"},
    {"id": "audio_1", "expires_at": 1790003600},
)


def audio_stream() -> bytes:
    """Return a stream of gpt-audio, which says all of its answer as sound."""
    return encode(
        [
            MessageStart("c", "gpt-audio"),
            *(Opaque("openai_chat", "audio", json.dumps(delta)) for delta in AUDIO),
            MessageStop("end_turn", "stop"),
        ],
        "openai_chat",
    )[0]


def audio_body() -> dict[str, Any]:
    audio = {"id": "audio_1", "data": "AAAA", "expires_at": 1790003600, "transcript": "Hi"}
    message = {"role": "assistant", "content": None, "audio": audio}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "c", "object": "chat.completion", "model": "gpt-audio", "choices": [choice]}


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
def test_spoken_answers_go_back_by_their_ids(is_stream: bool) -> None:
    """OpenAI's assistant message has `audio`, with the id of a previous audio response."""
    chat = begun()
    if is_stream:
        with chat.append_stream(dialect="openai_chat") as answer:
            answer.feed(audio_stream())
    else:
        chat.append(audio_body())
    chat.append(SAID)
    for known in (chat, Conversation.from_json(chat.to_json())):
        made = known.dump("openai_chat")
        assert made.body["messages"][1] == {"role": "assistant", "audio": {"id": "audio_1"}}
        assert made.losses == ()
        assert "audio" in [loss.feature for loss in known.dump("anthropic").losses]


def test_sound_without_an_id_cannot_go_back() -> None:
    body = audio_body()
    body["choices"][0]["message"] |= {"content": "Hi", "audio": {"data": "AAAA"}}
    chat = begun()
    chat.append(body)
    chat.append(SAID)
    assert chat.dump("openai_chat").body["messages"][1] == {"role": "assistant", "content": "Hi"}


SOUND = {"type": "audio", "data": "aGk=", "mime_type": "audio/wav"}
SAYING = {"type": "text", "text": "Hi"}
FILM = {"type": "video", "uri": "https://a.org/v"}
SPOKEN_CALL = {"type": "function_call", "id": "c1", "name": "f", "arguments": {}}


def interaction(contents: list[Any], steps: list[Any]) -> dict[str, Any]:
    output = {"type": "model_output", "content": contents}
    fields = {"id": "v1", "object": "interaction", "model": "gemini-3-pro"}
    return {**fields, "status": "completed", "steps": [output, *steps]}


def interaction_stream(contents: list[Any], steps: list[Any]) -> bytes:
    """Return the stream of an interaction: contents as deltas, and whole steps."""
    start = {"id": "v1", "status": "in_progress", "model": "gemini-3-pro"}
    events: list[dict[str, Any]] = [
        {"event_type": "interaction.created", "interaction": start},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        *({"event_type": "step.delta", "index": 0, "delta": content} for content in contents),
        {"event_type": "step.stop", "index": 0},
    ]
    for index, step in enumerate(steps, 1):
        events.append({"event_type": "step.start", "index": index, "step": step})
        events.append({"event_type": "step.stop", "index": index})
    completed = {**start, "status": "completed"}
    events.append({"event_type": "interaction.completed", "interaction": completed})
    frames = [f"event: {event['event_type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "".join([*frames, "event: done\ndata: [DONE]\n\n"]).encode()


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("contents", "steps"),
    [
        ([SOUND], []),
        ([SAYING, SOUND], []),
        ([SOUND, SAYING], []),
        ([SOUND, FILM], []),
        ([SOUND], [SPOKEN_CALL]),
        ([{"type": "audio", "data": "no Base64", "rate": 24000}], []),
    ],
    ids=["alone", "behind text", "before text", "film", "before a call", "broken"],
)
def test_sound_of_an_interaction_goes_back_as_it_came(
    contents: list[Any], steps: list[Any], is_stream: bool
) -> None:
    """google-genai's `ModelOutputStep.content` may hold sound and video in the history, too."""
    chat = begun()
    if is_stream:
        with chat.append_stream(dialect="gemini_interactions") as answer:
            answer.feed(interaction_stream(contents, steps))
    else:
        chat.append(interaction(contents, steps))
    if steps:
        chat.append_tool_result("c1", "5")
    chat.append(SAID)
    files = sum(content["type"] != "text" for content in contents)
    for known in (chat, Conversation.from_json(chat.to_json())):
        made = known.dump("gemini_interactions")
        output = {"type": "model_output", "content": contents}
        assert made.body["input"][1 : 2 + len(steps)] == [output, *steps]
        assert made.losses == ()
        for other in ("anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse"):
            lost = [loss for loss in known.dump(other).losses if loss.feature == "opaque_block"]
            assert sum(loss.count for loss in lost) == files


def test_sound_of_an_interaction_stands_behind_the_thought_before_it() -> None:
    thought = {"type": "thought", "signature": "c2ln", "summary": [SAYING]}
    answer = interaction([SOUND], [])
    answer["steps"].insert(0, thought)
    chat = begun()
    chat.append(answer)
    chat.append(SAID)
    made = chat.dump("gemini_interactions")
    assert made.body["input"][1:3] == [thought, {"type": "model_output", "content": [SOUND]}]
    assert made.losses == ()


def test_data_beside_the_content_of_an_interaction_is_no_content() -> None:
    """An event that only has the name of a content, and data of another dialect, stay behind."""
    others = [
        Opaque("gemini_interactions", "audio", '{"event_type":"audio"}'),
        Opaque("gemini_interactions", "metadata", '{"type":"metadata"}'),
        Opaque("gemini", "audio", '{"type":"audio"}'),
    ]
    chat = begun()
    events = [MessageStart("v1"), *others, *message_events(Message(blocks=(Text("Hi"),)))[1:]]
    with chat.append_stream(dialect="gemini_interactions") as answer:
        for event in [*events, MessageStop("end_turn")]:
            answer.push(event)
    assert chat.messages[1].blocks == (Text("Hi"),)


IMAGES = [
    {"type": "image_url", "index": number, "image_url": {"url": f"data:image/png;base64,{data}"}}
    for number, data in enumerate(("aQ==", "ag=="))
]


STRICT_SERVERS = ["openai", "azure", "cerebras", "google", "groq", "mistral"]
"""Servers that refuse keys of messages that they do not know."""


def images_body(**message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}


@pytest.mark.parametrize("content", ["Here", ""])
@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
def test_generated_images_go_back_as_they_came(is_stream: bool, content: str) -> None:
    """OpenRouter has the images of an assistant message in `images`."""
    chat = begun()
    if is_stream:
        text = [BlockStart(0, Text()), TextDelta(0, content)] if content else []
        images = [Opaque("openai_chat", "images", json.dumps([each])) for each in IMAGES]
        events = [MessageStart("c", "m"), *text, *images]
        events += [BlockStop(0)] if content else []
        with chat.append_stream(dialect="openai_chat") as answer:
            answer.feed(encode([*events, MessageStop("end_turn", "stop")], "openai_chat")[0])
    else:
        chat.append(images_body(content=content, images=IMAGES))
    chat.append(SAID)
    for known in (chat, Conversation.from_json(chat.to_json())):
        made = known.dump("openai_chat", server="openrouter")
        message = made.body["messages"][1]
        assert (message["role"], message["content"]) == ("assistant", content)
        assert message["images"] == IMAGES
        assert made.losses == ()
        for elsewhere in (
            known.dump("anthropic"),
            known.dump("openai_responses"),
            *(known.dump("openai_chat", server=strict) for strict in STRICT_SERVERS),
        ):
            assert "images" not in json.dumps(elsewhere.body)
            lost = " ".join(loss.feature for loss in elsewhere.losses)
            # Mistral gets no empty message of the assistant.
            assert "images" in lost or (not content and lost == "empty_message_dropped")


def test_images_of_a_search_do_not_go_back() -> None:
    chat = begun()
    chat.append({**images_body(content="Hi"), "images": [{"image_url": "https://a.b/c.png"}]})
    chat.append(SAID)
    assert chat.dump("openai_chat").body["messages"][1] == {"role": "assistant", "content": "Hi"}


def test_events_have_the_names_of_the_client() -> None:
    chat = begun()
    reply = Reply(tools={"f": ToolName("g")})
    with chat.append_stream(reply=reply) as answer:
        events = answer.feed(stream("anthropic"))
    starts = [event.block for event in events if isinstance(event, BlockStart)]
    assert starts[1] == ToolCall("c1", "g")
    assert [call.name for call in chat.open_tool_calls()] == ["g"]


@each_dialect
def test_a_cut_stream_leaves_the_history_as_it_was(dialect: str) -> None:
    body = stream(dialect)
    chat = begun()
    with (
        pytest.raises(TruncatedStream, match="connection lost") as caught,
        chat.append_stream() as answer,
    ):
        answer.feed(body[: len(body) // 2])
    assert caught.value.partial is not None
    assert chat == begun()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("anthropic/error-overloaded", UpstreamError),
        ("anthropic/error-first", UpstreamError),
        ("anthropic/cut-after-a-block", TruncatedStream),
        ("anthropic/cut-inside-an-event", TruncatedStream),
        ("openai/cut-in-arguments", TruncatedStream),
    ],
)
def test_a_stream_that_failed_leaves_the_history_as_it_was(
    name: str, error: type[StreamnormError]
) -> None:
    recording = next(r for r in recordings(*DIALECTS) if r.name == name)
    by_bytes, by_events = begun(), begun()
    with pytest.raises(error), by_bytes.append_stream() as answer:
        answer.feed(recording.body)
    with pytest.raises(error):
        push(by_events, recording.events())
    assert by_bytes == by_events == begun()


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (b"<html>", NotAStream, "an HTML page, expected an event stream"),
        (b'{"error":{"message":"No"}}', UpstreamError, "No"),
        (b"", TruncatedStream, "connection lost: the stream ended before its first event"),
    ],
)
def test_a_body_that_is_no_stream_is_an_error(
    body: bytes, error: type[StreamnormError], text: str
) -> None:
    chat = begun()
    with pytest.raises(error, match=text), chat.append_stream() as answer:
        answer.feed(body)
    assert chat == begun()


def test_an_answer_beyond_its_bound_is_refused() -> None:
    error = StreamError("too_large", "message of 9 bytes", code="max_accumulated_bytes")
    chat = begun()
    with pytest.raises(LimitExceeded) as caught:
        push(chat, [MessageStart(), error])
    assert caught.value.limit == "max_accumulated_bytes"
    assert chat == begun()


def test_an_error_in_the_block_discards_the_answer() -> None:
    chat = begun()
    with pytest.raises(KeyError):
        push(chat, EVENTS, then=KeyError())
    assert chat == begun()


@pytest.mark.parametrize("end", [3, len(EVENTS) - 1])
def test_events_without_their_end_are_no_answer(end: int) -> None:
    chat = begun()
    with pytest.raises(TruncatedStream, match="blocks without a stop reason") as caught:
        push(chat, EVENTS[:end])
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"
    assert chat == begun()


def test_an_answer_may_be_closed_within_its_block() -> None:
    chat = begun()
    with chat.append_stream() as answer:
        for event in EVENTS:
            answer.push(event)
        assert answer.close() == MESSAGE
    assert len(chat.messages) == 2


@pytest.mark.parametrize(
    "use",
    [
        lambda answer: answer.feed(b""),
        lambda answer: answer.push(MessageStart()),
        lambda answer: answer.close(),
    ],
)
def test_a_closed_answer_takes_nothing_more(use: Callable[[object], object]) -> None:
    chat = begun()
    answer = chat.append_stream()
    answer.discard()
    with pytest.raises(LocalProtocolError, match="answer was closed, expected an open one"):
        use(answer)
    assert chat == begun()


def test_an_event_out_of_order_is_refused() -> None:
    chat = begun()
    with pytest.raises(LocalProtocolError, match="block 3 stops, expected an open block"):
        push(chat, [MessageStart(), BlockStop(3)])
    assert chat == begun()


def test_a_refused_event_discards_the_answer() -> None:
    chat = begun()
    answer = chat.append_stream()
    answer.push(MessageStart("m"))
    with pytest.raises(LocalProtocolError, match="text_delta of block 0, expected an open block"):
        answer.push(TextDelta(0, "Hi"))
    with pytest.raises(LocalProtocolError, match="answer was closed"):
        answer.push(MessageStop("end_turn"))
    assert chat == begun()


def test_fed_events_are_not_pushed_again() -> None:
    chat = begun()
    with chat.append_stream() as answer:
        first, *_ = answer.feed(stream("anthropic"))
        with pytest.raises(LocalProtocolError, match="event after bytes, expected bytes"):
            answer.push(first)
    assert chat.messages[1].blocks == MESSAGE.blocks


def test_pushed_events_are_not_followed_by_bytes() -> None:
    chat = begun()
    with chat.append_stream() as answer:
        for event in EVENTS:
            answer.push(event)
        with pytest.raises(LocalProtocolError, match="bytes after events, expected events"):
            answer.feed(stream("anthropic"))
    assert chat.messages[1].blocks == MESSAGE.blocks


def test_the_first_choice_is_the_answer() -> None:
    chat = begun()
    with chat.append_stream() as answer:
        for event in (
            MessageStart("m"),
            BlockStart(0, Text()),
            BlockStart(1, Text(), choice=1),
            TextDelta(1, "other"),
            TextDelta(0, "this"),
            BlockStop(0),
            BlockStop(1),
            MessageStop("end_turn"),
            MessageStop("end_turn", choice=1),
        ):
            answer.push(event)
    assert chat.messages[1].blocks == (Text("this"),)


def test_a_refused_answer_leaves_the_history_as_it_was() -> None:
    chat = begun()
    broken = Message("m", "m", (ToolCall("c1", "f"), ToolCall("c1", "f")), "tool_use")
    with pytest.raises(EncodeError, match="second tool call"):
        push(chat, message_events(broken))
    assert chat == begun()


def test_malformed_bytes_are_an_error_of_the_peer() -> None:
    chat = begun()
    with pytest.raises(RemoteProtocolError), chat.append_stream(dialect="anthropic") as answer:
        answer.feed(b"event: message_start\ndata: {\n\n")
    assert chat == begun()


def test_encrypted_reasoning_goes_back_to_openrouter_as_it_came() -> None:
    """Without its encrypted content OpenAI's model would reason anew after each call."""
    name = "openrouter/encrypted-reasoning-then-call-at-index-one"
    recording = next(r for r in recordings() if r.name == name)
    chat = begun()
    with chat.append_stream(dialect="openai_chat", server="openrouter") as answer:
        answer.feed(recording.body)
    chat.append_tool_result("call_or23pecs", "18")
    encoded = chat.dump("openai_chat", server="openrouter", model="openai/gpt-5")
    named = {"format": "openai-responses-v1", "index": 0}
    assert encoded.body["messages"][1]["reasoning_details"] == [
        {"type": "reasoning.summary", "summary": "I need the weather.", **named},
        {
            "type": "reasoning.encrypted",
            "data": "gAAAAABmadeUpEncryptedReasoning23_-==",
            "id": "rs_madeup23",
            **named,
        },
    ]
    assert encoded.losses == ()
    to_xai = chat.dump("openai_chat", server="openrouter", model="x-ai/grok-4")
    assert "reasoning_details" not in to_xai.body["messages"][1]
    assert [loss.feature for loss in to_xai.losses] == ["reasoning_dropped"]


EXECUTED = [
    [{"functionCall": {"name": "f", "args": {"n": 1.0}}, "thoughtSignature": "c2ln"}],
    [{"functionResponse": {"name": "f", "response": {"result": "4"}}}],
    [{"text": "Four"}],
]


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
def test_function_that_google_has_executed_is_no_call_of_the_client(is_stream: bool) -> None:
    """With `mcpServers` the result stands in a later chunk (js-genai's recordings)."""
    chat = begun()
    if is_stream:
        chunks = [{"candidates": [{"content": {"role": "model", "parts": p}}]} for p in EXECUTED]
        chunks[-1]["candidates"][0]["finishReason"] = "STOP"
        with chat.append_stream(dialect="gemini") as answer:
            for chunk in chunks:
                answer.feed(b"data: %b\n\n" % json.dumps({**chunk, "responseId": "r"}).encode())
        assert answer.message.tool_calls == ()
    else:
        chat.append(executed_body(), dialect="gemini")
    assert chat.open_tool_calls() == ()
    chat.append(SAID)
    for known in (chat, Conversation.from_json(chat.to_json())):
        content = known.dump("gemini").body["contents"][1]
        assert content == {"role": "model", "parts": [part for (part,) in EXECUTED]}
        made = known.dump("openai_chat")
        assert made.body["messages"][1] == {"role": "assistant", "content": "Four"}
        assert [loss.feature for loss in made.losses] == ["server_history_dropped"]


def executed_body() -> dict[str, Any]:
    content = {"role": "model", "parts": [part for (part,) in EXECUTED]}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "responseId": "r", "modelVersion": "m"}


def test_call_that_the_server_of_a_response_has_executed_goes_back_with_its_output() -> None:
    call = {
        "type": "custom_tool_call",
        "call_id": "call_1",
        "name": "look",
        "input": "north",
        "namespace": "sky",
    }
    output = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "Snow."}
    answer = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [{**call, "id": "ctc_1", "status": "completed"}, {**output, "id": "ctco_1"}],
    }
    chat = begun()
    chat.append(answer, dialect="openai_responses")
    chat.append(SAID)
    _, *written, _ = chat.dump("openai_responses").body["input"]
    assert written == [
        {**call, "id": "ctc_1", "status": "completed"},
        {**output, "id": "ctco_1"},
    ]


@pytest.mark.parametrize("server", [None, "azure"])
def test_call_of_xais_own_tool_goes_to_no_server_that_demands_its_output(
    server: str | None,
) -> None:
    """Its output is in no event: OpenAI answers "No tool output found for custom tool call"."""
    name = "xai/server-run-custom-call"
    recording = next(r for r in recordings("openai_responses") if r.name == name)
    chat = begun()
    with chat.append_stream(dialect="openai_responses", server="xai") as answer:
        answer.feed(recording.body)
    chat.append(SAID)
    made = chat.dump("openai_responses", server=server)
    kinds = [item.get("type") for item in made.body["input"]]
    assert kinds == [None, "web_search_call", "message", None]
    assert "server_history_dropped" in [loss.feature for loss in made.losses]
    to_xai = chat.dump("openai_responses", server="xai")
    assert "custom_tool_call" in [item.get("type") for item in to_xai.body["input"]]
    assert to_xai.losses == ()


def test_a_decoded_answer_has_its_dialect() -> None:
    """What only the provider executes goes back to it, as it does from the body."""
    search = {"id": "srvtoolu_1", "name": "web_search", "input": {"query": "Oslo"}}
    content = [
        {"type": "server_tool_use", **search},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "text", "text": "Hi"},
    ]
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    body = {**answer, "content": content, "stop_reason": "end_turn"}
    for item in (body, decode_message(body, "anthropic")):
        chat = Conversation(Request(model="m", max_tokens=9))
        chat.append(item)
        made = chat.dump("anthropic")
        assert made.body["messages"] == [{"role": "assistant", "content": content}]
        assert made.losses == ()
