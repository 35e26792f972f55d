"""Every real Converse stream of the corpus gives what botocore reads of it.

The judge is botocore's own parser and model; what it adds up to is read off its events by hand.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from botocore.eventstream import ChecksumMismatch
from botocore.parsers import ResponseParserError
from support.bedrock_converse.reader import Message, message_of, read
from support.bedrock_converse.streams import corpus_messages
from support.streams.content import DIALECTS as DIALECTS_OF_SSE
from support.streams.content import (
    content_of,
    decode,
    overlaps,
    projected,
    transcode,
    with_sorted_blocks,
)
from support.streams.corpus import corpus, needs_corpus

from streamnorm import (
    Completed,
    Failed,
    Limits,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    Text,
    ToolCall,
    Truncated,
    accumulate,
)
from streamnorm._core.codec import MAX_PROBLEMS
from streamnorm._core.json import object_in
from streamnorm._registry import DIALECTS, checker
from streamnorm.codec import EVENTSTREAM
from streamnorm.sse import Frame
from streamnorm.validation import validate

TARGETS = (
    *("anthropic", "openai_chat", "openai_responses"),
    *("gemini", "gemini_interactions", "bedrock_converse"),
)


def each_stream(test: Any) -> Any:
    found = [pytest.param(row, data, id=name) for name, row, data in corpus_messages()]
    return needs_corpus(pytest.mark.parametrize(("row", "data"), found)(test))


def decoded_message(data: bytes) -> Message:
    """Return what our events add up to, in the form of the judge."""
    decoded = decode([data], "bedrock_converse")
    message = accumulate(decoded.events)
    blocks: list[tuple[str, Any]] = []
    for block in message.blocks:
        match block:
            case Text(text) if text:
                blocks.append(("text", text))
            case Reasoning(signature=signature):
                blocks.append(("reasoning", (block.text, signature or "")))
            case RedactedReasoning(data):
                blocks.append(("redacted", data.encode()))
            case ToolCall(id, name, arguments):
                content = {"id": id, "name": name, "input": object_in(arguments or "{}")}
                blocks.append(("tool", content))
            case ServerToolCall(id, name, arguments):
                content = {"id": id, "name": name, "input": object_in(arguments or "{}")}
                blocks.append(("server", content))
            case _:
                pass
    usage = message.usage
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    tokens = None
    if usage.input_tokens is not None and usage.output_tokens is not None:
        total = usage.input_tokens + usage.output_tokens
        tokens = (usage.input_tokens - cached, usage.output_tokens, total)
    return Message(blocks, message.raw_stop_reason, tokens)  # type: ignore[arg-type]


@each_stream
def test_stream_decodes_as_botocore_reads_it(row: dict[str, Any], data: bytes) -> None:
    outcome = decode([data], "bedrock_converse").outcome
    try:
        reading = read(data)
    except ResponseParserError:
        # A start without a member, which vercel's fixture has.
        assert row["violations"][0].startswith("V-PARSE")
        assert isinstance(outcome, Completed)
        return
    except ChecksumMismatch:
        assert isinstance(outcome, Failed)
        assert outcome.error.kind == "malformed"
        return
    if "V-TYPE" in "".join(row["violations"]):  # a test of agentgateway, without message types
        assert isinstance(outcome, Failed)
        assert outcome.error.kind == "malformed"
        return
    expected = {"completed": Completed, "truncated": Truncated, "error": Failed}[row["outcome"]]
    assert isinstance(outcome, expected)
    if isinstance(outcome, Failed):
        assert outcome.error.kind == "upstream"
        assert outcome.error.code == reading.error
    wanted = message_of(reading.events)
    usage = wanted.usage
    if usage is not None:
        usage = (usage["inputTokens"], usage["outputTokens"], usage["totalTokens"])
    got = decoded_message(data)
    assert got.blocks == wanted.blocks
    assert got.usage == usage
    if isinstance(outcome, Completed):
        assert got.stop_reason == wanted.stop_reason


@each_stream
def test_stream_is_equal_in_its_own_dialect(row: dict[str, Any], data: bytes) -> None:
    if row["outcome"] != "completed" or row["violations"]:
        return
    assert transcode([data], "bedrock_converse", "bedrock_converse", verbatim=True)[0] == data
    out, _ = transcode([data], "bedrock_converse", "bedrock_converse")
    again, original = message_of(read(out).events), message_of(read(data).events)
    # Blank text is left out, since the API refuses it in a history.
    blocks = [block for block in original.blocks if block[0] != "text" or block[1].strip()]
    assert again.blocks == blocks
    assert again.stop_reason == original.stop_reason
    names = ("inputTokens", "outputTokens", "totalTokens")
    if original.usage is not None and again.usage is not None:
        assert [again.usage[name] for name in names] == [original.usage[name] for name in names]


@each_stream
@pytest.mark.parametrize("target", TARGETS)
def test_stream_goes_to_every_dialect(row: dict[str, Any], data: bytes, target: str) -> None:
    decoded = decode([data], "bedrock_converse")
    out, transcoder = transcode([data], "bedrock_converse", target)
    passed, losses = projected(decoded.events, target, extras=target == "bedrock_converse")
    assert {loss for loss in transcoder.losses if loss.where != "failed stream"} == set(losses)
    if any(loss.feature == "held" for loss in transcoder.losses):
        return
    back = decode([out], target)
    assert isinstance(back.outcome, Completed) == isinstance(transcoder.outcome, Completed)
    if row["violations"]:  # blocks that overlap, in fixtures
        return
    assert content_of(back.events, target) == content_of(passed, target)


@each_stream
def test_validator_finds_what_the_index_finds(row: dict[str, Any], data: bytes) -> None:
    judge = checker("bedrock_converse")
    found = [
        problem
        for frame in EVENTSTREAM.layout.frame_reader(Limits()).feed(data)
        if isinstance(frame, Frame)
        for problem in judge.check(frame)
    ]
    assert len(found) <= MAX_PROBLEMS
    if row["fidelity"] in ("raw", "sanitised:ids"):
        assert found + judge.missing() == []
    if row["violations"]:
        assert found + judge.missing() != []


# What real answers have, and what no encoder of streams holds back.
EXCUSED = re.compile(
    r"input of block \d+ in \d+ characters is no JSON object, expected one"
    r"|stopReason is end_turn with a toolUse of the client, expected tool_use"
)


@needs_corpus
@pytest.mark.parametrize("source", DIALECTS_OF_SSE)
def test_real_stream_of_any_dialect_is_written(source: str) -> None:
    for stream in corpus(source)[::3]:
        events = decode([stream.body], source).events
        out, run = transcode([stream.body], source, "bedrock_converse")
        passed, losses = projected(events, "bedrock_converse")
        is_whole = isinstance(run.outcome, Completed)
        assert {loss for loss in run.losses if loss.where != "failed stream"} == set(losses)
        assert (read(out).error is None) == is_whole, stream.name
        if is_whole:
            found = [violation.message for violation in validate(out, "bedrock_converse")]
            assert [each for each in found if not EXCUSED.fullmatch(each)] == [], stream.name
            back = decode([out], "bedrock_converse").events
            got, wanted = (content_of(each, "bedrock_converse") for each in (back, passed))
            assert with_sorted_blocks(got) == with_sorted_blocks(wanted), stream.name
            assert overlaps(events) or got == wanted, stream.name


def test_every_dialect_is_a_target() -> None:
    # Of the dialects of pages only requests are read.
    written = {name for name, each in DIALECTS.items() if each.encoder and each.codec}
    assert written == set(TARGETS)
