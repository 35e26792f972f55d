"""The scripted upstream: it answers as a model would, and refuses what its vendor refuses."""

from __future__ import annotations

import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route, WebSocketRoute
from support.gateway.remembering import Remembering

from streamnorm import Message, Reasoning, StreamError, Text, Usage
from streamnorm.testing import FakeProvider, FakeRequest, tool_call

__all__ = ["upstream"]

# Without these the vendors answer with status 400.
_REQUIRED = {
    "anthropic": ("model", "max_tokens", "messages"),
    "bedrock_converse": ("messages",),
    "gemini": ("contents",),
    "gemini_interactions": ("model", "input"),
    "openai_chat": ("model", "messages"),
    "openai_responses": ("model",),
}
# The suites ask for reasoning with this question, and with no other.
_REASONED = "15 * 37"
_NATIVE = {"object": "response", "reasoning": {"effort": "low", "summary": "auto"}}


def upstream() -> Starlette:
    """Return an upstream of every dialect, by the path of the request."""
    responses = FakeProvider(_answer, strict=True).app()
    routes = [
        Route("/v1/responses/compact", _compact, methods=["POST"]),
        # llm-comply sends Chat Completions what OpenAI refuses.
        Route("/v1/responses", responses, methods=["POST"]),
        WebSocketRoute("/v1/responses", Remembering(responses)),
        Mount("/", FakeProvider(_answer).app()),
    ]
    return Starlette(routes=routes)


def _answer(request: FakeRequest) -> Any:
    assert request.dialect is not None
    for name in _REQUIRED[request.dialect]:
        if not request.body.get(name):
            return StreamError("upstream", f"{name}: missing, expected one", status_hint=400)
    if "previous_response_id" in request.body:
        # The vendor has stored no response: the gateway keeps those of a WebSocket itself.
        found = "Previous response not found."
        code = "previous_response_not_found"
        return StreamError("upstream", found, code=code, status_hint=400)
    if request.body.get("tools") or request.body.get("toolConfig"):  # as Converse names them
        return tool_call("get_weather", location="San Francisco")
    if _REASONED not in json.dumps(request.body):
        return "The launch is on Tuesday."
    return Message(
        blocks=(Reasoning(("15 * 30 is 450, 15 * 7 is 105.",)), Text("555")),
        stop_reason="end_turn",
        usage=Usage(20, 12, reasoning_tokens=9),
        # An upstream of the Responses API repeats its request.
        extra=_NATIVE if request.dialect == "openai_responses" else None,
    )


async def _compact(request: Request) -> JSONResponse:
    """Answer as the Responses API compacts a conversation."""
    if not (await request.json()).get("model"):
        error = {"message": "model: missing", "type": "invalid_request_error", "param": "model"}
        return JSONResponse({"error": {**error, "code": None}}, 400)
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "opaque"}
    usage = {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 25,
    }
    compaction = {"id": "resp_1", "object": "response.compaction", "created_at": 1790000000}
    return JSONResponse({**compaction, "output": [item], "usage": usage})
