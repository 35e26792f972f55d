"""The official SDKs as clients of a transcoding transport or a gateway.

Each runs a conversation, with the results of its tool calls, and says what it read.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import anthropic
import httpx
import httpx2
import openai
from google import genai
from google.genai import errors, types
from support.gateway.sockets import ENDS

import streamnorm.transports.httpx
import streamnorm.transports.httpx2

__all__ = ["SDK", "SDKS", "Reading"]

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
QUESTION = "Snow?"
KEY = "sk-of-the-test"


class Reading(NamedTuple):
    """What a client read of an answer."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str, Any], ...] = ()


class SDK(ABC):
    """One dialect's SDK.

    Attributes:
        dialect: The dialect.
        http: The package whose clients it accepts.
        transports: streamnorm's transports for that package.
        status_error: Its exception for an error response.
        stream_error: Its exception for an error within a stream.
        connection_error: Its exception for a connection that breaks before an answer.
    """

    dialect: str
    http: Any = httpx2
    transports: Any = streamnorm.transports.httpx2
    status_error: type[Exception]
    stream_error: type[Exception]
    connection_error: type[Exception]

    def converse(self, http: Any, turns: int = 1, *, stream: bool = True) -> list[Reading]:
        """Return what is read of each turn."""
        client, said, readings = self.client(http), self.first(), []
        for _ in range(turns):
            answer = self.streamed(client, said) if stream else self.whole(client, said)
            readings.append(self.reading(answer))
            self.go_on(said, answer)
        return readings

    async def converse_async(
        self,
        http: Any,
        turns: int = 1,
        *,
        stream: bool = True,
        base_url: str | None = None,
        retries: int = 0,
    ) -> list[Reading]:
        """Return what is read of each turn.

        Args:
            http: The HTTP client.
            turns: Number of turns.
            stream: Whether to ask for streams.
            base_url: URL of a gateway; None for that of the vendor.
            retries: How often the SDK repeats a request that failed.
        """
        client = self.async_client(http, base_url, retries=retries)
        said, readings = self.first(), []
        for _ in range(turns):
            ask = self.streamed_async if stream else self.whole_async
            answer = await ask(client, said)
            readings.append(self.reading(answer))
            self.go_on(said, answer)
        return readings

    @abstractmethod
    def client(self, http: Any) -> Any: ...

    @abstractmethod
    def async_client(self, http: Any, base_url: str | None = None, *, retries: int = 0) -> Any: ...

    @abstractmethod
    def first(self, question: str = QUESTION) -> list[Any]: ...

    @abstractmethod
    def streamed(self, client: Any, said: list[Any]) -> Any: ...

    @abstractmethod
    async def streamed_async(self, client: Any, said: list[Any]) -> Any: ...

    @abstractmethod
    def whole(self, client: Any, said: list[Any]) -> Any: ...

    @abstractmethod
    async def whole_async(self, client: Any, said: list[Any]) -> Any: ...

    @abstractmethod
    def reading(self, answer: Any) -> Reading: ...

    @abstractmethod
    def go_on(self, said: list[Any], answer: Any) -> None: ...


class Anthropic(SDK):
    dialect = "anthropic"
    status_error = stream_error = anthropic.APIStatusError
    connection_error = anthropic.APIConnectionError

    def client(self, http: Any) -> Any:
        return anthropic.Anthropic(api_key=KEY, http_client=http, max_retries=0)

    def async_client(self, http: Any, base_url: str | None = None, *, retries: int = 0) -> Any:
        return anthropic.AsyncAnthropic(
            api_key=KEY, http_client=http, base_url=base_url, max_retries=retries
        )

    def first(self, question: str = QUESTION) -> list[Any]:
        return [{"role": "user", "content": question}]

    def _options(self, said: list[Any]) -> dict[str, Any]:
        tool = {"name": "get_weather", "input_schema": SCHEMA}
        return {"model": "m-1", "max_tokens": 500, "tools": [tool], "messages": said}

    def streamed(self, client: Any, said: list[Any]) -> Any:
        with client.messages.stream(**self._options(said)) as events:
            return events.get_final_message()

    async def streamed_async(self, client: Any, said: list[Any]) -> Any:
        async with client.messages.stream(**self._options(said)) as events:
            return await events.get_final_message()

    def whole(self, client: Any, said: list[Any]) -> Any:
        return client.messages.create(**self._options(said))

    async def whole_async(self, client: Any, said: list[Any]) -> Any:
        return await client.messages.create(**self._options(said))

    def reading(self, answer: Any) -> Reading:
        return Reading(
            "".join(block.text for block in answer.content if block.type == "text"),
            "".join(block.thinking for block in answer.content if block.type == "thinking"),
            tuple((b.id, b.name, b.input) for b in answer.content if b.type == "tool_use"),
        )

    def go_on(self, said: list[Any], answer: Any) -> None:
        said.append({"role": "assistant", "content": answer.content})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "snow"}
            for block in answer.content
            if block.type == "tool_use"
        ]
        said.append({"role": "user", "content": results})


