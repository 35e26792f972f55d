"""The public API as type checkers see it: mypy and pyright read this file, nobody runs it.

`assert_type` pins what a user's editor shows; a comment that ignores an error is itself an
error where there is none to ignore.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true
from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import assert_never, assert_type

import httpx
import httpx2
from starlette.responses import Response

import streamnorm
import streamnorm.state
import streamnorm.transports.httpx
import streamnorm.transports.httpx2
from streamnorm import (
    Abandoned,
    Accumulator,
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Completed,
    Conversation,
    Document,
    Encoded,
    Event,
    Failed,
    Image,
    InputBlock,
    JSONDelta,
    Limits,
    Loss,
    Message,
    MessageStart,
    MessageStop,
    Note,
    Opaque,
    OpaqueBlock,
    Outcome,
    Ping,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    RefusalDelta,
    Request,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StopReason,
    Stream,
    StreamError,
    SyncStream,
    Text,
    TextDelta,
    Tool,
    ToolCall,
    ToolResult,
    Transcoder,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm.asgi import EventStreamResponse, MessageResponse
from streamnorm.codec import Decoder, Encoder, Feed
from streamnorm.partial_json import PartialJSON
from streamnorm.recording import Recording
from streamnorm.sse import Frame
from streamnorm.testing import FakeProvider, FakeRequest, faults, tool_call
from streamnorm.tools import CustomTool, MCPServer, ServerTool
from streamnorm.validation import Violation


def every_event_is_matched(event: Event) -> str:
    match event:
        case TextDelta(index, text) | RefusalDelta(index, text):
            assert_type(index, int)
            return assert_type(text, str)
        case ReasoningDelta(_, text, part):
            return text * assert_type(part, int)
        case JSONDelta(_, partial_json):
            return assert_type(partial_json, str)
        case SignatureDelta(_, signature, issuer):
            return signature + (assert_type(issuer, str | None) or "")
        case CitationDelta(_, citation):
            return citation.kind
        case BlockStart(index, block, choice):
            assert_type(block, Block)
            return str(index + choice)
        case BlockStop(index):
            return str(index)
        case UsageUpdate(usage):
            assert_type(usage, Usage)
            return str(assert_type(usage.input_tokens, int | None))
        case MessageStart(id, model):
            return id + model
        case MessageStop(reason, raw_reason):
            assert_type(reason, StopReason)
            return assert_type(raw_reason, str | None) or ""
        case StreamError(kind, message):
            return kind + message
        case Ping():
            return ""
        case Opaque(dialect, name, data):
            return dialect + name + data
        case _:
            assert_never(event)


def an_event_that_is_forgotten_is_found(event: Event) -> int:
    match event:
        case TextDelta(index) | RefusalDelta(index) | ReasoningDelta(index) | JSONDelta(index):
            return index
        case SignatureDelta(index) | CitationDelta(index) | BlockStart(index) | BlockStop(index):
            return index
        case UsageUpdate() | MessageStart() | MessageStop() | StreamError() | Ping():
            return 0
        case _:  # an Opaque may come here
            assert_never(event)  # type: ignore[arg-type]


def every_block_is_matched(block: Block) -> str:
    match block:
        case Text(text) | Refusal(text):
            return text
        case Reasoning(parts):
            assert_type(parts, tuple[str, ...])
            return block.text
        case ToolCall(_, name, arguments) | ServerToolCall(_, name, arguments):
            assert_type(block.input(), dict[str, object])
            return name + arguments
        case RedactedReasoning(data):
            return data
        case ServerToolResult(tool_call_id, kind):
            return tool_call_id + kind
        case ToolResult(tool_call_id):
            return tool_call_id
        case Image(media_type) | Document(media_type):
            return media_type or ""
        case OpaqueBlock(_, kind):
            return kind
        case _:
            assert_never(block)


def every_outcome_is_matched(outcome: Outcome) -> str:
    match outcome:
        case Completed(reason, usage, lenient):
            assert_type(usage, Usage)
            assert_type(lenient, tuple[str, ...])
            return reason
        case Failed(error) | Truncated(error):
            return error.message
        case Abandoned():
            return ""
        case _:
            assert_never(outcome)


def the_core_has_one_contract(data: bytes) -> None:
    reader = assert_type(streamnorm.codec.decoder("anthropic", server="kimi"), Decoder)
    events: Feed[Event] = reader
    assert_type(events.feed(data) + events.close(), list[Event])
    assert_type(reader.outcome, Outcome | None)
    assert_type(reader.notes, tuple[Note, ...])

    writer = assert_type(
        streamnorm.codec.encoder("openai_chat", reasoning="reasoning_details", include_usage=False),
        Encoder,
    )
    assert_type(writer.encode(Ping()), bytes)
    assert_type(writer.losses, tuple[Loss, ...])
    streamnorm.codec.encoder("openai_chat", reasoning="thoughts")  # type: ignore[arg-type]

    transcoder = Transcoder(None, "openai_chat", verbatim=False, limits=Limits(max_blocks=3))
    pieces: Feed[bytes] = transcoder
    assert_type(pieces.feed(data), list[bytes])
    assert_type(transcoder.message, Message)


def messages_add_up(events: list[Event]) -> None:
    message = assert_type(streamnorm.accumulate(events), Message)
    assert_type(streamnorm.message_events(message), list[Event])
    assert_type(message.tool_calls, tuple[ToolCall, ...])
    accumulator = Accumulator()
    for event in events:
        accumulator.push(event)
    assert_type(accumulator.partial_input(0), dict[str, object])
    assert_type(streamnorm.project(events, "anthropic"), tuple[list[Event], tuple[Loss, ...]])
    PartialJSON().feed("{")


def both_forms_are_validated(events: Iterator[Event], data: bytes) -> None:
    assert_type(streamnorm.validation.validate(events), list[Violation])
    assert_type(streamnorm.validation.validate(data, "anthropic"), list[Violation])
    streamnorm.validation.validate(data)  # type: ignore[arg-type]


async def tools(message: Message, listed: list[Tool]) -> None:
    async def get_weather(city: str) -> str:
        return city

    executors = {"get_weather": get_weather, "upper": str.upper}
    results = await streamnorm.run_tools(message, executors, tools=listed, arguments="repair")
    assert_type(results, tuple[ToolResult, ...])
    await streamnorm.run_tools(message.tool_calls, executors, concurrent=False)
    await streamnorm.run_tools(message.blocks, executors, arguments="raw")  # type: ignore[arg-type]


def conversations(request: Request, message: Message, events: list[Event]) -> None:
    chat = Conversation(request)
    chat.append(message, dialect="anthropic")
    chat.append(b"{}", server="vllm")
    chat.append(3)  # type: ignore[arg-type]
    with chat.append_stream(dialect="gemini") as answer:
        assert_type(answer.feed(b""), list[Event])
        answer.push(events[0])
    assert_type(answer.message, Message)
    assert_type(chat.open_tool_calls(), tuple[ToolCall, ...])
    chat.append_tool_result("call-1", "21 degrees", is_error=True)
    assert_type(chat.dump("openai_chat", repair="fill"), Encoded)
    assert_type(Conversation.from_json(chat.to_json()), Conversation)


async def asynchronous_streams(
    response: httpx.Response, client: httpx.AsyncClient, source: AsyncIterator[bytes]
) -> None:
    async with streamnorm.events(response, dialect="anthropic") as stream:
        assert_type(stream, Stream[Event])
        async for event in stream:
            assert_type(event, Event)
    chunks = assert_type(
        streamnorm.transcode(source, to="openai_chat", reasoning="reasoning"), Stream[bytes]
    )
    EventStreamResponse(chunks)
    observed: Callable[[Event], object] = print
    assert_type(streamnorm.tap(response, observed), Stream[bytes])
    streamnorm.tap(response, observed, keep_message=False)
    streamnorm.transcode(source, to="openai_chat", keep_message=False)
    streamnorm.transcode(source, to="openai_chat", reply=streamnorm.Reply())
    streamnorm.events(source, keep_message=False)  # type: ignore[call-arg]
    assert_type(await anext(aiter(chunks)), bytes)
    assert_type(stream.message, Message)
    url = "http://127.0.0.1/"
    events = streamnorm.connect(client, "POST", url, json={}, errors="yield")
    assert_type(events, Stream[Event])
    answer = streamnorm.connect(client, "POST", url, json={}, to="anthropic", model="m")
    assert_type(answer, Stream[bytes])
    EventStreamResponse(answer)
    EventStreamResponse(events)  # type: ignore[arg-type]
    sent = MessageResponse(events, to="anthropic", reply=streamnorm.Reply(), headers={"a": "b"})
    responses: list[Response] = [EventStreamResponse(answer), sent]  # a route's return type
    assert_type(responses[0].status_code, int)
    assert_type(sent.losses, tuple[Loss, ...])
    MessageResponse(answer, to="anthropic")  # type: ignore[arg-type]
    MessageResponse(events)  # type: ignore[call-arg]
    streamnorm.connect(client, "POST", url, to=1)  # type: ignore[call-overload]
    streamnorm.connect(client, "POST", url, jsn={})  # type: ignore[call-overload]
    streamnorm.connect(client, "POST", url, headers=[("a", "b")], timeout=9.0)
    streamnorm.connect(client, "POST", url, to="anthropic", model=1)  # type: ignore[call-overload]
    streamnorm.transcode(source, to="openai_chat", resoning=None)  # type: ignore[call-arg]


def whole_bodies(received: bytes, frame: Frame) -> None:
    request = assert_type(streamnorm.decode_request(received, path="/v1/messages"), Request)
    encoded = streamnorm.encode_request(request, "openai_chat", repair="fill", arguments="raw")
    assert_type(encoded, Encoded)
    assert_type(encoded.headers, dict[str, str])
    assert_type(streamnorm.translate_request(encoded.body, to="gemini", server="vertex"), Encoded)
    message = assert_type(streamnorm.decode_message(received.decode(), "claude"), Message)
    assert_type(streamnorm.encode_message(message, "gemini", reply=encoded.reply), Encoded)
    assert_type(streamnorm.translate_message(encoded.body, to="gemini", created=1.0), Encoded)
    assert_type(streamnorm.detect(received), str | None)
    assert_type(streamnorm.detect(encoded.body), str | None)
    assert_type(streamnorm.detect(frame), str | None)
    for input_message in request.messages:
        assert_type(input_message.tool_results, tuple[ToolResult, ...])
        for block in input_message.blocks:
            assert_type(block, InputBlock)
    (tool,) = streamnorm.tools.decode_tools([{"name": "f", "input_schema": {}}], "anthropic")
    assert_type(tool, Tool | CustomTool | ServerTool | MCPServer)
    assert_type(streamnorm.tools.encode_tools([tool], "gemini", server="vertex"), Encoded)
    streamnorm.tools.check_tools([tool], "gemini")
    assert_type(streamnorm.tools.simplify_schema({}).losses, tuple[Loss, ...])
    assert_type(Tool.from_mcp({}).name, str)
    assert_type(ToolResult.from_mcp(object(), "call_1"), ToolResult)
    streamnorm.encode_request(request, "openai_chat", repair="fil")  # type: ignore[arg-type]
    streamnorm.encode_request(request)  # type: ignore[call-arg]
    streamnorm.detect(5)  # type: ignore[arg-type]


def synchronous_streams(source: list[bytes]) -> None:
    stream = assert_type(streamnorm.iter_events(source), SyncStream[Event])
    for event in stream:
        every_event_is_matched(event)
    assert_type(stream.outcome, Outcome | None)
    for chunk in streamnorm.iter_transcode(source, to="anthropic", verbatim=False):
        assert_type(chunk, bytes)
    assert_type(Recording.load("x.sse").body, bytes)


def transports_are_those_of_their_package(path: str) -> None:
    one = streamnorm.transports.httpx.RecordingTransport(httpx.HTTPTransport(), path)
    other = streamnorm.transports.httpx2.RecordingTransport(httpx2.AsyncHTTPTransport(), path)
    httpx.Client(transport=one)
    httpx2.AsyncClient(transport=other)
    httpx.AsyncClient(transport=streamnorm.transports.httpx.ReplayTransport(path, speed=1))
    httpx2.Client(transport=streamnorm.transports.httpx2.ReplayTransport(path, drift="warn"))
    transcoding = streamnorm.transports.httpx2.TranscodingTransport(
        other, client="anthropic", upstream="openai_chat", base_url="https://h", strict=True
    )
    httpx2.AsyncClient(transport=transcoding)
    assert_type(transcoding.losses, tuple[streamnorm.Loss, ...])
    assert_type(transcoding.outcome, streamnorm.Outcome | None)
    streamnorm.transports.httpx.TranscodingTransport(one, client="anthropic")  # type: ignore[call-arg]
    assert_type(one.handle_request(httpx.Request("GET", path)), httpx.Response)
    streamnorm.transports.httpx.RecordingTransport(httpx2.HTTPTransport(), path)  # type: ignore[arg-type]
    httpx2.Client(transport=one)  # type: ignore[arg-type]
    streamnorm.transports.httpx.ReplayTransport(path, spede=1)  # type: ignore[call-arg]


async def one_store_serves_both_kinds_of_callers(scope: str) -> None:
    store = streamnorm.state.MemoryStore(max_responses=100, max_age_s=3600)
    asynchronous: streamnorm.state.ResponseStore = store
    synchronous: streamnorm.state.SyncResponseStore = store
    turn = streamnorm.state.Turn(b"{}")
    found = assert_type(await asynchronous.afind(scope, turn.lookup), streamnorm.state.Found)
    assert_type(synchronous.find(scope, turn.lookup), streamnorm.state.Found)
    streamnorm.decode_request(turn.expand(found), "openai_responses")
    stored = assert_type(turn.stored({}), streamnorm.state.StoredResponse | None)
    if stored is not None:
        synchronous.put(scope, stored)
    assert_type(turn.reply(streamnorm.Reply()), streamnorm.Reply)


async def a_url_opens_a_store(scope: str) -> None:
    store = streamnorm.state.open_store("sqlite:state.db", ttl_s=3600)
    asynchronous: streamnorm.state.ResponseStore = store
    if not isinstance(store, streamnorm.state.RedisStore):
        synchronous: streamnorm.state.SyncResponseStore = store
        synchronous.delete(scope, "resp_1")
    assert_type(await asynchronous.adelete(scope, "resp_1"), bool)
    streamnorm.state.SQLiteStore("state.db", max_chain_bytes=1024, timeout_s=1)
    streamnorm.state.SQLiteStore("state.db", ttl="1h")  # type: ignore[call-arg]
    streamnorm.state.RedisStore("redis://127.0.0.1", ttl_s="1h")  # type: ignore[arg-type]
    assert_type(await store.aclose(), None)


def play(request: FakeRequest) -> str:
    return request.path


def script() -> None:
    call = tool_call("get_weather", city="Oslo")
    FakeProvider(["I look. ", call])
    FakeProvider([["I look. ", call], "It snows."])
    FakeProvider([["It snows.", faults.stall(event=3)], faults.http(529), play])
    FakeProvider([MessageStart("", ""), MessageStop("end_turn")])
    FakeProvider(play)
    FakeProvider([1])  # type: ignore[list-item]
    FakeProvider(call, faults=[faults.http(503), faults.cut(event=2)])
    FakeProvider(call, faults=[play])  # type: ignore[list-item]


def played(path: str) -> None:
    refused, cut = [faults.http(503)], [faults.cut(event=2)]
    streamnorm.transports.httpx2.ReplayTransport(path, faults=refused)
    streamnorm.transports.httpx.ReplayTransport(path, faults=cut)
