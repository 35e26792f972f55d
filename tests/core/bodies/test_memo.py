"""What is stored of the messages of a growing history."""

from __future__ import annotations

import pytest
from msgspec import structs
from support.bodies.projection_targets import EVERYTHING

from streamnorm import InputMessage, Loss, LossyEncoding, Text
from streamnorm._core.bodies.memo import EncodingMemo
from streamnorm._core.codec import WriteContext
from streamnorm._core.losses import Losses

MESSAGE = InputMessage("user", (Text("a"),))


class Work:
    """An encoding that counts its calls and loses something."""

    def __init__(self, losses: Losses) -> None:
        self.calls = 0
        self._losses = losses

    def __call__(self) -> int:
        self.calls += 1
        self._losses.add("odd", "messages", "dropped")
        return self.calls


def run(memo: EncodingMemo, message: InputMessage, *, step: str = "s", position: int = 0) -> int:
    """Return 1 if a message was encoded anew, else 0."""
    losses = Losses()
    work = Work(losses)
    assert memo.result(step, position, message, losses, work) == 1
    assert losses.list() == (Loss("odd", "messages", 1, "dropped"),)
    return work.calls


def test_a_message_is_encoded_once_with_its_losses() -> None:
    memo = EncodingMemo()
    assert [run(memo, MESSAGE) for _ in range(3)] == [1, 0, 0]


def test_a_message_is_known_by_its_parts_and_its_position() -> None:
    memo = EncodingMemo()
    assert run(memo, MESSAGE) == 1
    assert run(memo, structs.replace(MESSAGE)) == 0
    assert run(memo, MESSAGE, step="other") == 1
    assert run(memo, MESSAGE, position=1) == 1
    for other in (
        InputMessage("user", (Text("a"),)),
        structs.replace(MESSAGE, role="assistant"),
        structs.replace(MESSAGE, name="ann"),
        structs.replace(MESSAGE, extra={}),
        structs.replace(MESSAGE, source={}),
        structs.replace(MESSAGE, blocks=(*MESSAGE.blocks, *MESSAGE.blocks)),
    ):
        assert run(memo, MESSAGE) == 0
        assert run(memo, other) == 1
        assert run(memo, MESSAGE) == 1


def test_a_message_that_cannot_be_encoded_is_not_stored() -> None:
    memo = EncodingMemo()
    with pytest.raises(ZeroDivisionError):
        memo.result("s", 0, MESSAGE, Losses(), lambda: 1 / 0)
    assert run(memo, MESSAGE) == 1


def test_a_known_loss_raises_where_losses_are_strict() -> None:
    memo = EncodingMemo()
    assert run(memo, MESSAGE) == 1
    with pytest.raises(LossyEncoding):
        memo.result("s", 0, MESSAGE, Losses(strict=True), lambda: 1)


def test_a_writer_without_a_memo_writes_each_time() -> None:
    context = WriteContext(EVERYTHING, Losses())
    write = context.memoize(lambda message, number: {message.role: number})
    written = [write(MESSAGE, 0) for _ in range(2)]
    assert written == [{MESSAGE.role: 0}] * 2
    assert written[0] is not written[1]
