"""The official SDKs against each other, over streams whose calls and text interleave.

What OpenAI's SDK makes of a stream that keeps to the protocol, Anthropic's must make of
what we write: of that stream, and of the same as less careful servers would send it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import pytest
from acceptance.anthropic_wire import frames
from acceptance.readings import Reading, sdk_chunks, sdk_reading
from support.streams.corpus import pieces

from streamnorm import Transcoder

Chunks = list[dict[str, Any]]
REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": []}


def interleaved(rng: random.Random) -> Chunks:
    """Return a stream that keeps to the protocol, its calls and its text interleaved."""
    calls = [call_deltas(rng, number) for number in range(rng.randint(1, 4))]
    queues: list[list[dict[str, Any]]] = []
    texts = [{"content": word} for word in rng.choices(["pale", "ale,", "or", "stout?"], k=5)]
    if rng.random() < 0.7:
        queues.append(texts)
    chunks = [{"reasoning_content": "Which one …"}] if rng.random() < 0.3 else []
    while calls or queues:
        if calls and (rng.random() < 0.3 or not queues):  # calls begin in their order
            queue = calls.pop(0)
            queues.append(queue)
        else:
            queue = rng.choice(queues)
        chunks.append(queue.pop(0))
        queues = [queue for queue in queues if queue]
    usage = {"prompt_tokens": rng.randint(1, 99), "completion_tokens": 7, "total_tokens": 0}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in chunks]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])
    return [
        *({**head, "choices": choice} for choice in choices),
        {**head, "choices": [], "usage": usage},
    ]


def call_deltas(rng: random.Random, number: int) -> list[dict[str, Any]]:
    city = rng.choice(('Nice "sur mer"', "Saint-\\Lô", "北京 {[", "\U0001f37a"))
    value = rng.choice(({"city": city}, {"cities": [city, {"a": {}}], "n": 1.5e3}, {"q": None}))
    text = rng.choice((json.dumps(value), json.dumps(value, ensure_ascii=False), "{}", ""))
    head = {"index": number, "id": f"call_{number}", "type": "function"}
    deltas: list[dict[str, Any]] = [
        {"tool_calls": [{**head, "function": {"name": f"f{number}", "arguments": ""}}]}
    ]
    while text:
        size = rng.randint(1, 9)
        piece, text = text[:size], text[size:]
        deltas.append({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    return deltas


def encoded(chunks: Chunks) -> bytes:
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    return body + b"data: [DONE]\n\n"


# What less careful servers do


def deltas(chunks: Chunks) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


def calls(chunks: Chunks) -> list[dict[str, Any]]:
    return [call for delta in deltas(chunks) for call in delta.get("tool_calls") or ()]


def nothing(_: Chunks) -> None:
    pass


def ids_repeat(chunks: Chunks) -> None:
    for call in calls(chunks):
        call["id"] = f"call_{call['index']}"


def ids_and_names_repeat(chunks: Chunks) -> None:
    ids_repeat(chunks)
    for call in calls(chunks):
        call["type"], call["function"]["name"] = "function", f"f{call['index']}"


def all_have_index_zero(chunks: Chunks) -> None:
    ids_repeat(chunks)
    for call in calls(chunks):
        call["index"] = 0


def all_have_index_minus_one(chunks: Chunks) -> None:
    ids_repeat(chunks)
    for call in calls(chunks):
        call["index"] = -1


def none_has_an_index(chunks: Chunks) -> None:
    ids_repeat(chunks)
    for call in calls(chunks):
        del call["index"]


def indexes_are_those_of_blocks(chunks: Chunks) -> None:
    for call in calls(chunks):
        call["index"] = 3 * call["index"] + 1


def absent_is_null(chunks: Chunks) -> None:
    for delta in deltas(chunks):
        for key in ("role", "content", "refusal", "tool_calls", "function_call", "reasoning"):
            delta.setdefault(key, None)
    for call in calls(chunks):
        for key in ("id", "type"):
            call.setdefault(key, None)
        call["function"].setdefault("name", None)


def absent_is_empty(chunks: Chunks) -> None:
    for delta in deltas(chunks):
        for key in ("role", "content", "refusal", "reasoning_content", "reasoning"):
            delta.setdefault(key, "")
        delta.setdefault("tool_calls", [])
    for call in calls(chunks):
        for key in ("id", "type"):
            call.setdefault(key, "")
        call["function"].setdefault("name", "")


def names_come_late(chunks: Chunks) -> None:
    late: Chunks = []
    for chunk in chunks:
        late.append(chunk)
        for call in calls([chunk]):
            if name := call["function"].pop("name", None):
                named = {"index": call["index"], "function": {"name": name}}
                choice = {"index": 0, "delta": {"tool_calls": [named]}}
                late.append({**chunk, "choices": [choice]})
    chunks[:] = late


def finish_comes_early_and_often(chunks: Chunks) -> None:
    for chunk in chunks[1:]:
        for choice in chunk["choices"]:
            choice["finish_reason"] = "stop"


def usage_comes_with_every_chunk(chunks: Chunks) -> None:
    last = chunks.pop()["usage"]
    for number, chunk in enumerate(chunks, 1):
        chunk["usage"] = {**last, "completion_tokens": min(number, 7)}
    chunks[-1]["usage"] = last


def one_chunk_holds_all(chunks: Chunks) -> None:
    """Join what does not change its order: neighbouring deltas of calls."""
    joined: Chunks = []
    for chunk in chunks:
        if joined and calls([chunk]) and calls(joined[-1:]):
            deltas(joined[-1:])[0]["tool_calls"] += calls([chunk])
        else:
            joined.append(chunk)
    chunks[:] = joined


QUIRKS: tuple[Callable[[Chunks], None], ...] = (
    nothing,
    ids_repeat,
    ids_and_names_repeat,
    all_have_index_zero,
    all_have_index_minus_one,
    none_has_an_index,
    indexes_are_those_of_blocks,
    absent_is_null,
    absent_is_empty,
    names_come_late,
    finish_comes_early_and_often,
    usage_comes_with_every_chunk,
    one_chunk_holds_all,
)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.__name__)
def test_interleaved_stream_is_the_same_to_both_sdks(
    quirk: Callable[[Chunks], None], seed: int
) -> None:
    rng = random.Random(f"{quirk.__name__} {seed}")  # noqa: S311 - a seed is the point
    chunks = interleaved(rng)
    reading = sdk_reading(sdk_chunks(encoded(chunks)))
    quirk(chunks)
    transcoder = Transcoder("openai_chat", "anthropic")
    written = [transcoder.feed(piece) for piece in pieces(encoded(chunks), rng.randint(1, 500))]
    body = b"".join(part for parts in [*written, transcoder.close()] for part in parts)
    check(body, reading)


def check(body: bytes, reading: Reading) -> None:
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    with (
        httpx2.Client(transport=httpx2.MockTransport(lambda _: response)) as http,
        anthropic.Anthropic(api_key="-", base_url="http://t", http_client=http) as client,
        client.messages.stream(**REQUEST) as stream,
    ):
        message = stream.get_final_message()
    answer = reading.answers[0]
    assert "".join(b.text for b in message.content if b.type == "text") == answer.text
    thinking = "".join(b.thinking for b in message.content if b.type == "thinking")
    assert {thinking} - {""} == answer.reasoning
    assert [(b.id, b.name, b.input) for b in message.content if b.type == "tool_use"] == [
        (call.id, call.name, json.loads(call.arguments or "{}")) for call in answer.calls
    ]
    assert message.stop_reason == "tool_use"
    assert message.usage.input_tokens == reading.counts.input
    assert message.usage.output_tokens == reading.counts.output


# What is out at any time, by the rule of protocol §6.3


@pytest.mark.parametrize("seed", range(12))
def test_each_piece_goes_out_as_soon_as_its_turn_has_come(seed: int) -> None:
    chunks = interleaved(random.Random(seed))  # noqa: S311 - a seed is the point
    transcoder = Transcoder("openai_chat", "anthropic")
    written = b""
    for number, chunk in enumerate(chunks, 1):
        written += b"".join(transcoder.feed(b"data: %b\n\n" % json.dumps(chunk).encode()))
        assert contents(written) == due(chunks[:number])


def contents(written: bytes) -> list[str]:
    """Return what the blocks hold so far, those that hold nothing left out."""
    texts: dict[int, str] = {}
    for payload in frames(written):
        if payload["type"] == "content_block_delta":
            _, piece = payload["delta"].values()
            texts[payload["index"]] = texts.get(payload["index"], "") + piece
    return [text for text in texts.values() if text not in ("", "{}")]


def due(chunks: Chunks) -> list[str]:
    """Return what must be out: all blocks up to the first that may still grow.

    A call may, unless it is a whole object and another block has begun; `{}` is none, as
    it may stand for one that is still to come.
    """
    texts: list[str] = []
    kinds: list[object] = []
    for delta in deltas(chunks):
        kind, piece = piece_of(delta)
        if not (kind in kinds if isinstance(kind, int) else kinds[-1:] == [kind]):
            kinds.append(kind)
            texts.append("")
        texts[-1 - kinds[::-1].index(kind)] += piece
    out = []
    for kind, text in zip(kinds, texts, strict=True):
        out.append(text)
        if isinstance(kind, int) and not is_whole(text):
            break
    return [text for text in out if text not in ("", "{}")]


def piece_of(delta: dict[str, Any]) -> tuple[object, str]:
    for call in delta.get("tool_calls", ()):
        return call["index"], call["function"]["arguments"]
    kind, piece = next(iter(delta.items()), ("content", ""))
    return kind, piece


def is_whole(arguments: str) -> bool:
    try:
        return json.loads(arguments) != {}
    except ValueError:
        return False
