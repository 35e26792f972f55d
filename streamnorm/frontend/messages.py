"""Encoding of a stored chat as the messages that a web page shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from streamnorm._bodies import reader_of
from streamnorm._conversation import Conversation
from streamnorm._core.bodies.chats import clean_messages
from streamnorm._core.bodies.request import InputMessage
from streamnorm._core.codec import PageCodec
from streamnorm._core.errors import UnknownDialect
from streamnorm._core.losses import Loss, Losses
from streamnorm._core.messages import Message
from streamnorm._registry import DIALECTS, lookup


class PageMessages(Struct, frozen=True):
    """A stored chat, encoded as the messages that a web page shows.

    Attributes:
        messages: The JSON objects, oldest first.
        losses: What they could not carry.
    """

    messages: list[dict[str, Any]]
    losses: tuple[Loss, ...] = ()


def encode_messages(
    history: Conversation | Message | Sequence[Message | InputMessage],
    dialect: str,
    *,
    strict: bool = False,
) -> PageMessages:
    """Encode a stored chat as the messages that a web page shows.

    They are `initialMessages` of `useChat` and of AG-UI's agents.  What the page sends back is
    decoded to the same messages, within the losses, with the signatures of their reasoning.  A call
    whose id is empty or that of an earlier call gets another one, and so does its result.

    Args:
        history: The chat: a conversation, or answers and messages of requests, oldest first.
        dialect: Dialect of the page.
        strict: Whether to raise `LossyEncoding` at the first loss.

    Raises:
        EncodeError: A call has no name.
        LossyEncoding: Something would be lost, and `strict` is set.
        UnknownDialect: There is no such dialect, or it is of no page.
    """
    known = lookup(dialect)
    codec = reader_of(known)
    if not isinstance(codec, PageCodec):
        pages = [name for name in DIALECTS if _is_of_page(name)]
        problem = f"no messages of a page in dialect {known.name!r}"
        raise UnknownDialect(f"{problem}, expected one of {', '.join(pages)}")
    losses = Losses(strict=strict)
    if isinstance(history, Conversation):
        history = history.messages
    elif isinstance(history, Message):
        history = (history,)
    messages = clean_messages(codec.write_messages(history, losses), losses)
    return PageMessages(messages, losses.list())


def _is_of_page(name: str) -> bool:
    known = DIALECTS[name].body
    return known is not None and isinstance(known(), PageCodec)
