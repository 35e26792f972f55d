"""What we encode is what the official OpenAI SDK reads as Responses.

Every written recording, every fifth real stream of other dialects, and streams that were
made up, are served to the SDK, which must arrive at the message that the projected
events add up to: by its helper, by the deltas alone, by the items alone and by the end.

The helper gives no final response where one is incomplete; what it says until then is
read, and the end of the raw stream.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx2
import openai
import pytest
from acceptance.responses_wire import broken_rules, frames
from hypothesis import given
from msgspec import structs
from openai.types.responses import Response, ResponseStreamEvent
from support.draws import Draws, draws
from support.streams.content import encode
from support.streams.corpus import CorpusStream, each_recording_of, each_stream_of
from support.streams.event_strategies import make_stream

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    Message,
    MessageStart,
    MessageStop,
    Reasoning,
    RedactedReasoning,
    Refusal,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    accumulate,
    project,
)
from streamnorm._core.text import Signed, tag_redacted_reasoning, untag_signature
from streamnorm.codec import decoder
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder
from streamnorm.recording import Recording

# Items of kinds that the SDK does not know.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")

REQUEST: dict[str, Any] = {"model": "m", "input": "-"}

Said = tuple[Any, ...]


class Served(NamedTuple):
    """A stream on its way to the SDK, and what it should find."""

    body: bytes
    message: Message
    error: StreamError | None


def serve(events: list[Event], *, extras: bool = False) -> Served:
    body, written = encode(events, "openai_responses", extras=extras)
    last = events[-1]
    error = last if isinstance(last, StreamError) else None
    passed, losses = project(events, "openai_responses", extras=extras)
    assert written == losses
    return Served(body, accumulate(passed), error)


def client_of(body: bytes) -> openai.OpenAI:
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: response))
    return openai.OpenAI(api_key="-", base_url="http://t", http_client=http, max_retries=0)


def raw_events(client: openai.OpenAI) -> list[ResponseStreamEvent]:
    return list(client.responses.create(**REQUEST, stream=True))


def helped(client: openai.OpenAI) -> tuple[list[Any], Any]:
    """Return what the SDK's helper tells, and its final response if there is one."""
    with client.responses.stream(**REQUEST) as stream:
        told = list(stream)
        completed = told[-1].type == "response.completed"
        return told, stream.get_final_response() if completed else None


# What a message says, in our words and in theirs


def our_items(message: Message) -> list[Said]:
    items: list[Said] = []
    for block in message.blocks:
        match block:
            case Text(text):
                items.append(("output_text", text))
            case Refusal(text):
                items.append(("refusal", text))
            case Reasoning(parts, None):
                items.append(("reasoning", parts, None))
            case Reasoning(parts, str(signature), issuer, id):
                items.append(("reasoning", parts, Signed(signature, issuer, id)))
            case RedactedReasoning(data, issuer, id):
                sealed = Signed(tag_redacted_reasoning(data, issuer, id), "openai")
                items.append(("reasoning", (), sealed))
            case ToolCall(id, name, arguments, "function"):
                items.append(("function_call", id, name, arguments or "{}"))
            case ToolCall(id, name, arguments):
                items.append(("custom_tool_call", id, name, arguments))
            case _:
                raise AssertionError(block)
    return items


def opened(item: Any) -> Signed | None:
    """Return the encrypted content of an item, with the id that it is bound to."""
    encrypted = item.encrypted_content
    if encrypted is None:
        return None
    if encrypted.startswith("sn1-redacted"):
        return Signed(encrypted, "openai")
    return untag_signature(encrypted) or Signed(encrypted, "openai", item.id)


def sdk_items(output: list[Any]) -> list[Said]:
    """Return what items of the SDK say."""
    items: list[Said] = []
    for item in output:
        match item.type:
            case "message":
                assert item.role == "assistant"
                items += [
                    (p.type, p.text if p.type == "output_text" else p.refusal) for p in item.content
                ]
            case "reasoning":
                texts = tuple(part.text for part in item.summary)
                items.append((item.type, texts, opened(item)))
            case "function_call":
                items.append((item.type, item.call_id, item.name, item.arguments))
            case "custom_tool_call":
                items.append((item.type, item.call_id, item.name, item.input))
            case other:
                raise AssertionError(other)
    return items


def items_of_deltas(events: list[Any]) -> list[Said]:
    """Return what deltas add up to, by hand; what is encrypted comes in no delta."""
    items: list[list[Any]] = []
    for event in events:
        match event.type:
            case "response.output_item.added" if event.item.type == "message":
                items.append(["empty message"])
            case "response.output_item.added" if event.item.type == "reasoning":
                items.append(["reasoning", (), None])
            case "response.output_item.added":
                items.append([event.item.type, event.item.call_id, event.item.name, ""])
            case "response.content_part.added":
                items[event.output_index] = [event.part.type, ""]
            case "response.reasoning_summary_part.added":
                items[event.output_index][1] += ("",)
            case "response.reasoning_summary_text.delta":
                *before, last = items[event.output_index][1]
                items[event.output_index][1] = (*before, last + event.delta)
            case "response.output_item.done" if event.item.type == "reasoning":
                items[event.output_index][2] = opened(event.item)
            case kind if kind.endswith(".delta"):
                items[event.output_index][-1] += event.delta
            case _:
                pass
    return [tuple(item) for item in items]


