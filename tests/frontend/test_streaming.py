"""`stream_run` and `iter_run`: an agent's loop as the response of a page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint
from support.http.asgi_client import HEADERS, Client
from support.streams.content import PROVIDERS

from streamnorm import (
    Abandoned,
    BlockStart,
    BlockStop,
    Completed,
    Conversation,
    EncodeError,
    Event,
    Failed,
    InputMessage,
    LocalProtocolError,
    MessageStart,
    MessageStop,
    Outcome,
    Request,
    Stream,
    StreamError,
    Text,
    TextDelta,
    Tool,
    ToolResult,
    Truncated,
    TruncatedStream,
    UpstreamError,
    Usage,
    connect,
    run_tools,
)
from streamnorm.asgi import EventStreamResponse
from streamnorm.frontend import RunItem, iter_run, stream_run
from streamnorm.testing import FakeProvider, tool_call

pytestmark = pytest.mark.anyio

UI, AG = "ui_message_stream", "ag_ui"
BOTH = pytest.mark.parametrize("to", [UI, AG])
TOOLS = (Tool("weather", "The weather", {"type": "object", "properties": {}}),)
ANSWER: tuple[Event, ...] = (
    MessageStart("msg_1", "m-1"),
    BlockStart(0, Text()),
    TextDelta(0, "Hi."),
    BlockStop(0),
    MessageStop("end_turn"),
)


async def weather(city: str) -> str:
    if city == "Atlantis":
        raise LookupError("no such city")
    return f"-3 in {city}"


async def run_agent(provider: FakeProvider, dialect: str = "anthropic") -> AsyncIterator[RunItem]:
    """Ask, execute the calls, and ask again."""
    question = InputMessage("user", (Text("How cold is it?"),))
    chat = Conversation(Request(model="m-1", tools=TOOLS, stream=True, messages=(question,)))
    async with provider.client(httpx.AsyncClient) as client:
        while True:
            request = chat.dump(dialect, model="m-1")
            url, body = "https://api.example" + request.path, request.body
            async with connect(client, "POST", url, dialect=dialect, json=body) as stream:
                with chat.append_stream(dialect=dialect, reply=request.reply) as answer:
                    async for event in stream:
                        for passed in answer.push(event):
                            yield passed
            if not chat.open_tool_calls():
                return
            results = await run_tools(answer.message, {"weather": weather})
            chat.append(InputMessage("user", results))
            yield results


async def items(*given: RunItem, error: Exception | None = None) -> AsyncIterator[RunItem]:
    for item in given:
        yield item
    if error is not None:
        raise error


def chunks_of(body: bytes) -> list[dict[str, Any]]:
    frames = [frame.removeprefix("data: ") for frame in body.decode().split("\n\n") if frame]
    return [json.loads(frame) for frame in frames if frame != "[DONE]"]


async def read_into(written: list[bytes], stream: Stream[bytes]) -> None:
    """Read a stream; what it has returned stays if it raises."""
    async for chunk in stream:
        written += (chunk,)


async def respond(agent: AsyncIterator[RunItem], to: str, **options: Any) -> Client:
    client = Client()
    await client.request(EventStreamResponse(stream_run(agent, to=to, **options)))
    return client


@BOTH
@pytest.mark.parametrize("dialect", PROVIDERS)
async def test_loop_of_an_agent_is_one_response(to: str, dialect: str) -> None:
    asked = [tool_call("weather", city="Oslo"), tool_call("weather", city="Atlantis")]
    provider = FakeProvider([asked, "Cold."])
    client = await respond(run_agent(provider, dialect), to)
    chunks = chunks_of(b"".join(client.bodies))
    assert client.finished
    texts = [
        each["delta"]
        for each in chunks
        if each["type"].lower().startswith("text") and "delta" in each
    ]
    assert "".join(texts) == "Cold."
    told = [each.get("output") or each.get("errorText") or each.get("content") for each in chunks]
    assert [each for each in told if each] == ["-3 in Oslo", "LookupError: no such city"]
    ends = [each["type"] for each in chunks if each["type"] in ("finish", "RUN_FINISHED")]
    assert len(ends) == 1
    assert chunks[-1]["type"] == ends[0]
    assert len(provider.requests) == 2


async def test_response_has_the_headers_of_the_page() -> None:
    client = await respond(items(*ANSWER), UI)
    assert client.headers == {**HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
    assert (await respond(items(*ANSWER), AG)).headers == HEADERS


async def test_events_are_sent_as_they_come() -> None:
    stream = stream_run(items(*ANSWER), to=UI)
    assert b'"start"' in await anext(stream)
    assert b'"text-start"' in await anext(stream)
    assert stream.ping() == b": keep-alive\n\n"
    assert stream.outcome is None
    await stream.aclose()


async def test_ids_of_the_page_are_written() -> None:
    stream = stream_run(items(*ANSWER), to=AG, ids={"threadId": "t", "runId": "r"})
    async with stream:
        first = chunks_of(await anext(stream))[0]
    assert (first["threadId"], first["runId"]) == ("t", "r")


@BOTH
@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (UpstreamError("Overloaded.", status=529), "Overloaded."),
        (TruncatedStream("connection lost after 3 events"), "connection lost after 3 events"),
    ],
)
async def test_answer_that_fails_ends_the_run(to: str, error: Exception, shown: str) -> None:
    seen: list[Outcome] = []
    client = await respond(items(*ANSWER, *ANSWER[:3], error=error), to, on_end=seen.append)
    last = chunks_of(b"".join(client.bodies))[-1]
    assert last["type"] in ("error", "RUN_ERROR")
    assert shown in last.values()
    assert client.finished
    assert isinstance(seen[0], Failed | Truncated)


@BOTH
async def test_error_event_ends_the_run_and_closes_the_agent(to: str) -> None:
    closed: list[bool] = []

    async def agent() -> AsyncIterator[RunItem]:
        try:
            for event in (*ANSWER[:3], StreamError("upstream", "Overloaded."), *ANSWER[3:]):
                yield event
        finally:
            closed.append(True)

    stream = stream_run(agent(), to=to)
    body = b"".join([chunk async for chunk in stream])
    assert "Overloaded." in chunks_of(body)[-1].values()
    assert isinstance(stream.outcome, Failed)
    assert closed == [True]


@BOTH
async def test_refusal_of_the_first_request_is_an_error_response(to: str) -> None:
    refusal = UpstreamError("Slow down.", status=429, code="rate_limit_error")
    client = await respond(items(error=refusal), to)
    assert client.status == 429
    assert b"Slow down." in b"".join(client.bodies)


@BOTH
async def test_run_without_an_answer_is_an_error_response(to: str) -> None:
    client = await respond(items(), to)
    assert client.status == 502
    assert b"the run ended before its first answer" in b"".join(client.bodies)


@BOTH
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("key sk-1"), EncodeError("no legal form", path="messages[0]")]
)
async def test_error_of_the_agent_is_raised_after_the_page_has_one(
    to: str, error: Exception
) -> None:
    error.__cause__ = cause = ValueError()
    stream = stream_run(items(*ANSWER[:3], error=error), to=to)
    written: list[bytes] = []
    with pytest.raises(type(error)) as raised:
        await read_into(written, stream)
    body = b"".join(written)
    assert raised.value is error
    assert error.__cause__ is cause
    last = chunks_of(body)[-1]
    assert "the agent failed before its answer was complete" in last.values()
    assert b"sk-1" not in body
    assert isinstance(stream.outcome, Truncated)


@BOTH
@pytest.mark.parametrize("keepalive_s", [None, 15])
async def test_response_of_a_broken_agent_ends_in_its_error(
    to: str, keepalive_s: float | None
) -> None:
    client = Client()
    run = stream_run(items(*ANSWER[:3], error=ZeroDivisionError()), to=to)
    with pytest.raises(ZeroDivisionError):  # which the server logs
        await client.request(EventStreamResponse(run, keepalive_s=keepalive_s))
    assert chunks_of(b"".join(client.bodies))[-1]["type"] in ("error", "RUN_ERROR")
    # Clients drop what they have not read of a response that breaks off, the error, too.
    assert client.finished


async def test_error_of_the_agent_before_the_first_byte_is_raised() -> None:
    client = Client()
    response = EventStreamResponse(stream_run(items(error=ZeroDivisionError()), to=UI))
    with pytest.raises(ZeroDivisionError):
        await client.request(response)
    assert client.messages == []


@BOTH
async def test_item_that_is_wrong_is_an_error_of_the_agent(to: str) -> None:
    stream = stream_run(items(*ANSWER[:2], ANSWER[0], *ANSWER[2:]), to=to)
    written: list[bytes] = []
    with pytest.raises(LocalProtocolError, match="second message_start, expected one"):
        await read_into(written, stream)
    assert chunks_of(b"".join(written))[-1]["type"] in ("error", "RUN_ERROR")


async def test_page_that_leaves_cancels_the_agent() -> None:
    client = Client()
    left: list[bool] = []

    async def agent() -> AsyncIterator[RunItem]:
        try:
            for event in ANSWER[:3]:
                yield event
            client.gone.set()
            await anyio.sleep_forever()
        finally:
            left.append(True)

    seen: list[Outcome] = []
    stream = stream_run(agent(), to=UI, on_end=seen.append)
    await client.request(EventStreamResponse(stream))
    assert left == [True]
    assert seen == [Abandoned()]


async def grouped_agent(left: list[str]) -> AsyncIterator[RunItem]:
    """An agent with a task group open, as a client of MCP has one."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            for event in ANSWER:
                yield event
            tasks.cancel_scope.cancel()
    finally:
        left.append("left")


