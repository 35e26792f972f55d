"""Every real Gemini stream of the corpus gives what its payloads say.

What they say is read off them by hand, as `json` reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from support.streams.corpus import CorpusStream, each_stream_of, payloads

from streamnorm import (
    Completed,
    Event,
    Failed,
    Reasoning,
    ServerToolCall,
    SignatureDelta,
    ToolCall,
    Truncated,
    accumulate,
)
from streamnorm.codec import Decoder
from streamnorm.dialects.gemini import DIALECT
from streamnorm.dialects.gemini.decode import GeminiDecoder
from streamnorm.sse import Frame
from streamnorm.validation import validate

FAILURES = {"UNEXPECTED_TOOL_CALL"}
REASONS = {"STOP": "end_turn", "MAX_TOKENS": "max_tokens", "1": "end_turn", "2": "max_tokens"}
REFUSALS = {"SAFETY", "RECITATION"}

each_stream = each_stream_of("gemini")


def chunks_of(stream: CorpusStream) -> list[dict[str, Any]]:
    if not stream.body.startswith(b"["):
        return [json.loads(data) for data in all_payloads(stream.body)]
    chunks: list[dict[str, Any]] = json.loads(stream.body)
    return chunks


def all_payloads(body: bytes) -> Iterator[str]:
    """Yield the payloads of the events, then the rest of the body."""
    *events, rest = body.decode().replace("\r\n", "\n").split("\n\n")
    yield from payloads("\n\n".join(events).encode())
    if rest.strip():
        yield rest.removeprefix("data: ")


def decode(body: bytes, size: int) -> tuple[list[Event], Decoder]:
    source = GeminiDecoder()
    events = [e for at in range(0, len(body), size) for e in source.feed(body[at : at + size])]
    return events + source.close(), source


class ExpectedMessage:
    """The message that the payloads add up to, part by part."""

    def __init__(self, chunks: list[dict[str, Any]]) -> None:
        self.text = self.thought = ""
        self.calls: list[tuple[str, Any]] = []
        self.signatures: list[str] = []
        self.code: list[dict[str, Any]] = []
        self.usage: dict[str, int] = {}
        self.finish: str | None = None
        self.blocked: str | None = None
        self.answered = 0
        for chunk in chunks:
            counts = chunk.get("usageMetadata", {})
            self.usage |= {key: value for key, value in counts.items() if type(value) is int}
            self.blocked = chunk.get("promptFeedback", {}).get("blockReason") or self.blocked
            for candidate in chunk.get("candidates", ()):
                self.finish = str(candidate.get("finishReason") or "") or self.finish
                for part in (candidate.get("content") or {}).get("parts") or ():
                    self.part(part)

    def part(self, part: dict[str, Any]) -> None:
        if part.get("thought"):
            self.thought += part["text"]
        else:
            self.text += part.get("text", "")
        if "thoughtSignature" in part:
            self.signatures.append(part["thoughtSignature"])
        if "executableCode" in part:
            self.code.append(part["executableCode"])
        self.answered += "functionResponse" in part
        call = part.get("functionCall")
        if call is None:
            return
        if "name" in call:
            self.calls.append((call["name"], call.get("args") or {}))
        for entry in call.get("partialArgs", ()):
            value = next((v for k, v in entry.items() if k.endswith("Value")), None)
            if value is not None:
                put(self.calls[-1][1], entry["jsonPath"], value)

    @property
    def input(self) -> int | None:
        return self._sum("promptTokenCount", "toolUsePromptTokenCount")

    @property
    def output(self) -> int | None:
        return self._sum("candidatesTokenCount", "thoughtsTokenCount")

    def _sum(self, *keys: str) -> int | None:
        expected = [self.usage[key] for key in keys if key in self.usage]
        return sum(expected) if expected else None


def put(tree: Any, path: str, value: Any) -> None:
    """Add a value at a path, behind the string that is there already, if one is."""
    steps = [int(s[1:-1]) if s[0] == "[" else s for s in re.findall(r"\w+|\[[0-9]+\]", path[1:])]
    for step, following in pairwise([*steps, None]):
        default: Any = value if following is None else [] if isinstance(following, int) else {}
        if isinstance(tree, list) and step == len(tree):
            tree.append(default)
        elif isinstance(tree, dict) and step not in tree:
            tree[step] = default
        elif following is None:
            tree[step] += value
        tree = tree[step]


@each_stream
def test_message_equals_the_accumulated_payloads(stream: CorpusStream) -> None:
    body = stream.body
    events, source = decode(body, 1 << 20)
    assert validate(events) == []
    again, _ = decode(body, 61)
    assert again == events
    expected, message = ExpectedMessage(chunks_of(stream)), accumulate(events)
    assert message.text == expected.text
    thoughts = [block.text for block in message.blocks if isinstance(block, Reasoning)]
    assert "".join(thoughts) == expected.thought
    calls = [block for block in message.blocks if isinstance(block, ToolCall)]
    assert [(call.name, call.input()) for call in calls] == expected.calls
    assert len({call.id for call in calls}) == len(calls)
    served = [block for block in message.blocks if isinstance(block, ServerToolCall)]
    code = [json.loads(call.arguments) for call in served if call.kind == "executableCode"]
    assert code == expected.code
    kept = [event.signature for event in events if isinstance(event, SignatureDelta)]
    kept += [call.signature for call in calls if call.signature and call.signature not in kept]
    # Those of code stand beside it, where the block has no place for one.
    beside = [(getattr(e, "extra", None) or {}).get("thoughtSignature") for e in events]
    assert sorted([*kept, *filter(None, beside)]) == sorted(expected.signatures)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (
        expected.input,
        expected.output,
    )
    assert message.usage.cache_read_tokens == expected.usage.get("cachedContentTokenCount")
    assert message.usage.reasoning_tokens == expected.usage.get("thoughtsTokenCount")
    assert_expected_outcome(source, expected, body)


def assert_expected_outcome(source: Decoder, expected: ExpectedMessage, body: bytes) -> None:
    if b'"error": {' in body or expected.finish in FAILURES:
        assert isinstance(source.outcome, Failed)
        return
    if expected.finish is None and expected.blocked is None:
        assert isinstance(source.outcome, Truncated)
        return
    outcome = source.outcome
    assert isinstance(outcome, Completed)
    if expected.finish is None or expected.finish in REFUSALS:
        assert outcome.reason == "refusal"
        return
    reason = REASONS[expected.finish]
    called = len(expected.calls) > expected.answered
    assert outcome.reason == ("tool_use" if called and reason == "end_turn" else reason)


@each_stream
def test_first_frame_is_recognised(stream: CorpusStream) -> None:
    assert DIALECT.recognises(Frame("message", json.dumps(chunks_of(stream)[0])))
