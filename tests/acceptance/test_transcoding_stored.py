"""Stored responses of OpenAI, as its own SDK asks for them through a transport."""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest
from support.openai_responses import frames as responses

from streamnorm.transports.httpx2 import TranscodingTransport

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
ITEM = {"id": "i", "type": "message", "role": "user", "content": []}
PAGE = {"object": "list", "data": [ITEM], "first_id": "i", "last_id": "i", "has_more": False}
COMPACTED = {"id": "resp_2", "object": "response.compaction", "created_at": 1, "output": []}
EVENTS = [responses.text("lo"), responses.completed()]
ANSWERS: dict[tuple[str, str], Any] = {
    ("GET", "/v1/responses/resp_1"): RESPONSE,
    ("POST", "/v1/responses/resp_1/cancel"): {**RESPONSE, "status": "cancelled"},
    ("GET", "/v1/responses/resp_1/input_items?include%5B%5D=a&limit=2"): PAGE,
    ("POST", "/v1/responses/compact"): COMPACTED,
    ("DELETE", "/v1/responses/resp_1"): {"id": "resp_1", "deleted": True},
    ("GET", "/v1/responses/resp_1?starting_after=42&stream=true"): b"".join(EVENTS),
    ("GET", "/v1/responses/resp_2?stream=true"): EVENTS[0],
}


def provider(request: httpx2.Request) -> httpx2.Response:
    answer = ANSWERS.get((request.method, request.url.raw_path.decode()))
    if answer is None:
        return httpx2.Response(404, json={"error": {"message": "no such response"}})
    if isinstance(answer, bytes):
        return httpx2.Response(200, content=answer, headers={"content-type": "text/event-stream"})
    return httpx2.Response(200, json=answer)


def transport() -> TranscodingTransport:
    return TranscodingTransport(
        httpx2.MockTransport(provider),
        client="openai_responses",
        upstream="openai_responses",
        base_url="https://provider.test",
    )


def test_stored_response_is_that_of_the_provider() -> None:
    http_client = httpx2.Client(transport=transport())
    with openai.OpenAI(api_key="-", http_client=http_client, max_retries=0) as client:
        stored = client.responses
        assert stored.retrieve("resp_1").status == "completed"
        assert stored.cancel("resp_1").status == "cancelled"
        listed = stored.input_items.list("resp_1", limit=2, include=["a"])  # type: ignore[list-item]  # any name
        assert [item.id for item in listed] == ["i"]
        assert stored.compact(model="gpt-5", input="Hi.").id == "resp_2"
        stored.delete("resp_1")
        events = stored.retrieve("resp_1", stream=True, starting_after=42)
        assert [event.type for event in events] == [
            "response.output_text.delta",
            "response.completed",
        ]
        with pytest.raises(openai.NotFoundError, match="no such response"):
            stored.retrieve("resp_3")
        with pytest.raises(openai.APIError, match="connection lost"):
            list(stored.retrieve("resp_2", stream=True))


@pytest.mark.anyio
@pytest.mark.on_asyncio
async def test_stored_response_is_that_of_the_provider_asynchronously() -> None:
    http_client = httpx2.AsyncClient(transport=transport())
    async with openai.AsyncOpenAI(api_key="-", http_client=http_client, max_retries=0) as client:
        stored = client.responses
        assert (await stored.retrieve("resp_1")).status == "completed"
        assert (await stored.cancel("resp_1")).status == "cancelled"
        assert (await stored.compact(model="gpt-5", input="Hi.")).id == "resp_2"
        await stored.delete("resp_1")
        events = await stored.retrieve("resp_1", stream=True, starting_after=42)
        assert [event.type async for event in events][-1] == "response.completed"
        with pytest.raises(openai.NotFoundError, match="no such response"):
            await stored.retrieve("resp_3")
        with pytest.raises(openai.APIError, match="connection lost"):
            async for _ in await stored.retrieve("resp_2", stream=True):
                pass