class _OpenAI(SDK):
    status_error = openai.APIStatusError
    stream_error = openai.APIError
    connection_error = openai.APIConnectionError

    def client(self, http: Any) -> Any:
        return openai.OpenAI(api_key=KEY, http_client=http, max_retries=0)

    def async_client(self, http: Any, base_url: str | None = None, *, retries: int = 0) -> Any:
        url = None if base_url is None else f"{base_url}/v1"
        return openai.AsyncOpenAI(api_key=KEY, http_client=http, base_url=url, max_retries=retries)

    def first(self, question: str = QUESTION) -> list[Any]:
        return [{"role": "user", "content": question}]


class Chat(_OpenAI):
    dialect = "openai_chat"

    def _options(self, said: list[Any]) -> dict[str, Any]:
        function = {"name": "get_weather", "parameters": SCHEMA}
        tools = [{"type": "function", "function": function}]
        return {"model": "m-1", "tools": tools, "messages": said}

    def streamed(self, client: Any, said: list[Any]) -> Any:
        with client.chat.completions.stream(**self._options(said)) as chunks:
            return chunks.get_final_completion()

    async def streamed_async(self, client: Any, said: list[Any]) -> Any:
        async with client.chat.completions.stream(**self._options(said)) as chunks:
            return await chunks.get_final_completion()

    def whole(self, client: Any, said: list[Any]) -> Any:
        return client.chat.completions.create(**self._options(said))

    async def whole_async(self, client: Any, said: list[Any]) -> Any:
        return await client.chat.completions.create(**self._options(said))

    def reading(self, answer: Any) -> Reading:
        message = answer.choices[0].message
        return Reading(
            message.content or "",
            getattr(message, "reasoning_content", None) or "",
            tuple(
                (call.id, call.function.name, json.loads(call.function.arguments))
                for call in message.tool_calls or ()
            ),
        )

    def go_on(self, said: list[Any], answer: Any) -> None:
        message = answer.choices[0].message
        said.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        calls = message.tool_calls or ()
        said += [{"role": "tool", "tool_call_id": c.id, "content": "snow"} for c in calls]


