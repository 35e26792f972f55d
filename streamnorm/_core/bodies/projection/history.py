"""Signatures in the history: moved back from carriers, and checked against the target's vendor.

A client whose dialect can sign only reasoning receives the signatures of calls and texts on
empty reasoning blocks (see `losses.signatures`), and sends these carriers back.
"""

from __future__ import annotations

import re

from msgspec import structs

from streamnorm._core.blocks import InputBlock, Reasoning, RedactedReasoning, Text, ToolCall
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import InputMessage, Source, same_parts
from streamnorm._core.json import dumps
from streamnorm._core.losses import Losses
from streamnorm._core.text import SignatureCarrier, read_carrier

# A tagged signature as text, or in Base64: `c24x` encodes `sn1`.
_TAG = re.compile(rb'"(?:sn1[.-]|c24x)')


def holds_tags(message: InputMessage) -> bool:
    """Return whether the JSON of a message has signatures that we tagged.

    They belong to another vendor; the vendor of the dialect would refuse them.
    """
    source = message.source
    if not isinstance(source, Source) or source.value is None:
        return False
    if not any(map(_is_signed, message.blocks)):
        return False
    return _TAG.search(dumps(source.value)) is not None


def is_signed_for(block: Reasoning | RedactedReasoning, target: BodyCapabilities) -> bool:
    """Return whether reasoning has a signature of the target's vendor, by its issuer and form."""
    signature = block.data if isinstance(block, RedactedReasoning) else block.signature
    if not signature or block.issuer is None or block.issuer != target.reasoning_issuer:
        return False
    return target.signature_pattern is None or bool(
        re.fullmatch(target.signature_pattern, signature)
    )


def is_verified(block: Reasoning | RedactedReasoning, target: BodyCapabilities) -> bool:
    """Return whether the target accepts the signature of reasoning in its own dialect."""
    return target.signature_pattern is None or is_signed_for(block, target)


def restore_signatures(
    blocks: tuple[InputBlock, ...], target: BodyCapabilities
) -> tuple[InputBlock, ...]:
    """Return the blocks of an assistant message, with carried signatures back on their blocks."""
    carried = {
        number: found
        for number, block in enumerate(blocks)
        if isinstance(block, Reasoning | RedactedReasoning)
        and (found := _read_carrier(block)) is not None
        and found.issuer == target.reasoning_issuer
    }
    if not carried:
        return blocks
    by_call = {found.id: found for found in carried.values() if found.id}
    restored: list[InputBlock] = []
    for number, block in enumerate(blocks):
        found = carried.get(number)
        if found is not None:
            if not found.id:
                _sign_text(restored, found)
        elif isinstance(block, ToolCall) and block.id in by_call:
            signature, issuer, _ = by_call[block.id]
            restored.append(structs.replace(block, signature=signature, issuer=issuer))
        else:
            restored.append(block)
    return tuple(restored)


def drop_foreign_reasoning(
    blocks: tuple[InputBlock, ...], target: BodyCapabilities, losses: Losses, *, stored: bool
) -> tuple[InputBlock, ...]:
    """Return the blocks of an answer without reasoning that the target cannot verify or find.

    Servers with the target's dialect, such as Kimi with Anthropic's, have signatures of their
    own.

    Args:
        blocks: The blocks.
        target: Capabilities of the target.
        losses: Counter of dropped reasoning.
        stored: Whether the target stores responses, and so knows reasoning by its id.
    """
    kept: list[InputBlock] = []
    known = (None, target.reasoning_issuer)
    is_lost = target.stored_reasoning and not stored
    # OpenAI's Chat Completions has no field for reasoning; servers that have one have profiles.
    is_refused = target.reasoning_issuer is None and not target.reasoning_text
    for block in blocks:
        is_bare = isinstance(block, Reasoning) and block.signature is None
        if isinstance(block, Reasoning | RedactedReasoning) and (
            is_refused or block.issuer not in known or (is_bare and is_lost)
        ):
            losses.add("reasoning_dropped", "messages", "dropped")
        else:
            kept.append(block)
    return same_parts(blocks, tuple(kept))


def _is_signed(block: InputBlock) -> bool:
    if isinstance(block, Reasoning | Text | ToolCall):
        return block.signature is not None
    return isinstance(block, RedactedReasoning)


def _read_carrier(block: Reasoning | RedactedReasoning) -> SignatureCarrier | None:
    """Return the signature that a block carries for another block."""
    if isinstance(block, RedactedReasoning):
        return read_carrier(block.data)
    return None if block.text or block.signature is None else read_carrier(block.signature)


def _sign_text(blocks: list[InputBlock], carried: SignatureCarrier) -> None:
    """Sign the text before a carrier; without one, append an empty text with the signature."""
    signature, issuer, _ = carried
    if blocks and isinstance(blocks[-1], Text) and blocks[-1].signature is None:
        blocks[-1] = structs.replace(blocks[-1], signature=signature, issuer=issuer)
    else:
        blocks.append(Text(signature=signature, issuer=issuer))
