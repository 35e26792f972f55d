"""Whole answers of each dialect: built from streams, and from the SDKs' types.

No server is asked twice, so no recording has one answer as a stream and as a body.  The bodies
of recorded streams are what the vendor's SDK accumulates, or what the stream itself repeats at
its end.
"""

from __future__ import annotations

import json
import types
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import httpx
from anthropic.lib.streaming._beta_messages import accumulate_event
from anthropic.types.beta import BetaMessage
from google.genai import types as genai
from google.genai._gaos.types import interactions
from openai._models import construct_type
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from support.streams.corpus import corpus, payloads, recordings

__all__ = ["AnswerPair", "answer_pairs", "generated_answers", "whole_answer_of"]


# What the SDKs raise at streams of servers that differ from the vendor's.
_REFUSALS = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


_MAX_BYTES = 200_000
_MAX_STREAMS = 1000


class AnswerPair(NamedTuple):
    """One answer as a stream and as a whole body.

    Attributes:
        name: Name of the recording.
        server: Server that sent it.
        stream: The stream.
        body: The body.
    """

    name: str
    server: str | None
    stream: bytes
    body: dict[str, Any]


@cache
def answer_pairs(dialect: str) -> tuple[AnswerPair, ...]:
    """Return the pairs of recordings, and of a sample of the corpus."""
    written = [(str(each), each.server, each.body) for each in recordings(dialect)]
    one_in = 4 if len(corpus(dialect)) > _MAX_STREAMS else 1
    real = [(each.name, each.provider, each.body) for each in corpus(dialect)[::one_in]]
    return tuple(
        AnswerPair(name, server, stream, body)
        for name, server, stream in [*written, *real]
        if len(stream) <= _MAX_BYTES and (body := whole_answer_of(dialect, stream)) is not None
    )


def whole_answer_of(dialect: str, stream: bytes) -> dict[str, Any] | None:
    """Return a stream as a whole answer, by an independent judge; None if it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what servers send in other types
        try:
            body = _JUDGES[dialect](stream)
        except _REFUSALS:
            return None
    # The two halves of a character that two chunks hold are one character of the body.
    joined: dict[str, Any] | None = json.loads(json.dumps(body))
    return joined


def _chat(stream: bytes) -> dict[str, Any]:
    state = ChatCompletionStreamState()
    for payload in payloads(stream):
        if not payload.startswith("[DONE]"):
            value = json.loads(payload)
            state.handle_chunk(construct_type(type_=ChatCompletionChunk, value=value))
    body: dict[str, Any] = state.current_completion_snapshot.to_dict(mode="json")
    return body


def _responses(stream: bytes) -> dict[str, Any] | None:
    """Return the response in the terminal event, if it has the output."""
    for line in stream.decode("utf-8", "replace").splitlines():
        if line.startswith("data:") and '"response"' in line:
            try:
                event = json.loads(line[5:])
            except ValueError:
                continue
            response = event.get("response")
            if event.get("type") in ("response.completed", "response.incomplete") and response:
                return response if response.get("output") else None
    return None


def _anthropic(stream: bytes) -> dict[str, Any]:
    message: Any = None
    buffers: dict[int, bytes] = {}
    for payload in payloads(stream):
        event: Any = json.loads(payload)
        if event.get("type") != "ping":
            message = accumulate_event(
                event=event,
                current_snapshot=message,
                json_bufs=buffers,
                request_headers=httpx.Headers(),  # type: ignore[arg-type]  # only `get` is called
            )
    body: dict[str, Any] = message.to_dict(mode="json")
    return body


def _gemini(stream: bytes) -> dict[str, Any]:
    """Return a stream's chunks merged to one response."""
    response: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    for data in payloads(stream):
        chunk = json.loads(data)
        chunk = chunk.get("response", chunk)
        for candidate in chunk.pop("candidates", ()):
            known = candidates.setdefault(candidate.get("index", 0), {"content": {"parts": []}})
            content = candidate.pop("content", None) or {}
            known["content"]["parts"] += content.get("parts") or ()
            known.update(candidate)
        response.update(chunk)
    if candidates:
        response["candidates"] = [candidates[index] for index in sorted(candidates)]
    elif "promptFeedback" not in response:  # which a blocked prompt has alone
        raise ValueError("no candidates")  # as of the Interactions API
    return response


_JUDGES: dict[str, Callable[[bytes], dict[str, Any] | None]] = {
    "anthropic": _anthropic,
    "gemini": _gemini,
    "openai_chat": _chat,
    "openai_responses": _responses,
}


# Values of the SDKs' types

_MODELS: dict[str, type[BaseModel]] = {
    "anthropic": BetaMessage,
    "gemini": genai.GenerateContentResponse,
    "gemini_interactions": interactions.Interaction,
    "openai_chat": ChatCompletion,
    "openai_responses": Response,
}
_COMPLETE: dict[str, dict[str, Any]] = {
    "anthropic": {"stop_reason": "end_turn"},
    "gemini": {},
    "gemini_interactions": {"status": "completed"},
    "openai_chat": {},
    "openai_responses": {"status": "completed", "error": None},
}
"""Fields without which the answer has not ended, or has failed."""
_SCALARS: dict[Any, Any] = {
    str: "a",
    bool: True,
    int: 3,
    float: 0.5,
    type(None): None,
    bytes: "YQ==",
}
_BESIDE_DATA = ("thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution")
_MAX_DEPTH = 7


def generated_answers(dialect: str) -> Iterator[dict[str, Any]]:
    """Yield answers that together cover each field and member of the SDK's type.

    Each has all fields; one of them differs from the first answer.
    """
    for body in _values(_MODELS[dialect], 0):
        yield {**body, **_COMPLETE[dialect]}


def _values(expected: Any, depth: int) -> list[Any]:
    """Return values of a type, the first not null."""
    if isinstance(expected, TypeAliasType):
        return _values(expected.__value__, depth)
    origin, inner = get_origin(expected), get_args(expected)
    if origin is Annotated:
        return _values(inner[0], depth)
    if origin in (Union, types.UnionType):
        found = [value for member in inner for value in _values(member, depth)]
        return sorted(found, key=lambda value: value is None)
    if origin is Literal:
        return list(inner)
    if origin in (list, tuple):
        return [[value] for value in _values(inner[0], depth + 1)]
    if origin is dict:
        return [{"k": value} for value in _values(inner[1], depth + 1)]
    if isinstance(expected, type) and issubclass(expected, BaseModel):
        return _objects(expected, depth)
    if isinstance(expected, type) and issubclass(expected, Enum):
        return sorted((word.value for word in expected), key=lambda word: "UNSPECIFIED" in word)
    return [_SCALARS.get(expected, "2026-11-23T00:00:00Z")]


def _objects(model: type[BaseModel], depth: int) -> list[Any]:
    if depth > _MAX_DEPTH:
        return [{}]
    choices = {
        field.alias or field.serialization_alias or name: _values(field.annotation, depth + 1)
        for name, field in model.model_fields.items()
    }
    if "index" in choices:  # most targets carry the first choice alone
        choices["index"] = [0]
    if model is genai.Part:
        return _parts(choices)
    first = {name: values[0] for name, values in choices.items()}
    others = [{**first, name: value} for name, values in choices.items() for value in values[1:]]
    return [first, *others]


def _parts(choices: dict[str, list[Any]]) -> list[Any]:
    """Return parts of a content, one for each exclusive data field."""
    beside = {name: choices[name][0] for name in _BESIDE_DATA}
    return [
        {**beside, name: value}
        for name, values in choices.items()
        if name not in _BESIDE_DATA
        for value in values
        if value is not None
    ]
