"""Events of single items of Responses streams, with the blocks that start."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from streamnorm import Block, OpaqueBlock
from support.draws import Draws
from support.streams.generated import cut_units

__all__ = [
    "Begun",
    "GeneratedItem",
    "ItemStyle",
    "Payload",
    "Step",
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
        payload: The event, without sequence number, item id and output index.
        begins: The blocks that start with it, complete, and the extra fields of each.
    """

    payload: Payload
    begins: list[Begun] = []


class GeneratedItem(Struct):
    """An item with its events.

    Attributes:
        steps: Its events.
        whole: The complete item.
        blocks: Its blocks, in the order in which the complete item holds them.
    """

    steps: list[Step]
    whole: Payload
    blocks: list[Begun]


class ItemStyle(Struct):
    """The server-dependent style of items.

    Attributes:
        ascii: Whether characters beyond ASCII are escaped.
        ids: Whether items have ids of their own.
        parts: Whether the parts of a message have start and end events.
        dones: Whether each text is repeated when it is complete.
        gaps: Whether deltas may be missing.
        tools: The custom tools that the response lists; None if it lists none.
        cut_off: Whether a call may be cut short.
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


def id_of(style: ItemStyle, prefix: str, number: int) -> Payload:
    return {"id": f"{prefix}_{number}"} if style.ids else {}


def extra_of(whole: Payload, **more: Any) -> dict[str, Any] | None:
    """Return a block's extra fields from its item."""
    id = {"item_id": whole["id"]} if "id" in whole else {}
    return {**id, **more} or None


def deltas(
    d: Draws, style: ItemStyle, kind: str, text: str, place: Payload, least: int = 0
) -> list[Step]:
    """Return a text's deltas, some of them missing."""
    pieces: list[str] = cut_units(d, text, 4) if text else []
    if style.gaps:
        del pieces[least + d.below(len(pieces) + 1) :]
    if d.flag(6):
        pieces.insert(d.below(len(pieces) + 1), "")
    type = f"response.{kind}.delta"
    return [Step({"type": type, **place, "delta": piece}) for piece in pieces]


def begun(steps: list[Step], begun: Begun, *, late: bool = False) -> GeneratedItem:
    """Return an item that becomes one block.

    Args:
        steps: Its events.
        begun: The block.
        late: Whether its name comes with the complete item.
    """
    if late:
        steps[0].payload["item"] = {**steps[0].payload["item"], "name": ""}
    steps[-1 if late else 0].begins.append(begun)
    return GeneratedItem(steps, steps[-1].payload["item"], [begun])


def opaque(value: Payload) -> OpaqueBlock:
    return OpaqueBlock("openai_responses", value["type"], compact(value))


def compact(value: Payload) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
