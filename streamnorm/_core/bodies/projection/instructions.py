"""Files in system messages, for targets whose instructions are text."""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.blocks import Audio, Document, Image, InputBlock, Video
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.projection.history import media_title
from streamnorm._core.bodies.request import InputMessage, is_same_dialect
from streamnorm._core.losses import Losses

INSTRUCTIONS = ("system", "developer")


def move_instruction_media(
    messages: tuple[InputMessage, ...], target: BodyCapabilities, losses: Losses
) -> tuple[InputMessage, ...]:
    """Move the files of system messages into a user message behind them.

    Clients of the Responses API have images in instructions.  Anthropic, Google and Bedrock have
    text alone there, and Chat Completions refuses images of all roles but the user's.
    """
    if not any(_has_media(message, target) for message in messages):
        return messages
    moved: list[InputBlock] = []
    ordered: list[InputMessage] = []
    is_leading = True
    for message in messages:
        if message.role not in INSTRUCTIONS:
            is_leading = False
            if moved:
                ordered.append(_announce(moved))
                moved = []
        # Where later instructions become messages of the user, they have their files in place.
        is_text = not is_leading and target.inline_system == "text"
        if is_text or not _has_media(message, target):
            ordered.append(message)
            continue
        losses.add("system_moved", "messages", "files in a message of the user after it")
        moved += filter(_is_media, message.blocks)
        rest = tuple(block for block in message.blocks if not _is_media(block))
        if rest:
            ordered.append(structs.replace(message, blocks=rest))
    return (*ordered, _announce(moved)) if moved else tuple(ordered)


def _has_media(message: InputMessage, target: BodyCapabilities) -> bool:
    """Return whether a message is one of another dialect's instructions with files."""
    return (
        message.role in INSTRUCTIONS
        and any(map(_is_media, message.blocks))
        and not is_same_dialect(message, target.dialect)
    )


def _is_media(block: InputBlock) -> bool:
    return isinstance(block, Image | Document | Audio | Video)


def _announce(blocks: list[InputBlock]) -> InputMessage:
    """Return a user message with files that the user did not send."""
    return InputMessage("user", (media_title(blocks, "the system prompt"), *blocks))
