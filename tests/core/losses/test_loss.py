"""Losses, and how they are counted."""

from __future__ import annotations

import pytest

from streamnorm import Loss, LossyEncoding
from streamnorm._core.losses import Losses


def test_equal_losses_are_counted_as_one_entry() -> None:
    losses = Losses()
    for feature, where in [("a", "x"), ("b", "x"), ("a", "x"), ("a", "y"), ("a", "x")]:
        losses.add(feature, where, "dropped")
    assert losses.list() == (
        Loss("a", "x", 3, "dropped"),
        Loss("b", "x", 1, "dropped"),
        Loss("a", "y", 1, "dropped"),
    )


def test_each_loss_is_reported_as_it_happens() -> None:
    heard: list[Loss] = []
    losses = Losses(on_loss=heard.append)
    losses.add("a", "x")
    losses.add("a", "x")
    assert heard == [Loss("a", "x"), Loss("a", "x")]


def test_strict_losses_raise_at_the_first() -> None:
    losses = Losses(strict=True)
    with pytest.raises(LossyEncoding, match="signature in Text would be lost") as caught:
        losses.add("signature", "Text", "dropped")
    assert caught.value.losses == (Loss("signature", "Text", 1, "dropped"),)


def test_strict_loss_says_what_would_lose_nothing() -> None:
    losses = Losses(strict=True)
    with pytest.raises(LossyEncoding) as caught:
        losses.add("effort_changed", "request", "written as none", expected="dialect b")
    assert str(caught.value) == "effort_changed in request would be lost, expected dialect b"


def test_counted_loss_never_raises() -> None:
    losses = Losses(strict=True)
    assert losses.count("usage", "failed stream") == Loss("usage", "failed stream")
    assert losses.list() == (Loss("usage", "failed stream"),)


def test_number_and_length_of_entries_are_bounded() -> None:
    losses = Losses()
    for number in range(1000):
        losses.add("opaque", f"{number}" + "x" * 1000)
    listed = losses.list()
    assert sum(loss.count for loss in listed) == 1000
    assert len(listed) <= 300
    assert max(len(loss.where) for loss in listed) <= 100


def test_number_and_length_of_features_are_bounded() -> None:
    """Those of a request have the names of its unknown fields."""
    losses = Losses()
    for number in range(2000):
        losses.add(f"{number}" + "x" * 1000, "request", "dropped")
    listed = losses.list()
    assert [len(listed), listed[-1]] == [513, Loss("other", "elsewhere", 2000 - 512)]
    assert max(len(loss.feature) for loss in listed) == 100
    assert len(losses.kinds) == 256  # those that are listed by their own name


@pytest.mark.parametrize("count", [256, 257, 300])
def test_losses_beyond_the_bound_are_counted_elsewhere(count: int) -> None:
    losses = Losses()
    for number in range(count):
        losses.add("opaque", str(number))
    elsewhere = [loss for loss in losses.list() if loss.where == "elsewhere"]
    assert elsewhere == ([Loss("opaque", "elsewhere", count - 256)] if count > 256 else [])


def test_losses_of_some_work_are_recorded_and_counted() -> None:
    losses = Losses()
    losses.add("a", "x")
    value, lost = losses.record(lambda: losses.add("a", "x") or losses.add("b", "y", "dropped"))
    assert (value, lost) == (None, (("a", "x", ""), ("b", "y", "dropped")))
    losses.add("c", "z")
    assert losses.list() == (Loss("a", "x", 2), Loss("b", "y", 1, "dropped"), Loss("c", "z"))
