"""What a Chat Completions stream says, as the official OpenAI SDK reads it and as we do."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import httpx2
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from streamnorm import (
    BlockStart,
    Event,
    MessageStart,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    accumulate,
)

__all__ = ["Answer", "Call", "Counts", "Reading", "our_reading", "sdk_chunks", "sdk_reading"]


class Counts(NamedTuple):
    """Tokens; None where nobody said."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    reasoning: int | None = None
    total: int | None = None

    @classmethod
    def of_wire(cls, usage: dict[str, Any]) -> Counts:
        """Return what a usage object of the wire says."""
        return cls(
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
            (usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
            usage.get("total_tokens"),
        )


class Call(NamedTuple):
    """A tool call."""

    id: str | None
    name: str
    arguments: str


class Answer(NamedTuple):
    """What one choice holds.

    Attributes:
        reasoning: Its reasoning, under each of the names that servers give it.
        logprobs: Its tokens.
    """

    text: str
    refusal: str
    reasoning: frozenset[str]
    calls: tuple[Call, ...]
    finish: str | None
    logprobs: tuple[str, ...]


class Reading(NamedTuple):
    """What a whole stream says.

    Attributes:
        order: What begins the blocks of each choice, a call by its name.
    """

    id: str
    model: str
    answers: dict[int, Answer]
    counts: Counts
    order: dict[int, list[str]]


def sdk_chunks(body: bytes) -> list[ChatCompletionChunk]:
    """Return the chunks that the SDK's client reads."""
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    with (
        httpx2.Client(transport=httpx2.MockTransport(lambda _: response)) as http,
        openai.OpenAI(api_key="-", base_url="http://t", http_client=http, max_retries=0) as client,
    ):
        return list(client.chat.completions.create(model="m", messages=[], stream=True))


def sdk_reading(chunks: list[ChatCompletionChunk]) -> Reading:
    """Return what the SDK's accumulator makes of the chunks."""
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(chunk)
    snapshot: dict[str, Any] = state.current_completion_snapshot.to_dict(mode="python")
    return Reading(
        next((chunk.id for chunk in chunks if chunk.id), ""),
        next((chunk.model for chunk in chunks if chunk.model), ""),
        {choice["index"]: _sdk_answer(choice) for choice in snapshot["choices"]},
        Counts.of_wire(snapshot.get("usage") or {}),
        _sdk_order(chunks),
    )


def _sdk_answer(choice: dict[str, Any]) -> Answer:
    message = choice["message"]
    content, thinking = message.get("content") or "", ""
    if isinstance(content, list):  # Mistral's parts
        thinking = "".join(t["text"] for part in content for t in part.get("thinking", ()))
        content = "".join(part.get("text", "") for part in content)
    details = "".join(map(_detail_text, message.get("reasoning_details") or ()))
    reasoning = [message.get("reasoning_content"), message.get("reasoning"), details, thinking]
    logprobs = choice.get("logprobs") or {}
    return Answer(
        content,
        message.get("refusal") or "",
        frozenset(text for text in reasoning if text),
        tuple(
            Call(call.get("id"), call["function"]["name"], call["function"].get("arguments") or "")
            for call in message.get("tool_calls") or ()
        ),
        choice.get("finish_reason"),
        tuple(t["token"] for kind in ("content", "refusal") for t in logprobs.get(kind) or ()),
    )


def _detail_text(detail: dict[str, Any]) -> str:
    return detail.get("text") or detail.get("summary") or ""


def _sdk_order(chunks: list[ChatCompletionChunk]) -> dict[int, list[str]]:
    """Return the blocks in the order of the wire, by hand: the SDK does not keep it.

    Within a delta reasoning comes first, then text, refusal and calls.  A call begins
    where it is first named, text where anything else was before it.
    """
    order: dict[int, list[str]] = {}
    named: set[tuple[int, object]] = set()
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        delta = choice.delta.to_dict(mode="python")
        kinds = ["reasoning"] if _thinks(delta) else []
        if isinstance(parts := delta.get("content"), list):
            kinds += ["text" if part["type"] == "text" else "reasoning" for part in parts]
        elif parts:
            kinds.append("text")
        kinds += ["refusal"] if delta.get("refusal") else []
        for call in delta.get("tool_calls") or ():
            if (choice.index, call["index"]) not in named:
                named.add((choice.index, call["index"]))
                kinds.append(call["function"]["name"])
        blocks = order.setdefault(choice.index, [])
        for kind in kinds:
            if kind not in ("text", "reasoning", "refusal") or blocks[-1:] != [kind]:
                blocks.append(kind)
    return order


def _thinks(delta: dict[str, Any]) -> bool:
    """Tell whether a delta holds reasoning, or the signature of some."""
    details = delta.get("reasoning_details") or ()
    return bool(
        delta.get("reasoning_content")
        or delta.get("reasoning")
        or any(_detail_text(detail) or detail.get("signature") for detail in details)
    )


def our_reading(events: list[Event]) -> Reading:
    """Return what our decoder's events say."""
    start = next(event for event in events if isinstance(event, MessageStart))
    choices = {getattr(event, "choice", 0) for event in events}
    usage = accumulate(events).usage
    said = (usage.input_tokens, usage.output_tokens)
    total = None if said == (None, None) else sum(count or 0 for count in said)
    return Reading(
        start.id,
        start.model,
        {choice: _our_answer(events, choice) for choice in choices},
        Counts(*said, usage.cache_read_tokens, usage.reasoning_tokens, total),
        {choice: _our_order(events, choice) for choice in choices},
    )


def _our_answer(events: list[Event], choice: int) -> Answer:
    message = accumulate(events, choice=choice)
    reasoning = "".join(b.text for b in message.blocks if isinstance(b, Reasoning))
    blocks = {e.index: e.choice for e in events if isinstance(e, BlockStart)}
    tokens: dict[str, list[str]] = {"content": [], "refusal": []}
    for event in events:
        if isinstance(event, Opaque) and event.name == "logprobs":
            said = json.loads(event.data) if blocks.get(event.index, choice) == choice else {}
            for kind, texts in tokens.items():
                texts += [token["token"] for token in said.get(kind) or ()]
    return Answer(
        message.text,
        "".join(b.text for b in message.blocks if isinstance(b, Refusal)),
        frozenset({reasoning} if reasoning else ()),
        tuple(Call(call.id, call.name, call.arguments) for call in message.tool_calls),
        message.raw_stop_reason,
        tuple(tokens["content"] + tokens["refusal"]),
    )


def _our_order(events: list[Event], choice: int) -> list[str]:
    order: list[str] = []
    for event in events:
        if isinstance(event, BlockStart) and event.choice == choice:
            match event.block:
                case ToolCall(name=name):
                    order.append(name)
                case Text():
                    order.append("text")
                case Refusal():
                    order.append("refusal")
                case Reasoning() if order[-1:] != ["reasoning"]:  # a signature splits it
                    order.append("reasoning")
                case _:
                    pass
    return order
