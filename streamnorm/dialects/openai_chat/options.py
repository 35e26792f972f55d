"""Options that only Chat Completions has."""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.blocks import Reasoning
from streamnorm._core.codec import DialectOptions
from streamnorm._core.losses import Capabilities, ReasoningField

__all__ = ["ChatOptions"]


class ChatOptions(DialectOptions, frozen=True, kw_only=True):
    """Options of the decoder and of the encoder.

    Attributes:
        think_tags: Whether `<think>…</think>` at the start of a choice is read as reasoning.
        include_usage: Whether the tokens are written; clients ask for them by
            `stream_options`.
        reasoning: Field that reasoning is written to; `reasoning_details` alone holds
            signatures and redacted reasoning.  None leaves reasoning out.
    """

    think_tags: bool = False
    include_usage: bool = True
    reasoning: ReasoningField | None = "reasoning_content"

    def limit(self, capabilities: Capabilities) -> Capabilities:
        can = capabilities
        if self.reasoning == "reasoning_details":
            can = structs.replace(can, redacted_reasoning=True, signed=(Reasoning, *can.signed))
        return can if self.include_usage else structs.replace(can, usage="never")
