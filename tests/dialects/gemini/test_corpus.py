"""Every real Gemini stream of the corpus gives what its payloads say.

What they say is read off them by hand, as `json` reads them.
"""

from __future__ import annotations

import json
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streamnorm import (
    Completed,
    Decoder,
    Event,
    Failed,
    Reasoning,
    ServerToolCall,
    SignatureDelta,
    ToolCall,
    Truncated,
    accumulate,
    validate,
)
from streamnorm.dialects.gemini import DIALECT
from streamnorm.dialects.gemini.decode import GeminiDecoder
from streamnorm.sse import Frame

CORPUS = os.environ.get("STREAMNORM_CORPUS")
FILES = (
    sorted(
        path
        for path in (Path(CORPUS) / "gemini").iterdir()
        if not path.name.endswith(".request.json")
    )
    if CORPUS
    else []
)

FAILURES = {"UNEXPECTED_TOOL_CALL"}
REASONS = {"STOP": "end_turn", "MAX_TOKENS": "max_tokens", "1": "end_turn", "2": "max_tokens"}
REFUSALS = {"SAFETY", "RECITATION"}

each_file = pytest.mark.skipif(not CORPUS, reason="STREAMNORM_CORPUS names no corpus")
with_path = pytest.mark.parametrize("path", FILES or [None], ids=lambda p: p.name if p else "")


def wire(path: Path) -> bytes:
    """Return a stream's bytes; of some only the payloads were kept, one a line."""
    data = path.read_bytes()
    if path.suffix != ".jsonl":
        return data
    return b"".join(b"data: %b\r\n\r\n" % line for line in data.split(b"\n") if line.strip())


def payloads(path: Path) -> list[dict[str, Any]]:
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        value = json.loads(text)
        return value if isinstance(value, list) else [value]
    start = "{" if path.suffix == ".jsonl" else "data:"
    lines = [line.removeprefix("data:") for line in text.split("\n") if line.startswith(start)]
    return [json.loads(line) for line in lines]


def decode(body: bytes, size: int) -> tuple[list[Event], Decoder]:
    source = GeminiDecoder()
    events = [e for at in range(0, len(body), size) for e in source.feed(body[at : at + size])]
    return events + source.close(), source


class Said:
    """What the payloads say, added up part by part."""

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
        said = [self.usage[key] for key in keys if key in self.usage]
        return sum(said) if said else None


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


@each_file
@with_path
def test_message_is_what_the_payloads_add_up_to(path: Path) -> None:
    body = wire(path)
    events, source = decode(body, 1 << 20)
    assert validate(events) == []
    again, _ = decode(body, 61)
    assert again == events
    said, message = Said(payloads(path)), accumulate(events)
    assert message.text == said.text
    thoughts = [block.text for block in message.blocks if isinstance(block, Reasoning)]
    assert "".join(thoughts) == said.thought
    calls = [block for block in message.blocks if isinstance(block, ToolCall)]
    assert [(call.name, call.input()) for call in calls] == said.calls
    assert len({call.id for call in calls}) == len(calls)
    served = [block for block in message.blocks if isinstance(block, ServerToolCall)]
    code = [json.loads(call.arguments) for call in served if call.kind == "executableCode"]
    assert code == said.code
    kept = [event.signature for event in events if isinstance(event, SignatureDelta)]
    # Those of code stand beside it, where the block has no place for one.
    beside = [(getattr(e, "extra", None) or {}).get("thoughtSignature") for e in events]
    assert sorted([*kept, *filter(None, beside)]) == sorted(said.signatures)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (said.input, said.output)
    assert message.usage.cache_read_tokens == said.usage.get("cachedContentTokenCount")
    assert message.usage.reasoning_tokens == said.usage.get("thoughtsTokenCount")
    assert_ends_as_said(source, said, body)


def assert_ends_as_said(source: Decoder, said: Said, body: bytes) -> None:
    if b'"error": {' in body or said.finish in FAILURES:
        assert isinstance(source.outcome, Failed)
        return
    if said.finish is None and said.blocked is None:
        assert isinstance(source.outcome, Truncated)
        return
    outcome = source.outcome
    assert isinstance(outcome, Completed)
    if said.finish is None or said.finish in REFUSALS:
        assert outcome.reason == "refusal"
        return
    reason = REASONS[said.finish]
    called = len(said.calls) > said.answered
    assert outcome.reason == ("tool_use" if called and reason == "end_turn" else reason)


@each_file
@with_path
def test_first_frame_tells_the_dialect(path: Path) -> None:
    assert DIALECT.recognises(Frame("message", json.dumps(payloads(path)[0])))