class Responses(_OpenAI):
    dialect = "openai_responses"

    def _options(self, said: list[Any]) -> dict[str, Any]:
        tool = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}
        options = {"model": "m-1", "tools": [tool], "input": said, "store": False}
        # Without it OpenAI does not know the reasoning again that it did not store.
        return {**options, "include": ["reasoning.encrypted_content"]}

    def streamed(self, client: Any, said: list[Any]) -> Any:
        with client.responses.stream(**self._options(said)) as events:
            return events.get_final_response()

    async def streamed_async(self, client: Any, said: list[Any]) -> Any:
        async with client.responses.stream(**self._options(said)) as events:
            return await events.get_final_response()

    def whole(self, client: Any, said: list[Any]) -> Any:
        return client.responses.create(**self._options(said))

    async def whole_async(self, client: Any, said: list[Any]) -> Any:
        return await client.responses.create(**self._options(said))

    async def events_over_socket(
        self, client: Any, said: list[Any], query: dict[str, str]
    ) -> list[dict[str, Any]]:
        """Return the events of an answer over a WebSocket, and that of a message of no type.

        Args:
            client: The client.
            said: The input.
            query: Query of the handshake.
        """
        events: list[dict[str, Any]] = []
        async with client.responses.connect(extra_query=query) as connection:
            for message in ({"type": "response.create", **self._options(said)}, {"type": "-"}):
                await connection.send(message)
                while True:
                    # As a float: Python refuses integers of more than 4,300 digits.
                    event = json.loads(await connection.recv_bytes(), parse_int=float)
                    events.append(event)
                    if event["type"] in ENDS:
                        break
        return events

    def reading(self, answer: Any) -> Reading:
        thoughts = [item for item in answer.output if item.type == "reasoning"]
        return Reading(
            answer.output_text,
            "".join(
                part.text
                for item in thoughts
                for part in [*item.summary, *(getattr(item, "content", None) or ())]
            ),
            tuple(
                (item.call_id, item.name, json.loads(item.arguments))
                for item in answer.output
                if item.type == "function_call"
            ),
        )

    def go_on(self, said: list[Any], answer: Any) -> None:
        said += [
            item.model_dump(exclude_none=True, exclude={"parsed_arguments"})
            for item in answer.output
        ]
        said += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "snow"}
            for item in answer.output
            if item.type == "function_call"
        ]


class Gemini(SDK):
    dialect = "gemini"
    http = httpx
    transports = streamnorm.transports.httpx
    status_error = stream_error = errors.APIError
    connection_error = httpx.TransportError  # which the SDK leaves as it is

    def client(self, http: Any) -> Any:
        options = types.HttpOptions(base_url="https://gemini.test", httpx_client=http)
        return genai.Client(api_key=KEY, http_options=options)

    def async_client(self, http: Any, base_url: str | None = None, *, retries: int = 0) -> Any:
        url = base_url or "https://gemini.test"
        again = types.HttpRetryOptions(attempts=retries + 1, initial_delay=0.001)
        options = types.HttpOptions(
            base_url=url, httpx_async_client=http, retry_options=again if retries else None
        )
        return genai.Client(api_key=KEY, http_options=options)

    def first(self, question: str = QUESTION) -> list[Any]:
        return [types.Content(role="user", parts=[types.Part(text=question)])]

    def _options(self, said: list[Any]) -> dict[str, Any]:
        declared = types.FunctionDeclaration(name="get_weather", parameters_json_schema=SCHEMA)
        config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=[declared])],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        return {"model": "m-1", "contents": said, "config": config}

    def streamed(self, client: Any, said: list[Any]) -> Any:
        return list(client.models.generate_content_stream(**self._options(said)))

    async def streamed_async(self, client: Any, said: list[Any]) -> Any:
        stream = await client.aio.models.generate_content_stream(**self._options(said))
        return [chunk async for chunk in stream]

    def whole(self, client: Any, said: list[Any]) -> Any:
        return [client.models.generate_content(**self._options(said))]

    async def whole_async(self, client: Any, said: list[Any]) -> Any:
        return [await client.aio.models.generate_content(**self._options(said))]

    def reading(self, answer: Any) -> Reading:
        parts = _parts(answer)
        return Reading(
            "".join(part.text or "" for part in parts if not part.thought),
            "".join(part.text or "" for part in parts if part.thought),
            tuple(
                (call.id, call.name, call.args)
                for call in (part.function_call for part in parts)
                if call
            ),
        )

    def go_on(self, said: list[Any], answer: Any) -> None:
        parts = _parts(answer)
        said.append(types.Content(role="model", parts=[p for p in parts if p.text != ""]))
        responses = [
            types.FunctionResponse(id=call.id, name=call.name, response={"output": "snow"})
            for call in (part.function_call for part in parts)
            if call
        ]
        results = [types.Part(function_response=response) for response in responses]
        said.append(types.Content(role="user", parts=results))


def _parts(chunks: list[types.GenerateContentResponse]) -> list[types.Part]:
    return [
        part
        for chunk in chunks
        for candidate in chunk.candidates or ()
        for part in (candidate.content.parts if candidate.content else None) or ()
    ]


SDKS = {sdk.dialect: sdk for sdk in (Anthropic(), Chat(), Responses(), Gemini())}
