"""Reducers of tool arguments, block boundaries, usage and stop reasons."""

from __future__ import annotations

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Loss,
    MessageStart,
    MessageStop,
    Reasoning,
    Refusal,
    RefusalDelta,
    Text,
    ToolCall,
    Usage,
    UsageUpdate,
    project,
)
from streamnorm._core.limits import StoredBytes
from streamnorm._core.losses import Losses
from streamnorm._core.losses.joined_text import Boundaries, WholeArguments
from streamnorm._registry import capabilities

START = MessageStart("m", "gpt")
USAGE = UsageUpdate(Usage(1, 2))
STOP = MessageStop("end_turn")


@pytest.mark.parametrize(
    ("fragments", "written"),
    [
        ((), ""),
        (('{"a":', "1}"), '{"a":1}'),
        ((" {\r\n", '"a": 1}\n'), '{  "a": 1}'),
        (('{"a":"\x85\u2028\u2029"}',), '{"a":"\\u0085\\u2028\\u2029"}'),
    ],
)
def test_whole_arguments_are_one_object_on_one_line(
    fragments: tuple[str, ...], written: str
) -> None:
    losses = Losses()
    arguments = WholeArguments(losses, StoredBytes())
    for fragment in fragments:
        arguments.append(3, fragment)
    assert arguments.pop(3, "ToolCall") == written
    assert arguments.sink(3) is None
    assert losses.list() == ()


@pytest.mark.parametrize(
    ("text", "written", "loss"),
    [
        ("null", "", Loss("null_arguments", "tool call", 1, "written as {}")),
        ("[]", None, Loss("broken_arguments", "ToolCall", 1, "call dropped")),
        ('{"a":', None, Loss("broken_arguments", "ToolCall", 1, "call dropped")),
    ],
)
def test_arguments_that_are_no_object_are_counted(
    text: str, written: str | None, loss: Loss
) -> None:
    losses = Losses()
    arguments = WholeArguments(losses, StoredBytes())
    arguments.append(0, text)
    assert arguments.pop(0, "ToolCall") == written
    assert losses.list() == (loss,)


def test_discarded_arguments_are_a_loss() -> None:
    losses = Losses()
    arguments = WholeArguments(losses, StoredBytes())
    arguments.append(0, "{}")
    arguments.discard(0, "ToolCall")
    assert losses.list() == (Loss("broken_arguments", "ToolCall", 1, "call dropped"),)


def boundaries() -> tuple[Boundaries, Losses]:
    target = capabilities("gemini")
    assert target is not None
    losses = Losses()
    return Boundaries(target, losses), losses


def test_adjacent_blocks_of_one_type_merge() -> None:
    found, losses = boundaries()
    for index, kind in enumerate([Text, Text, Reasoning, ToolCall, ToolCall]):
        found.start(index, 0, kind, signature_only=False)
        found.stop(index, written=True)
    assert found.merged == {1: 0}
    assert losses.list() == (Loss("boundaries", "Text", 1, "written as one block"),)


def test_signature_is_a_boundary() -> None:
    found, losses = boundaries()
    found.start(0, 0, Text, signature_only=False)
    found.sign(0)
    found.stop(0, written=True)
    found.start(1, 0, Text, signature_only=False)
    assert found.merged == {}
    assert losses.list() == ()


def test_neighbours_of_an_unwritten_block_merge() -> None:
    found, _ = boundaries()
    for index, kind in enumerate([Text, ToolCall, Text]):
        found.start(index, 0, kind, signature_only=False)
        found.stop(index, written=kind is Text)
    assert found.merged == {2: 0}


def test_added_block_separates_those_that_it_is_written_between() -> None:
    """A block that a projection adds has an index below zero, and goes behind earlier starts."""
    found, losses = boundaries()
    found.start(0, 0, ToolCall, signature_only=False)
    found.start(1, 0, Text, signature_only=False)
    found.start(-1, 0, ToolCall, signature_only=False)
    found.start(2, 0, Text, signature_only=False)
    for index in (-1, 1, 2, 0):
        found.stop(index, written=True)
    assert found.merged == {}
    assert losses.list() == ()


def test_held_block_that_is_not_written_separates_nothing() -> None:
    found, _ = boundaries()
    found.start(0, 0, ToolCall, signature_only=False)
    for index, kind in ((1, Text), (2, ToolCall), (3, Text)):
        found.start(index, 0, kind, signature_only=False)
        found.stop(index, written=kind is Text)
    found.stop(0, written=True)
    assert found.merged == {3: 1}


def test_held_block_that_is_open_is_written_when_its_turn_comes() -> None:
    found, _ = boundaries()
    found.start(0, 0, ToolCall, signature_only=False)
    found.start(1, 0, Text, signature_only=False)
    found.stop(0, written=True)
    found.stop(1, written=True)
    found.start(2, 0, Text, signature_only=False)
    assert found.merged == {2: 1}


def test_message_with_a_refusal_stops_with_refusal() -> None:
    body = [BlockStart(0, Refusal()), RefusalDelta(0, "no"), BlockStop(0)]
    events, _ = project([START, *body, USAGE, MessageStop("end_turn", "stop")], "anthropic")
    assert events[-1] == MessageStop("refusal", "stop")


def test_unsupported_stop_reason_is_counted() -> None:
    events, losses = project([START, USAGE, MessageStop("other", "weird")], "anthropic")
    assert events[-1] == MessageStop("end_turn", "weird")
    assert losses == (Loss("stop_reason", "other", 1, "written as end_turn"),)


def test_native_stop_reason_of_the_target_passes() -> None:
    for word in ("max_messages", "steered"):
        stop = MessageStop("other", word)
        assert project([START, USAGE, stop], "openai_responses") == ([START, USAGE, stop], ())
    left, losses = project([START, USAGE, MessageStop("other", "moon")], "openai_responses")
    assert left[-1] == MessageStop("end_turn", "moon")
    assert losses == (Loss("stop_reason", "other", 1, "written as end_turn"),)
    paused = MessageStop("pause", "steered")
    passed, _ = project([START, USAGE, paused], "openai_responses")
    assert passed[-1] == MessageStop("end_turn", "steered")


@pytest.mark.parametrize(
    ("usage", "unknown"),
    [
        (Usage(), ["input_tokens", "output_tokens"]),
        (Usage(input_tokens=0), ["output_tokens"]),
        (Usage(output_tokens=0), ["input_tokens"]),
        (Usage(1, 2), []),
    ],
)
def test_unknown_token_counts_are_a_loss(usage: Usage, unknown: list[str]) -> None:
    _, losses = project([START, UsageUpdate(usage), STOP], "anthropic")
    assert losses == tuple(Loss("usage_unknown", name, 1, "written as 0") for name in unknown)


@pytest.mark.parametrize("number", ["1e400", "-1E+400", "0.5e999", "1" * 400, "1" * 400 + ".5"])
def test_numbers_beyond_those_of_python_pass_as_text(number: str) -> None:
    losses = Losses()
    arguments = WholeArguments(losses, StoredBytes())
    text = f'{{"a": [{number}], "b": "1e400"}}'
    arguments.append(0, text)
    assert arguments.pop(0, "ToolCall") == text
    assert losses.list() == ()


@pytest.mark.parametrize(
    "text", ['{"a":NaN}', '{"a":0' + "1" * 400 + "}", '{"a":1e}', '{"a":e400}']
)
def test_numbers_that_are_no_json_are_broken(text: str) -> None:
    losses = Losses()
    arguments = WholeArguments(losses, StoredBytes())
    arguments.append(0, text)
    assert arguments.pop(0, "ToolCall") is None