@pytest.mark.parametrize("keepalive_s", [None, 15])
async def test_page_that_leaves_while_an_event_is_sent_ends_the_scopes_of_the_agent(
    keepalive_s: float | None,
) -> None:
    left: list[str] = []
    seen: list[Outcome] = []

    async def block(message: Any) -> None:
        if b"text-delta" in message.get("body", b""):
            client.gone.set()
            await anyio.sleep_forever()

    client = Client(block)
    stream = stream_run(grouped_agent(left), to=UI, on_end=seen.append)
    await client.request(EventStreamResponse(stream, keepalive_s=keepalive_s))
    await checkpoint()  # no scope of the agent is left around this task
    assert left == ["left"]
    assert seen == [Abandoned()]


async def test_run_that_is_left_ends_the_scopes_of_its_agent() -> None:
    left: list[str] = []
    with anyio.CancelScope() as scope:
        async with stream_run(grouped_agent(left), to=UI) as stream:
            await anext(stream)
        assert left == ["left"]
    assert not scope.cancelled_caught
    assert stream.outcome == Abandoned()


async def test_error_of_an_agent_that_is_closed_is_raised() -> None:
    async def agent() -> AsyncIterator[RunItem]:
        try:
            async with anyio.create_task_group():
                for event in ANSWER:
                    yield event
        except BaseExceptionGroup as group:
            raise BaseExceptionGroup("", [*group.exceptions, ZeroDivisionError()]) from None

    stream = stream_run(agent(), to=UI)
    await anext(stream)
    with pytest.raises(ExceptionGroup) as caught:
        await stream.aclose()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]


async def test_run_reports_its_message_and_its_usage() -> None:
    stream = stream_run(items(*ANSWER, *ANSWER), to=UI)
    async for _ in stream:
        pass
    assert [*stream.message.blocks] == [Text("Hi."), Text("Hi.")]
    assert stream.outcome == Completed("end_turn", Usage())
    assert (stream.usage, stream.losses, stream.notes, stream.dialect) == (Usage(), (), (), None)


def test_agent_may_be_synchronous() -> None:
    def agent() -> Iterator[RunItem]:
        yield from ANSWER
        yield ToolResult("c", (Text("1"),))

    stream = iter_run(agent(), to=AG, ids={"runId": "r"})
    chunks = chunks_of(b"".join(stream))
    assert [each["type"] for each in chunks][-2:] == ["TOOL_CALL_RESULT", "RUN_FINISHED"]
    assert stream.outcome == Completed("end_turn", Usage())


def test_source_of_a_run_is_an_iterable() -> None:
    with pytest.raises(TypeError, match="int is no source"):
        stream_run(1, to=UI)  # type: ignore[arg-type]  # what the error is about
