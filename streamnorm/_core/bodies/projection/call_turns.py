"""Answers whose calls are refused behind another message of the assistant, or at the beginning."""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.bodies.request import InputMessage, same_parts
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses

__all__ = ["join_call_turns"]


def join_call_turns(messages: tuple[InputMessage, ...], losses: Losses) -> tuple[InputMessage, ...]:
    """Return messages whose calls stand in the first message of an answer.

    Args:
        messages: The messages.
        losses: Counts messages that are joined.

    Raises:
        EncodeError: The first message has calls.
    """
    joined: list[InputMessage] = []
    for message in messages:
        if message.role == "assistant" and message.tool_calls:
            while joined and joined[-1].role == "assistant":
                losses.add("messages_merged", "messages", "calls joined to the text before them")
                last = joined.pop()
                message = structs.replace(last, blocks=last.blocks + message.blocks)
            if not joined:
                raise EncodeError(
                    "calls before any message of the user, expected one before them",
                    path="messages[0]",
                )
        joined.append(message)
    return same_parts(messages, tuple(joined))
