"""The Interactions client of google-genai, which the user of a stream adds up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import httpx
from acceptance.transcoding_clients import KEY, QUESTION, SCHEMA, SDK, SDKS, Reading
from google import genai
from google.genai import errors, types

__all__ = ["CLIENTS", "INTERACTIONS", "steps_of"]


class Interactions(SDK):
    """`client.interactions`, whole and streamed."""

    dialect = "gemini_interactions"
    http = httpx
    status_error = stream_error = errors.APIError
    connection_error = httpx.TransportError

    def client(self, http: Any) -> Any:
        raise NotImplementedError  # it needs a base URL

    def async_client(self, http: Any, base_url: str | None = None, *, retries: int = 0) -> Any:
        again = types.HttpRetryOptions(attempts=retries + 1, initial_delay=0.001)
        options = types.HttpOptions(base_url=base_url, httpx_async_client=http, retry_options=again)
        return genai.Client(api_key=KEY, http_options=options)

    def first(self, question: str = QUESTION) -> list[Any]:
        return [{"type": "user_input", "content": [{"type": "text", "text": question}]}]

    def _options(self, said: list[Any]) -> dict[str, Any]:
        tool = {"type": "function", "name": "get_weather", "parameters": SCHEMA}
        return {"model": "m-1", "tools": [tool], "input": said, "store": False}

    def streamed(self, client: Any, said: list[Any]) -> Any:
        raise NotImplementedError

    async def streamed_async(self, client: Any, said: list[Any]) -> Any:
        stream = await client.aio.interactions.create(stream=True, **self._options(said))
        return steps_of([event async for event in stream])

    def whole(self, client: Any, said: list[Any]) -> Any:
        raise NotImplementedError

    async def whole_async(self, client: Any, said: list[Any]) -> Any:
        answer = await client.aio.interactions.create(**self._options(said))
        assert answer.usage.total_tokens >= 0
        return [step.model_dump(mode="json", exclude_none=True) for step in answer.steps]

    def reading(self, answer: list[dict[str, Any]]) -> Reading:
        outputs = [step for step in answer if step["type"] == "model_output"]
        thoughts = [step for step in answer if step["type"] == "thought"]
        return Reading(
            "".join(content["text"] for step in outputs for content in step["content"]),
            "".join(content["text"] for step in thoughts for content in step.get("summary", ())),
            tuple(
                (step["id"], step["name"], step["arguments"])
                for step in answer
                if step["type"] == "function_call"
            ),
        )

    def go_on(self, said: list[Any], answer: list[dict[str, Any]]) -> None:
        said += answer
        said += [
            {"type": "function_result", "call_id": step["id"], "result": "snow"}
            for step in answer
            if step["type"] == "function_call"
        ]


def steps_of(events: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the steps that the events of a stream add up to.

    Raises:
        APIError: The stream ends in an error.
    """
    steps: list[dict[str, Any]] = []
    arguments: dict[int, str] = {}
    kinds = []
    for event in events:
        kinds.append(event.event_type)
        if event.event_type == "error":
            raise errors.APIError(500, {"error": {"message": event.error.message}})
        if event.event_type == "step.start":
            assert event.index == len(steps)
            steps.append(event.step.model_dump(mode="json", exclude_none=True))
        elif event.event_type == "step.delta":
            _extend(steps[event.index], event.delta, arguments, event.index)
    assert (kinds[0], kinds[-1]) == ("interaction.created", "interaction.completed")
    for index, text in arguments.items():
        steps[index]["arguments"] = json.loads(text)
    return steps


def _extend(step: dict[str, Any], delta: Any, arguments: dict[int, str], index: int) -> None:
    match delta.type:
        case "text":
            content = step.setdefault("content", [{"type": "text", "text": ""}])
            content[0]["text"] += delta.text
        case "thought_summary":
            summary = step.setdefault("summary", [{"type": "text", "text": ""}])
            summary[0]["text"] += delta.content.text
        case "thought_signature":
            step["signature"] = delta.signature
        case "arguments_delta":
            arguments[index] = arguments.get(index, "") + delta.arguments
        case kind:
            raise AssertionError(f"a delta of {kind}, expected none in this task")


INTERACTIONS = Interactions()
CLIENTS = {**SDKS, INTERACTIONS.dialect: INTERACTIONS}
"""The SDKs of all dialects that have one, by dialect."""