def check(served: Served) -> None:
    assert broken_rules(served.body, failed=served.error is not None) == []
    if served.error is not None:
        check_error(served.body, served.error)
        return
    items = our_items(served.message)
    with client_of(served.body) as client:
        events: list[Any] = raw_events(client)
    assert items_of_deltas(events) == items
    done = [event for event in events if event.type == "response.output_item.done"]
    # An unfinished call is done behind the items that follow it.
    done.sort(key=lambda event: event.output_index)
    assert sdk_items([event.item for event in done]) == items
    check_response(events[-1].response, served.message, items)
    with client_of(served.body) as client:
        told, final = helped(client)
    check_snapshots(told, items)
    if final is None:
        assert events[-1].type == "response.incomplete"
    else:
        check_response(final, served.message, items)


def check_snapshots(told: list[Any], items: list[Said]) -> None:
    """Check what the helper has added up when a text is done."""
    snapshots: dict[int, str] = {}
    for event in told:
        kinds = ("response.output_text.delta", "response.function_call_arguments.delta")
        if event.type in kinds and event.snapshot:
            snapshots[event.output_index] = event.snapshot
    known = {
        number: item[-1]
        for number, item in enumerate(items)
        if item[0] in ("output_text", "function_call") and item[-1]
    }
    assert snapshots == known


def check_response(response: Response, message: Message, items: list[Said]) -> None:
    assert sdk_items(response.output) == items
    assert response.output_text == message.text
    assert response.id.startswith("resp_")
    assert response.model == message.model
    assert (response.status, reason_of(response)) == end_of(message)
    usage, said = response.usage, message.usage
    assert usage is not None
    inner, outer = usage.input_tokens_details, usage.output_tokens_details
    assert usage.input_tokens == (said.input_tokens or 0)
    assert usage.output_tokens == (said.output_tokens or 0)
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert inner.cached_tokens == (said.cache_read_tokens or 0)
    assert inner.cache_write_tokens == (said.cache_write_tokens or 0)
    assert outer.reasoning_tokens == (said.reasoning_tokens or 0)


def reason_of(response: Response) -> str | None:
    return response.incomplete_details.reason if response.incomplete_details else None


def end_of(message: Message) -> tuple[str, str | None]:
    """Return how a message ends in the words of the dialect."""
    kinds = {type(block) for block in message.blocks}
    if message.stop_reason == "max_tokens":
        return "incomplete", "max_output_tokens"
    if message.stop_reason == "refusal" and (Refusal not in kinds or ToolCall in kinds):
        return "incomplete", "content_filter"
    return "completed", None


def check_error(body: bytes, error: StreamError) -> None:
    for read in (raw_events, helped):
        with client_of(body) as client, pytest.raises(openai.APIError) as info:
            read(client)
        # The SDK has words of its own where the provider has none.
        assert info.value.message == error.message or error.message == ""
    last = frames(body)[-1]
    assert last["response"]["error"]["message"] == error.message


def decoded(body: bytes, dialect: str, server: str | None = None) -> list[Event]:
    reader = decoder(dialect, server=server)
    return reader.feed(body) + reader.close()


@each_recording_of("openai_chat", "anthropic", "gemini")
def test_written_recording_gives_the_sdk_its_message(recording: Recording) -> None:
    check(serve(decoded(recording.body, recording.dialect or "", recording.server)))


@each_stream_of("openai_chat", one_in=10)
def test_real_stream_of_chat_gives_the_sdk_its_message(stream: CorpusStream) -> None:
    check(serve(decoded(stream.body, stream.dialect)))


@each_stream_of("anthropic", one_in=10)
def test_real_stream_of_anthropic_gives_the_sdk_its_message(stream: CorpusStream) -> None:
    check(serve(decoded(stream.body, stream.dialect)))


@each_recording_of("openai_responses")
def test_written_recording_of_the_same_dialect_is_taken_anew(recording: Recording) -> None:
    """Its items come back as they were, and the SDK takes those that it has no type for."""
    events = read_responses(recording.body)
    served = serve(events, extras=True)
    if served.error is not None:
        check_error(served.body, served.error)
        return
    again = accumulate(read_responses(served.body))
    assert sourced(again) == sourced(served.message)
    assert (again.id, again.stop_reason) == (served.message.id, served.message.stop_reason)
    with client_of(served.body) as client:
        told, final = helped(client)
    assert (told[-1].response if final is None else final).output_text == served.message.text


def sourced(message: Message) -> list[Any]:
    """Return blocks and their sources, which may have got a title and a place."""
    return [
        (structs.replace(block, citations=()), [source.url for source in block.citations])
        if isinstance(block, Text)
        else block
        for block in message.blocks
    ]


def read_responses(body: bytes) -> list[Event]:
    reader = ResponsesDecoder()
    return reader.feed(body) + reader.close()


def test_signs_of_life_are_no_part_of_what_the_sdk_reads() -> None:
    writer = ResponsesEncoder()
    events: list[Event] = [
        *(MessageStart("msg_1", "m"), BlockStart(0, Text()), TextDelta(0, "hi"), BlockStop(0)),
        MessageStop("end_turn"),
    ]
    body = b"".join(writer.ping() + writer.encode(event) for event in events) + writer.ping()
    assert body.startswith(b": ping\n\n")
    assert body.count(b"event: keepalive") == 4
    with client_of(body) as client:
        _, final = helped(client)
    assert final.output_text == "hi"


@given(d=draws(300))
def test_any_stream_gives_the_sdk_its_message(d: Draws) -> None:
    events = make_stream(d, 1 + d.below(3), failing=d.flag(), calls_only=True, spoken=True)
    check(serve(events))
