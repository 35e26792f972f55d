"""Reasoning messages of a page that are parts of one reasoning block, as a request."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import InputBlock, Reasoning, Text, decode_request


def said(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def thought(content: str = "Hm.", value: Any = None) -> dict[str, Any]:
    encrypted = value if isinstance(value, str) else json.dumps(value)
    fields = {} if value is None else {"encryptedValue": encrypted}
    return {"role": "reasoning", "content": content, **fields}


def blocks_of(*messages: dict[str, Any]) -> tuple[InputBlock, ...]:
    """Return the blocks of the answer that neighbouring messages are."""
    numbered = [{"id": f"m{n}", **message} for n, message in enumerate(messages)]
    names: dict[str, Any] = {"threadId": "t", "runId": "r", "tools": [], "context": []}
    (answer,) = decode_request({**names, "messages": numbered}, "ag_ui").messages
    assert answer.role == "assistant"
    return answer.blocks


def test_summaries_of_one_item_are_parts_of_one_block() -> None:
    signed = {"signature": "s", "provider_name": "openai", "id": "rs_1"}
    whole = (Reasoning(("One", "Two"), "s", "openai", "rs_1"),)
    assert blocks_of(thought("One", signed), thought("Two", {"id": "rs_1"})) == whole
    assert len(blocks_of(thought("One", signed), thought("Two", {"id": "rs_2"}))) == 2
    assert len(blocks_of(thought("One", "sn1.openai.s"), thought("Two", signed))) == 2
    many = [thought(str(number), {"id": "rs_1"}) for number in range(20_000)]
    assert blocks_of(*many, thought("Two", signed)) == (
        Reasoning((*map(str, range(20_000)), "Two"), "s", "openai", "rs_1"),
    )


def test_marked_reasoning_goes_on_in_the_next_message() -> None:
    more = {"metadata": {"isContinued": True}}
    assert blocks_of({**thought("One"), **more}, thought("Two", "sn1.anthropic.s")) == (
        Reasoning(("One", "Two"), "s", "anthropic"),
    )
    assert blocks_of({**thought("One"), **more}, said("Hi"), thought("Two")) == (
        Reasoning(("One",)),
        Text("Hi"),
        Reasoning(("Two",)),
    )


def test_messages_of_one_span_are_parts_of_one_block() -> None:
    """Clients up to 0.0.57 drop `metadata`; the ids are those of the encoder."""

    def parts(*ids: str) -> tuple[Any, ...]:
        *first, last = ids
        signed = {**thought(last, "sn1-id.openai.rs_1.s"), "id": last}
        return blocks_of(*({**thought(id), "id": id} for id in first), signed)

    signed = ("s", "openai", "rs_1")
    assert parts("r-1.0", "r-1.1", "r-1.2") == (Reasoning(("r-1.0", "r-1.1", "r-1.2"), *signed),)
    for before in ("r-1.1", "r-1.2", "r-2.0", "r-1", "r-1.0x"):
        assert parts(before, "r-1.1") == (Reasoning((before,)), Reasoning(("r-1.1",), *signed))
    assert len(parts("r-1.0", "r-1")) == 2


def test_reasoning_of_a_failed_run_is_no_part_of_the_next() -> None:
    cut, whole = thought("cut half of run 1"), thought("B", "sn1-id.openai.rs_2.ENC")
    assert blocks_of(cut, whole) == (
        Reasoning(("cut half of run 1",)),
        Reasoning(("B",), "ENC", "openai", "rs_2"),
    )


def test_part_without_an_id_keeps_that_of_the_part_before() -> None:
    first = {**thought("One", "sn1-id.openai.rs_1.s"), "metadata": {"isContinued": True}}
    assert blocks_of(first, thought("Two")) == (Reasoning(("One", "Two"), "s", "openai", "rs_1"),)
