"""Official clients that talk through a gateway to a provider of any dialect, streamed or whole.

The gateway translates each request, and the answer back.  It asks the provider for a stream
or for a whole body, whichever the client asked for.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import anthropic
import httpx
import httpx2
import openai
import pytest
from google import genai
from google.genai import types
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response
from support.http.provider_requests import PATHS
from support.http.strict_upstreams import strict_provider

import streamnorm
from streamnorm._registry import detect_path
from streamnorm.asgi import EventStreamResponse, MessageResponse
from streamnorm.testing import FakeProvider, tool_call

# The SDKs leave generators to the garbage collector, which trio complains about.
pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

UPSTREAM = "https://provider.example"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TURNS = [["One moment.", tool_call("get_weather", city="Oslo")], "It snows in Oslo."]


class Answer(NamedTuple):
    """What a client read of an answer."""

    text: str
    calls: list[tuple[str, str, Any]]
    reason: str


class Gateway:
    """An ASGI application that asks a provider of another dialect.

    Args:
        provider: The provider.
        target: Its dialect.
        streams: Whether it is asked for streams.
    """

    def __init__(self, provider: FakeProvider, target: str, *, streams: bool) -> None:
        self._upstream = provider.client(httpx.AsyncClient)
        self._target = target
        self._streams = streams

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        received = Request(scope, receive)
        path = received.url.path
        source = detect_path(path)
        assert source is not None
        request = streamnorm.decode_request(
            await received.body(), path=path, headers=received.headers
        )
        asked = structs.replace(request, stream=self._streams)
        encoded = streamnorm.encode_request(asked, self._target)
        url = UPSTREAM + encoded.path
        answer = self._streamed if self._streams else self._whole
        response = await answer(url, encoded, source, streams=request.stream is True)
        await response(scope, receive, send)

    async def _streamed(
        self, url: str, encoded: streamnorm.Encoded, source: str, *, streams: bool
    ) -> Any:
        sent, reply = encoded.body, encoded.reply
        if streams:
            stream = streamnorm.connect(
                self._upstream, "POST", url, json=sent, to=source, reply=reply
            )
            return EventStreamResponse(stream)
        events = streamnorm.connect(self._upstream, "POST", url, json=sent)
        return MessageResponse(events, to=source, reply=reply)

    async def _whole(
        self, url: str, encoded: streamnorm.Encoded, source: str, *, streams: bool
    ) -> Any:
        answer = await self._upstream.post(url, json=encoded.body)
        message = streamnorm.decode_message(answer.content, self._target)
        if not streams:
            body = streamnorm.encode_message(message, source, reply=encoded.reply).body
            return Response(json.dumps(body), media_type="application/json")
        writer = streamnorm.codec.encoder(source)
        out = b"".join(map(writer.encode, streamnorm.message_events(message))) + writer.close()
        return Response(out, media_type="text/event-stream")


# The clients: each runs a tool between two turns.


def openai_client(gateway: Gateway) -> openai.AsyncOpenAI:
    http_client = httpx2.AsyncClient(transport=httpx2.ASGITransport(gateway))
    return openai.AsyncOpenAI(api_key="-", base_url="http://gateway/v1", http_client=http_client)


async def ask_chat(gateway: Gateway, *, stream: bool) -> list[Answer]:
    function = {"name": "get_weather", "parameters": SCHEMA}
    options: dict[str, Any] = {
        "model": "m-1",
        "tools": [{"type": "function", "function": function}],
    }
    said: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Snow?"},
    ]
    answers = []
    async with openai_client(gateway) as client:
        for _ in TURNS:
            if stream:
                async with client.chat.completions.stream(messages=said, **options) as chunks:
                    completion: Any = await chunks.get_final_completion()
            else:
                completion = await client.chat.completions.create(messages=said, **options)
            choice = completion.choices[0]
            calls = choice.message.tool_calls or []
            answers.append(
                Answer(
                    choice.message.content,
                    [(c.id, c.function.name, json.loads(c.function.arguments)) for c in calls],
                    choice.finish_reason,
                )
            )
            said.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
            said += [{"role": "tool", "tool_call_id": c.id, "content": "snow"} for c in calls]
    return answers


async def ask_responses(gateway: Gateway, *, stream: bool) -> list[Answer]:
    tool = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}
    options: dict[str, Any] = {"model": "m-1", "tools": [tool], "instructions": "Be brief."}
    said: list[Any] = [{"role": "user", "content": "Snow?"}]
    answers = []
    async with openai_client(gateway) as client:
        for _ in TURNS:
            if stream:
                async with client.responses.stream(input=said, **options) as events:
                    response: Any = await events.get_final_response()
            else:
                response = await client.responses.create(input=said, **options)
            calls = [item for item in response.output if item.type == "function_call"]
            answers.append(
                Answer(
                    response.output_text,
                    [(c.call_id, c.name, json.loads(c.arguments)) for c in calls],
                    response.status,
                )
            )
            said += [item.model_dump(exclude_none=True) for item in response.output]
            for item in said:
                item.pop("parsed_arguments", None)
            said += [
                {"type": "function_call_output", "call_id": c.call_id, "output": "snow"}
                for c in calls
            ]
    return answers


async def ask_anthropic(gateway: Gateway, *, stream: bool) -> list[Answer]:
    options: dict[str, Any] = {
        "model": "m-1",
        "max_tokens": 500,
        "system": "Be brief.",
        "tools": [{"name": "get_weather", "input_schema": SCHEMA}],
    }
    said: list[Any] = [{"role": "user", "content": "Snow?"}]
    answers = []
    async with anthropic.AsyncAnthropic(
        api_key="-",
        base_url="http://gateway",
        http_client=httpx2.AsyncClient(transport=httpx2.ASGITransport(gateway)),
    ) as client:
        for _ in TURNS:
            if stream:
                async with client.messages.stream(messages=said, **options) as events:
                    message: Any = await events.get_final_message()
            else:
                message = await client.messages.create(messages=said, **options)
            calls = [block for block in message.content if block.type == "tool_use"]
            answers.append(
                Answer(
                    "".join(block.text for block in message.content if block.type == "text"),
                    [(c.id, c.name, c.input) for c in calls],
                    message.stop_reason,
                )
            )
            said.append({"role": "assistant", "content": message.content})
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": "snow"} for call in calls
            ]
            said.append({"role": "user", "content": results})
    return answers


async def ask_gemini(gateway: Gateway, *, stream: bool) -> list[Answer]:
    http_options = types.HttpOptions(
        base_url="http://gateway",
        httpx_async_client=httpx.AsyncClient(transport=httpx.ASGITransport(gateway)),
    )
    client = genai.Client(api_key="-", http_options=http_options)
    declaration = types.FunctionDeclaration(name="get_weather", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        tools=[types.Tool(function_declarations=[declaration])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    said: list[Any] = [types.Content(role="user", parts=[types.Part(text="Snow?")])]
    answers = []
    for _ in TURNS:
        options: dict[str, Any] = {"model": "m-1", "contents": said, "config": config}
        if stream:
            chunks = [c async for c in await client.aio.models.generate_content_stream(**options)]
        else:
            chunks = [await client.aio.models.generate_content(**options)]
        parts = [
            part
            for chunk in chunks
            for part in (chunk.candidates[0].content.parts or ())  # type: ignore[index,union-attr]  # they have one
        ]
        calls = [part.function_call for part in parts if part.function_call]
        answers.append(
            Answer(
                "".join(part.text or "" for part in parts),
                [(str(c.id), str(c.name), c.args) for c in calls],
                str(chunks[-1].candidates[0].finish_reason.value),  # type: ignore[index,union-attr]  # it has one
            )
        )
        said.append(types.Content(role="model", parts=[p for p in parts if p.text != ""]))
        said.append(
            types.Content(
                role="user",
                parts=[
                    types.Part(
                        function_response=types.FunctionResponse(
                            id=c.id, name=c.name, response={"output": "snow"}
                        )
                    )
                    for c in calls
                ],
            )
        )
    return answers


Ask = Callable[..., Awaitable[list[Answer]]]

CLIENTS: dict[str, tuple[Ask, tuple[str, str]]] = {
    "openai_chat": (ask_chat, ("tool_calls", "stop")),
    "openai_responses": (ask_responses, ("completed", "completed")),
    "anthropic": (ask_anthropic, ("tool_use", "end_turn")),
    "gemini": (ask_gemini, ("STOP", "STOP")),
}


@pytest.mark.parametrize("upstream_streams", [True, False], ids=["from a stream", "from a body"])
@pytest.mark.parametrize("client_streams", [True, False], ids=["as a stream", "as a body"])
@pytest.mark.parametrize("target", PATHS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_client_runs_a_tool_between_two_turns(
    client: str, target: str, client_streams: bool, upstream_streams: bool
) -> None:
    provider = strict_provider(TURNS)
    ask, reasons = CLIENTS[client]
    gateway = Gateway(provider, target, streams=upstream_streams)
    called, told = await ask(gateway, stream=client_streams)
    assert called == Answer(
        "One moment.", [("call_1", "get_weather", {"city": "Oslo"})], reasons[0]
    )
    assert told == Answer("It snows in Oslo.", [], reasons[1])
    assert [request.dialect for request in provider.requests] == [target] * 2
    first, second = (
        streamnorm.decode_request(request.body, target, path=request.path)
        for request in provider.requests
    )
    assert (first.model, first.stream is True) == ("m-1", upstream_streams)
    assert [tool.name for tool in first.tools if isinstance(tool, streamnorm.Tool)] == [
        "get_weather"
    ]
    assert "Be brief." in str(first)
    (call,) = (call for message in second.messages for call in message.tool_calls)
    assert (call.id, call.name, call.input()) == ("call_1", "get_weather", {"city": "Oslo"})
    (result,) = (result for message in second.messages for result in message.tool_results)
    assert result.tool_call_id == "call_1"
    assert "snow" in str(result.content)
