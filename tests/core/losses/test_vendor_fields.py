"""Fields of an answer that only its vendor knows."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    Loss,
    MessageStart,
    MessageStop,
    ToolCall,
    Usage,
    UsageUpdate,
    project,
)
from streamnorm._core.losses import Losses
from streamnorm._core.losses.reducers import VendorFields
from streamnorm.codec import encoder


def stream(extra: dict[str, Any] | None) -> list[Event]:
    """Return a stream each of whose objects has the same further fields."""
    return [
        MessageStart("m", "gpt", extra),
        BlockStart(0, ToolCall("c", "f"), extra=extra),
        *(JSONDelta(0, "{}"), BlockStop(0)),
        *(UsageUpdate(Usage(1, 1, extra=extra)), UsageUpdate(Usage(1, 2, extra=extra))),
        MessageStop("tool_use", extra=extra),
    ]


def test_each_field_is_a_loss_of_its_name_and_the_usage_counts_once() -> None:
    events, losses = project(stream({"grounding": {"a": [1]}, "id": "x"}), "anthropic")
    assert events == stream({"id": "x"})
    assert losses == (Loss("extra", "grounding", 4, "dropped"),)
    assert project(events, "anthropic") == (events, ())


def test_losses_are_in_the_order_of_the_fields() -> None:
    names = ["seed", "zone", "queue", "audit", "cost", "byok", "trace"]
    _, losses = project(stream(dict.fromkeys(names, 1)), "anthropic")
    assert [loss.where for loss in losses] == names


def test_fields_that_are_written_back_are_no_losses() -> None:
    events = stream({"container": {"id": "c"}})
    assert project(events, "anthropic", extras=True) == (events, ())


@pytest.mark.parametrize("value", [None, 0, "", False, {}, [], {"a": {"b": [0, None, ""]}}])
def test_a_field_that_says_nothing_is_no_loss(value: object) -> None:
    events = stream({"x": value})
    assert project(events, "openai_chat") == (events, ())


def test_usage_that_is_not_written_loses_no_details() -> None:
    usage = UsageUpdate(Usage(1, 1, extra={"x": 1}))
    events: list[Event] = [MessageStart("m", "gpt"), usage, MessageStop("end_turn")]
    assert project(events, "openai_chat", include_usage=False)[1] == ()
    assert project(events, "openai_chat")[1] == (Loss("extra", "x", 1, "dropped"),)


def test_strict_encoders_do_not_raise_for_fields_of_the_vendor() -> None:
    writer = encoder("anthropic", strict=True)
    for event in stream({"grounding": 1}):
        writer.encode(event)
    assert writer.losses == (Loss("extra", "grounding", 4, "dropped"),)


def test_names_that_a_target_knows_are_no_losses() -> None:
    losses = Losses()
    fields = VendorFields(losses)
    fields.carried = frozenset({"safetyRatings"})
    assert fields.drop({"safetyRatings": [1], "x": 1}) == {"safetyRatings": [1]}
    assert fields.drop({"x": 1}) is None
    assert fields.drop(None) is None
    assert losses.list() == (Loss("extra", "x", 2, "dropped"),)


def test_an_encoder_says_whether_it_writes_fields_back() -> None:
    writer = encoder("anthropic")
    assert not writer.extras
    writer.extras = True
    for event in stream({"grounding": 1}):
        writer.encode(event)
    assert writer.losses == ()
