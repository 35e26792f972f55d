"""Restoration of carried signatures, independent of the package."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm import Block, Message, Reasoning, Text, ToolCall

__all__ = ["carried_back"]


def carried_back(message: Message) -> Message:
    """Return a message with carried signatures moved to their calls or texts."""
    blocks: list[Block] = []
    extras: list[dict[str, Any] | None] = []
    of_calls: dict[str, tuple[str, str | None]] = {}
    known = message.block_extras or (None,) * len(message.blocks)
    for block, extra in zip(message.blocks, known, strict=True):
        if not isinstance(block, Reasoning) or not (block.signature or "").startswith("sn1-of."):
            blocks.append(block)
            extras.append(extra)
            continue
        assert block.signature is not None
        assert (block.issuer, "".join(block.parts)) == (None, "")
        _, id, issuer, signature = block.signature.split(".", 3)
        told = (signature, _plain(issuer) or None)
        if id:
            of_calls[_plain(id)] = told
        else:
            assert isinstance(blocks[-1], Text)
            blocks[-1] = structs.replace(blocks[-1], signature=told[0], issuer=told[1])
    for number, block in enumerate(blocks):
        if isinstance(block, ToolCall) and (of_call := of_calls.pop(block.id, None)) is not None:
            blocks[number] = structs.replace(block, signature=of_call[0], issuer=of_call[1])
    assert of_calls == {}
    told_extras = tuple(extras) if any(extras) else ()
    return structs.replace(message, blocks=tuple(blocks), block_extras=told_extras)


def _plain(name: str) -> str:
    return name.replace("%2e", ".").replace("%25", "%")
