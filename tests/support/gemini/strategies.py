"""Random Gemini streams, and their expected messages.

Written as Google's two services write them: parts
alone or several in a chunk, signatures in all places, finish reasons and counts on each
chunk or the last, ids and candidate numbers left out, all in the frame of Code Assist.
No part ends within a character: what is written from protocol buffers has whole ones.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from msgspec import Struct

from streamnorm import Message, StopReason, Usage
from support.draws import Draws
from support.gemini.parts import Bit, Blocks
from support.streams.generated import Source

__all__ = ["make_gemini_array", "make_gemini_stream"]

_WORDS: tuple[tuple[str | int, StopReason], ...] = (
    ("STOP", "end_turn"),
    ("STOP", "end_turn"),
    ("STOP", "end_turn"),
    ("MAX_TOKENS", "max_tokens"),
    ("SAFETY", "refusal"),
    ("CONTINUATION", "pause"),
    ("OTHER", "other"),
    (1, "end_turn"),  # with `enum-encoding=int`
)
_RATINGS = {"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}]}


class _Server(Struct):
    """The style of a server.

    Attributes:
        ascii: Whether other characters are escaped.
        newline: What ends its lines.
        names: What each chunk tells of the message.
        counts: Which chunks hold counts.
        finishes: Whether each chunk holds the finish reason.
        ratings: Whether each chunk holds safety ratings.
        numbers: Whether the first candidate is numbered.
        wrapped: Whether each chunk stands in another object.
    """

    ascii: bool
    newline: str
    names: dict[str, str]
    counts: str
    finishes: bool
    ratings: bool
    numbers: bool
    wrapped: bool


class _Answer(Struct):
    """One generated candidate.

    Attributes:
        made: Its blocks, and what is left to send of them.
        word: Why it ends.
        reason: What that means.
        told: What else its end says.
    """

    made: Blocks
    word: str | int
    reason: StopReason
    told: dict[str, Any]


def _server(d: Draws) -> _Server:
    names = {"responseId": "resp-1", "modelVersion": "gemini-1"}
    return _Server(
        ascii=d.flag(),
        newline=d.pick(("\r\n", "\r\n", "\n", "\r")),
        names=d.pick((names, names, {"modelVersion": "gemini-1"}, {})),
        counts=d.pick(("each", "last", "first and last", "none")),
        finishes=d.flag(4),
        ratings=d.flag(4),
        numbers=d.flag(),
        wrapped=d.flag(6),
    )


def _usage(d: Draws) -> tuple[dict[str, Any], dict[str, Any], Usage]:
    """Return the counts of a chunk, of the last chunk, and the final usage."""
    prompt, out = 1 + d.below(50), 1 + d.below(50)
    cached, thought, tools = (d.pick((None, None, count)) for count in (prompt // 2, 3, 4))
    details = [{"modality": "TEXT", "tokenCount": prompt}]
    extra: dict[str, Any] = {"promptTokensDetails": details} if d.flag(3) else {}
    parts = {
        "cachedContentTokenCount": cached,
        "thoughtsTokenCount": thought,
        "toolUsePromptTokenCount": tools,
    }
    known = {key: count for key, count in parts.items() if count is not None}
    early = {"promptTokenCount": prompt, "totalTokenCount": prompt}
    total = prompt + out + (thought or 0) + (tools or 0)
    last = {**early, "candidatesTokenCount": out, **known, "totalTokenCount": total, **extra}
    extra |= {"toolUsePromptTokenCount": tools} if tools is not None else {}
    whole = (prompt + (tools or 0), out + (thought or 0))
    return early, last, Usage(*whole, cached, None, thought, extra or None)


def make_gemini_stream(d: Draws) -> Source:
    """Return a complete stream and its message."""
    server = _server(d)
    payloads, source = _make(d, server)
    frames = [_frame(server, payload) for payload in payloads]
    lenient: tuple[str, ...] = ()
    if d.flag(8):  # a gateway that knows Chat Completions best
        frames.append(f"data: [DONE]{server.newline * 2}".encode())
    elif d.flag(6):
        frames[-1] = frames[-1].rstrip(b"\r\n")
        lenient = ("unterminated",)
    return source._replace(frames=frames, lenient=lenient)


def make_gemini_array(d: Draws) -> Source:
    """Return a complete JSON array, as sent without `alt=sse`, and its message."""
    server = _server(d)
    payloads, source = _make(d, server)
    between, indent = d.pick((",\r\n", ",", "\n,\n")), d.pick((2, None))
    frames = [_json(server, payload, indent) + between.encode() for payload in payloads]
    frames[0] = d.pick((b"[", b"\n[ ")) + frames[0]
    frames[-1] = frames[-1].removesuffix(between.encode()) + d.pick((b"]", b"\n]\n"))
    return source._replace(frames=frames)


def _make(d: Draws, server: _Server) -> tuple[list[dict[str, Any]], Source]:
    """Return the chunks of a stream, and its message."""
    own = {"createTime": "2026-01-01T00:00:00Z"} if d.flag(4) else {}
    extra = {**own, **({"traceId": "t"} if server.wrapped else {})}
    early, last, usage = _usage(d)
    if server.counts == "none":
        early, last, usage = {}, {}, Usage()
    id, model = (server.names.get(key, "") for key in ("responseId", "modelVersion"))
    if d.flag(20):
        feedback = {"promptFeedback": {"blockReason": "SAFETY"}}
        chunk = {**feedback, **server.names, **own}
        refused = Message(id, model, (), "refusal", "SAFETY", extra={**feedback, **extra})
        return [chunk], Source([], [refused], Usage(), ())
    answers = [_answer(d, server) for _ in range(d.pick((1, 1, 1, 2)))]
    if any("functionResponse" in (bit.part or {}) for a in answers for bit in a.made.bits):
        own["turnToken"] = extra["turnToken"] = "v1_t"  # where Google executes functions
    payloads = _chunks(d, server, answers)
    late = {"modelStatus": {"modelStage": "STABLE"}} if len(payloads) > 1 and d.flag(6) else {}
    for number, payload in enumerate(payloads):
        payload |= {**server.names, **own}
        if server.counts == "each" or (server.counts == "first and last" and not number):
            payload["usageMetadata"] = early
    payloads[-1] |= {"usageMetadata": last, **late} if last else late
    ratings = _RATINGS if server.ratings else {}
    messages = [
        Message(
            id,
            model,
            tuple(answer.made.blocks),
            "tool_use" if answer.made.asked and answer.reason == "end_turn" else answer.reason,
            str(answer.word),
            usage=usage,
            extra=extra or None,
            stop_extra={**ratings, **answer.told, **(late if not number else {})} or None,
            block_extras=tuple(answer.made.extras) if any(answer.made.extras) else (),
        )
        for number, answer in enumerate(answers)
    ]
    return payloads, Source([], messages, usage, ())


def _answer(d: Draws, server: _Server) -> _Answer:
    word, reason = d.pick(_WORDS)
    ends = {"end_turn": "end", "max_tokens": "broken", "refusal": "broken"}
    made = Blocks(d, ascii=server.ascii, last=ends.get(reason, "whole"))
    count = d.below(5)
    for number in range(count):
        made.add(last=number == count - 1)
    beside: tuple[dict[str, Any], ...] = ({}, {}, {"avgLogprobs": -0.5}, {"finishMessage": "é"})
    return _Answer(made, word, reason, d.pick(beside))


def _chunks(d: Draws, server: _Server, answers: list[_Answer]) -> list[dict[str, Any]]:
    """Return the candidates as chunks, some with several parts or candidates."""
    chunks: list[dict[str, Any]] = []
    left = {number: list(answer.made.bits) for number, answer in enumerate(answers)}
    unfinished = set(left)
    while unfinished:
        several = d.flag(3)
        candidates: list[dict[str, Any]] = []
        for number in sorted(unfinished) if several else [d.pick(sorted(unfinished))]:
            bits = _some(d, left[number])
            candidate = _candidate(d, server, number, bits)
            # A finish reason beside code is no end: its result follows.
            is_code = any("executableCode" in (bit.part or {}) for bit in bits)
            ends = not left[number] and (not bits or (d.flag() and not is_code))
            if ends:
                unfinished.discard(number)
            if ends or server.finishes:
                candidate["finishReason"] = answers[number].word
            if ends:
                candidate |= answers[number].told
            candidates.append(candidate)
        chunks.append({"candidates": candidates})
    return chunks


def _some(d: Draws, left: list[Bit]) -> list[Bit]:
    """Return the next bits that fit into one chunk."""
    taken: list[Bit] = []
    while left and not any(bit.beside for bit in taken) and (not taken or d.flag(3)):
        taken.append(left.pop(0))
    return taken


def _candidate(d: Draws, server: _Server, number: int, bits: list[Bit]) -> dict[str, Any]:
    parts = [bit.part for bit in bits if bit.part is not None]
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}}
    if not parts:
        candidate = d.pick(({}, {"content": {}}, {"content": {"role": "model"}}))
        candidate = dict(candidate)
    for bit in bits:
        candidate |= bit.beside
    if number or server.numbers:
        candidate["index"] = number
    return {**candidate, **(_RATINGS if server.ratings else {})}


def _json(server: _Server, payload: dict[str, Any], indent: int | None = None) -> bytes:
    whole = {"response": payload, "traceId": "t"} if server.wrapped else payload
    text = json.dumps(whole, ensure_ascii=server.ascii, indent=indent)
    return re.sub('"@([^"]*)@"', lambda mark: base64.b64decode(mark[1]).decode(), text).encode()


def _frame(server: _Server, payload: dict[str, Any]) -> bytes:
    return b"data: " + _json(server, payload) + server.newline.encode() * 2
