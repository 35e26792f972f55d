"""The turns of a script and their answers, in both dialects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.http.provider_requests import ask, chat, message_in, messages

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    LocalProtocolError,
    Message,
    MessageStart,
    MessageStop,
    Ping,
    Reasoning,
    RedactedReasoning,
    Refusal,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
)
from streamnorm.codec import decoder
from streamnorm.recording.format import Playback, WireRequest
from streamnorm.testing import FakeProvider, FakeRequest, tool_call
from streamnorm.validation import validate

DIALECTS = pytest.mark.parametrize("request_of", [chat, messages])
Asking = Callable[..., WireRequest]

WEATHER = ToolCall("call_1", "get_weather", '{"city":"Oslo"}')


def events_of(playback: Playback) -> list[Any]:
    reader = decoder(playback.dialect)
    return reader.feed(playback.body) + reader.close()


# Plain values


@DIALECTS
@pytest.mark.parametrize(
    "turn",
    [
        "It snows in Oslo.",
        "",
        tool_call("get_weather", city="Oslo"),
        ["One moment.", tool_call("get_weather"), tool_call("get_time")],
        [Reasoning(("Which city?",)), "Which city?"],
        [],
    ],
    ids=repr,
)
def test_output_passes_the_strict_validator(request_of: Asking, turn: Any) -> None:
    playback = FakeProvider([turn]).respond(request_of())
    assert playback.status == 200
    assert playback.headers["content-type"] == "text/event-stream"
    assert validate(playback.body, str(playback.dialect)) == []


@DIALECTS
def test_text_is_streamed_word_by_word(request_of: Asking) -> None:
    playback = FakeProvider(["It snows\n in Oslo. "]).respond(request_of())
    words = [event.text for event in events_of(playback) if isinstance(event, TextDelta)]
    assert words == ["It", " snows", "\n in", " Oslo.", " "]
    carrying = [step for step in playback.steps if b"snows" in step.data or b"Oslo" in step.data]
    assert len(carrying) == 2
    assert message_in(playback).blocks == (Text("It snows\n in Oslo. "),)


def test_text_without_spaces_is_split_after_twelve_characters() -> None:
    playback = FakeProvider(["東" * 25]).respond(chat())
    words = [event.text for event in events_of(playback) if isinstance(event, TextDelta)]
    assert words == ["東" * 12, "東" * 12, "東"]


@DIALECTS
def test_call_is_streamed_in_small_deltas_with_an_id(request_of: Asking) -> None:
    playback = FakeProvider([tool_call("get_weather", city="Oslo")]).respond(request_of())
    pieces = [event.partial_json for event in events_of(playback) if isinstance(event, JSONDelta)]
    assert pieces == ['{"city":', '"Oslo"}']
    message = message_in(playback)
    assert message.blocks == (WEATHER,)
    assert message.stop_reason == "tool_use"


def test_call_has_arguments_by_keyword_and_by_mapping() -> None:
    call = tool_call("f", {"in": [1, None]}, name="Åse")
    assert call == ToolCall("", "f", '{"in":[1,null],"name":"Åse"}')
    assert tool_call("f") == ToolCall("", "f", "{}")
    with pytest.raises(TypeError):
        tool_call("f", thing=object())


@DIALECTS
def test_list_is_one_message_of_several_blocks(request_of: Asking) -> None:
    turn = ["One moment.", tool_call("get_weather", city="Oslo"), tool_call("f")]
    message = ask(FakeProvider([turn]), request_of())
    assert message.blocks == (Text("One moment."), WEATHER, ToolCall("call_2", "f", "{}"))


def test_ids_are_counted_over_the_script_except_for_explicit_ones() -> None:
    own = ToolCall("toolu_own", "f", "{}")
    provider = FakeProvider([[tool_call("f"), own], lambda _: tool_call("f"), tool_call("f")])
    ids = [call.id for _ in range(3) for call in ask(provider, messages()).tool_calls]
    assert ids == ["call_1", "toolu_own", "call_2", "call_3"]


@DIALECTS
def test_reasoning_is_no_text(request_of: Asking) -> None:
    message = ask(FakeProvider([[Reasoning(("Cold, likely.",)), "Cold."]]), request_of())
    assert message.blocks == (Reasoning(("Cold, likely.",)), Text("Cold."))
    assert message.stop_reason == "end_turn"


def test_refusal_has_its_stop_reason() -> None:
    provider = FakeProvider(Refusal("I cannot help."))
    message = ask(provider, chat())
    assert (message.blocks, message.stop_reason) == ((Refusal("I cannot help."),), "refusal")
    message = ask(provider, messages())
    assert (message.text, message.stop_reason) == ("I cannot help.", "refusal")


# Messages


@DIALECTS
def test_missing_fields_of_a_message_are_filled_in(request_of: Asking) -> None:
    request = request_of(stream_options={"include_usage": True})
    told = Message("msg_own", "own-1", (Text("Cold."),), "max_tokens", usage=Usage(7, 3))
    message = ask(FakeProvider([told]), request)
    assert (message.id, message.model, message.stop_reason) == ("msg_own", "own-1", "max_tokens")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (7, 3)
    message = ask(FakeProvider([Message(blocks=(Text("Cold."),))]), request)
    assert (message.id, message.model, message.stop_reason) == ("msg_1", "asked-1", "end_turn")


def test_tokens_are_a_quarter_of_the_characters_rounded_up() -> None:
    request = messages()
    # 7, and hijk{} is 6; what nobody reads counts for nothing.
    call = tool_call("hijk")
    turn = [Reasoning(("ab", "c")), "de", Refusal("fg"), call, RedactedReasoning("xyzxyz")]
    usage = ask(FakeProvider([turn]), request).usage
    assert usage.output_tokens == 4
    assert usage.input_tokens == -(-len(request.body or b"") // 4)


def test_chat_has_usage_if_requested() -> None:
    assert ask(FakeProvider("Hello"), chat()).usage == Usage()
    asked = chat(stream_options={"include_usage": True})
    assert ask(FakeProvider("Hello"), asked).usage.output_tokens == 2


# Events


STREAM = [
    MessageStart(),
    BlockStart(0, ToolCall("a", "f")),
    BlockStart(1, ToolCall("b", "g")),
    JSONDelta(1, '{"n":'),
    JSONDelta(0, '{"m": 1}'),
    JSONDelta(1, " 2}"),
    BlockStop(0),
    BlockStop(1),
    UsageUpdate(Usage(5, 9)),
    MessageStop("tool_use"),
]


@DIALECTS
def test_events_are_written_unchanged(request_of: Asking) -> None:
    playback = FakeProvider([STREAM]).respond(request_of())
    assert validate(playback.body, str(playback.dialect)) == []
    message = message_in(playback)
    assert message.blocks == (ToolCall("a", "f", '{"m": 1}'), ToolCall("b", "g", '{"n": 2}'))
    assert (message.id, message.model) == ("msg_1", "asked-1")


def test_overlapping_events_stay_interleaved_if_the_dialect_allows() -> None:
    deltas = [e for e in events_of(FakeProvider([STREAM]).respond(chat())) if type(e) is JSONDelta]
    assert [delta.index for delta in deltas] == [1, 0, 1]


def test_events_held_at_a_failure_are_counted_as_lost() -> None:
    error = StreamError("upstream", "Overloaded.")
    provider = FakeProvider([[*STREAM[:4], error]])
    playback = provider.respond(messages())
    assert b'"n"' not in playback.body
    assert [loss.feature for loss in provider.losses if loss.feature == "held"] == ["held"]


def test_list_of_events_alone_is_one_turn_for_every_request() -> None:
    provider = FakeProvider(STREAM)
    assert [len(ask(provider, chat()).tool_calls) for _ in range(3)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([MessageStart(), TextDelta(0, "a")], "turn 1: event 1: text_delta of block 0"),
        ([MessageStart()], "turn 1: event 1: choice 0 ends without message_stop"),
        ([Ping(), MessageStop("end_turn")], "turn 1: event 1: message_stop comes first"),
    ],
)
def test_events_that_break_the_grammar_are_refused(events: list[Any], words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        FakeProvider(["Hello", events])


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (7, "turn 1: int, expected text"),
        (["a", {"text": "b"}], "turn 1: dict, expected text"),
        (["a", [tool_call("f")]], "turn 1: list, expected text"),
        ([*STREAM, "a"], "turn 1: str among events"),
        (None, "turn 1: NoneType"),
    ],
    ids=repr,
)
def test_value_that_is_no_turn_is_refused(turn: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        FakeProvider(["Hello", turn])


# Functions


def test_function_is_called_with_the_request() -> None:
    def answer(request: FakeRequest) -> str:
        return f"{request.dialect}: {request.body['messages'][-1]['content']}"

    provider = FakeProvider(answer)
    for request_of, dialect in ((chat, "openai_chat"), (messages, "anthropic")):
        for words in ("Snow?", "Rain?"):
            request = request_of(messages=[{"role": "user", "content": words}])
            assert ask(provider, request).text == f"{dialect}: {words}"


@pytest.mark.parametrize("answer", [None, lambda _: "Hello"])
def test_function_that_returns_no_turn_is_a_type_error(answer: Any) -> None:
    with pytest.raises(TypeError, match=r"^answer to FakeRequest\('POST', .*expected text"):
        FakeProvider([lambda _: answer]).respond(chat())


def test_events_of_a_function_are_validated() -> None:
    with pytest.raises(LocalProtocolError, match="choice 0 ends without message_stop"):
        FakeProvider(lambda _: [MessageStart()]).respond(chat())
