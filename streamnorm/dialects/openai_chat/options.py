"""Options of decoder and encoder, and quirks of servers."""

from __future__ import annotations

from typing import get_args

from msgspec import Struct, structs

from streamnorm._core.blocks import Reasoning
from streamnorm._core.codec import DialectOptions
from streamnorm._core.losses import Capabilities, ReasoningField

FIELDS: tuple[ReasoningField, ...] = get_args(ReasoningField)
"""Fields that a server may send reasoning in."""


class ChatOptions(DialectOptions, frozen=True, kw_only=True):
    """Options of the Chat Completions decoder and encoder.

    Attributes:
        think_tags: Whether `<think>…</think>` at the start of a choice is read as reasoning.
        include_usage: Whether the usage chunk is written, which clients request with
            `stream_options`.
        reasoning: Field that reasoning is written to; `reasoning_details` alone holds
            signatures and redacted reasoning.  None leaves reasoning out.
    """

    think_tags: bool = False
    include_usage: bool = True
    reasoning: ReasoningField | None = "reasoning_content"

    def limit(self, capabilities: Capabilities) -> Capabilities:
        target = capabilities
        # Only the field of OpenRouter holds signatures and encrypted data.
        if self.reasoning == "reasoning_details":
            target = structs.replace(
                target,
                redacted_reasoning=True,
                signed=(Reasoning, *target.signed),
                call_issuer=None,  # the client sends the reasoning back
            )
        return target if self.include_usage else structs.replace(target, usage="never")


class Quirks(Struct, frozen=True, kw_only=True):
    """Deviations of one server that change how the decoder reads chunks.

    Attributes:
        cumulative_arguments: Each fragment of a call repeats all before it.  Elsewhere a
            fragment that begins like the arguments so far is simply the next one.
    """

    cumulative_arguments: bool = False


QUIRKS = {
    # NousResearch/hermes-agent#35718
    "qianfan": Quirks(cumulative_arguments=True),
}
"""Quirks by name of the server."""
