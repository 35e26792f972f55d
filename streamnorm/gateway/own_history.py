"""The history of a conversation that other upstreams answered before.

What an upstream of another dialect signed or encrypted reaches the client as a tagged value.
One of the client's own dialect, which would get the client's bytes, refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import structs

from streamnorm._bodies import codec_of
from streamnorm._core.blocks import InputBlock, Reasoning, RedactedReasoning, Text, ToolCall
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.ids import carried_signature
from streamnorm._core.losses import Loss, OnLoss
from streamnorm._upstream.requests import Upstream

__all__ = ["own_history", "signs_reasoning"]


# Servers that host the models of vendors.
_HOSTS = ("azure", "bedrock", "vertex")
# Field of reasoning in which an aggregator names the vendor; what it sent it also accepts.
_FORMAT = "format"


def own_history(upstream: Upstream, on_loss: OnLoss) -> Callable[[Request], Request]:
    """Return the function that removes what others than an upstream signed from a request.

    Args:
        upstream: An upstream of the client's own dialect.
        on_loss: Called with each loss.
    """
    can = codec_of(upstream.dialect).capabilities
    # It has stored nothing, so it knows no reasoning that is not encrypted.
    knows_unsigned = not signs_reasoning(upstream)

    def remove(request: Request) -> Request:
        is_changed = False
        messages: list[InputMessage] = []
        for message in request.messages:
            blocks = tuple(_kept(message.blocks, can, on_loss, knows_unsigned=knows_unsigned))
            if blocks == message.blocks:
                messages.append(message)
                continue
            is_changed = True
            if blocks:
                messages.append(structs.replace(message, blocks=blocks))
        return structs.replace(request, messages=tuple(messages)) if is_changed else request

    return remove


def signs_reasoning(upstream: Upstream) -> bool:
    """Return whether an upstream is the vendor or a host of its models, where reasoning is signed.

    Other servers of the dialect may know reasoning that nobody signed.
    """
    issuer = codec_of(upstream.dialect).capabilities.reasoning_issuer
    return issuer is not None and upstream.server in (issuer, *_HOSTS)


def _kept(
    blocks: tuple[InputBlock, ...], can: BodyCapabilities, on_loss: OnLoss, *, knows_unsigned: bool
) -> Iterator[InputBlock]:
    """Yield blocks without what the target cannot verify.

    Args:
        blocks: The blocks of a message.
        can: Capabilities of the target.
        on_loss: Called with each loss.
        knows_unsigned: Whether the target may know reasoning that nobody signed.
    """
    for block in blocks:
        match block:
            case Reasoning() | RedactedReasoning():
                if _is_sendable(block, can, knows_unsigned=knows_unsigned):
                    yield block
                else:
                    on_loss(Loss("reasoning_dropped", "messages", detail="dropped"))
            case Text() | ToolCall() if block.signature is not None and not _is_known(block, can):
                on_loss(Loss("signature_dropped", "messages", detail="dropped"))
                yield structs.replace(block, signature=None, issuer=None)
            case _:
                yield block


def _is_known(block: Text | ToolCall, can: BodyCapabilities) -> bool:
    return block.issuer in (None, can.reasoning_issuer)


def _is_sendable(
    block: Reasoning | RedactedReasoning, can: BodyCapabilities, *, knows_unsigned: bool
) -> bool:
    signature = block.signature if isinstance(block, Reasoning) else block.data
    if not signature:
        return knows_unsigned
    if block.extra is not None and any(_FORMAT in fields for fields in block.extra.values()):
        return True
    if block.issuer not in (None, can.reasoning_issuer):
        return False
    return carried_signature(signature) is None
