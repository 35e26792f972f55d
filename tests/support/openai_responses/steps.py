"""The events of single items of Responses streams, and the blocks that begin with them."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from streamnorm import Block, OpaqueBlock
from support.made_streams import cut_units
from support.seeded import Dice

__all__ = [
    "Begun",
    "Made",
    "Payload",
    "Step",
    "Way",
    "added",
    "begun",
    "compact",
    "deltas",
    "done",
    "extra_of",
    "id_of",
    "opaque",
]

Payload = dict[str, Any]
Begun = tuple[Block, dict[str, Any] | None]


class Step(Struct):
    """One event of an item.

    Attributes:
        payload: The event, but for what numbers and names it.
        begins: The blocks that begin with it, as they are at their end, and what else is
            told of each.
    """

    payload: Payload
    begins: list[Begun] = []


class Made(Struct):
    """An item on the wire.

    Attributes:
        steps: Its events.
        whole: The complete item.
        blocks: Its blocks, in the order in which the complete item holds them.
    """

    steps: list[Step]
    whole: Payload
    blocks: list[Begun]


class Way(Struct):
    """How a stream is written, as far as its items show it.

    Attributes:
        ascii: Whether other characters are escaped.
        ids: Whether items have ids of their own.
        parts: Whether the parts of a message are begun and ended.
        dones: Whether each text is sent again when it is complete.
        gaps: Whether pieces may be missing.
        tools: The custom tools that the response echoes; None if it echoes none.
        cut_off: Whether a call may break off.
    """

    ascii: bool
    ids: bool
    parts: bool
    dones: bool
    gaps: bool
    tools: tuple[str, ...] | None
    cut_off: bool


def added(whole: Payload, **empty: Any) -> Step:
    item = {**whole, "status": "in_progress", **empty}
    return Step({"type": "response.output_item.added", "item": item})


def done(whole: Payload) -> Step:
    return Step({"type": "response.output_item.done", "item": whole})


def id_of(way: Way, prefix: str, number: int) -> Payload:
    return {"id": f"{prefix}_{number}"} if way.ids else {}


def extra_of(whole: Payload, **more: Any) -> dict[str, Any] | None:
    """Return what else is told of a block of an item."""
    id = {"item_id": whole["id"]} if "id" in whole else {}
    return {**id, **more} or None


def deltas(d: Dice, way: Way, kind: str, text: str, place: Payload, least: int = 0) -> list[Step]:
    """Return the pieces of a text, of which all but the `least` first may be lost."""
    pieces: list[str] = cut_units(d, text, 4) if text else []
    if way.gaps:
        del pieces[least + d.below(len(pieces) + 1) :]
    if d.flag(6):
        pieces.insert(d.below(len(pieces) + 1), "")
    type = f"response.{kind}.delta"
    return [Step({"type": type, **place, "delta": piece}) for piece in pieces]


def begun(steps: list[Step], begun: Begun, *, late: bool = False) -> Made:
    """Return an item of one block.

    Args:
        steps: Its events.
        begun: The block.
        late: Whether its name is not known before its end.
    """
    if late:
        steps[0].payload["item"] = {**steps[0].payload["item"], "name": ""}
    steps[-1 if late else 0].begins.append(begun)
    return Made(steps, steps[-1].payload["item"], [begun])


def opaque(value: Payload) -> OpaqueBlock:
    return OpaqueBlock("openai_responses", value["type"], compact(value))


def compact(value: Payload) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
