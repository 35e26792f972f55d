"""The opening of a block: index, bounds, minted ids, kept bytes."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import Limits
from streamnorm._core.codec.block_opener import BlockOpener
from streamnorm._core.failures import Fatal

LIMITS = Limits(max_blocks=2, max_tool_calls=2, max_id_chars=3, max_accumulated_bytes=10)


def opener() -> BlockOpener:
    return BlockOpener(LIMITS, lambda kind, where: None)


def test_blocks_are_numbered_up_to_the_bound() -> None:
    blocks = opener()
    assert [blocks.next_index(), blocks.next_index()] == [0, 1]
    with pytest.raises(Fatal) as failure:
        blocks.next_index()
    assert (failure.value.error.kind, failure.value.error.code) == ("too_large", "max_blocks")


def test_calls_are_counted_up_to_the_bound() -> None:
    blocks = opener()
    blocks.count_call("a", "f")
    blocks.count_call("b", "f")
    with pytest.raises(Fatal) as failure:
        blocks.count_call("c", "f")
    assert failure.value.error.code == "max_tool_calls"


def test_ids_and_names_are_bounded() -> None:
    blocks = opener()
    blocks.check_names("abc", "")
    for names in (("abcd", ""), ("", "abcd")):
        with pytest.raises(Fatal) as failure:
            blocks.count_call(*names)
        assert failure.value.error.code == "max_id_chars"


def test_kept_payloads_are_bounded_in_sum() -> None:
    blocks = opener()
    blocks.store(4)
    blocks.store(6)
    with pytest.raises(Fatal) as failure:
        blocks.store(1)
    assert failure.value.error.code == "max_accumulated_bytes"


def test_text_is_counted_in_utf_8() -> None:
    blocks = opener()
    assert blocks.store_text("aé\ud83d") == 6
    assert blocks.stored.left == 4


def test_fields_replace_those_of_their_name() -> None:
    blocks = BlockOpener(Limits(max_accumulated_bytes=110), lambda kind, where: None)
    stored: dict[str, Any] = {}
    for value in ("a", "bcd", "bcd", 5):
        blocks.store_fields(stored, {"x": value})
        assert stored == {"x": value}
    assert blocks.stored.left == 110 - 51
    with pytest.raises(Fatal) as failure:
        blocks.store_fields(stored, {"y": "z" * 9})
    assert failure.value.error.code == "max_accumulated_bytes"


def test_unknown_fields_of_usage_replace_the_former() -> None:
    blocks = BlockOpener(Limits(max_accumulated_bytes=200), lambda kind, where: None)
    for extra, left in (({"a": 1}, 200 - 165), ({"b": 1}, 200 - 165), (None, 200)):
        blocks.store_usage(extra)
        assert blocks.stored.left == left


def test_minted_id_depends_on_seed_and_block_and_leaves_a_note() -> None:
    notes: list[tuple[str, str]] = []
    first = BlockOpener(LIMITS, lambda kind, where: notes.append((kind, where)), seed=("r",))
    again = BlockOpener(LIMITS, lambda kind, where: None, seed=("r",))
    other = BlockOpener(LIMITS, lambda kind, where: None, seed=("s",))
    minted = first.mint_id("tool call")
    assert minted == again.mint_id("tool call")
    assert minted != other.mint_id("tool call")
    assert minted == BlockOpener(LIMITS, lambda kind, where: None).mint_id("tool call", "r")
    first.next_index()
    assert minted != first.mint_id("tool call")
    assert notes == [("minted_id", "tool call")] * 2
