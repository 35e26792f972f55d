"""Token counts as Gemini tells them."""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of

__all__ = ["usage_to_wire"]


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return a snapshot as `usageMetadata`; what nobody said is 0.

    The counts of the answer leave out the thoughts, and those of the prompt what tools
    brought, which is known only of the same vendor.

    Args:
        usage: The snapshot.
        extras: Whether to write the vendor's other counts back.
    """
    wire: dict[str, Any] = dict(usage.extra or {}) if extras else {}
    prompt, output = usage.input_tokens or 0, usage.output_tokens or 0
    tools = min(count_of(wire.get("toolUsePromptTokenCount")) or 0, prompt)
    thoughts = usage.reasoning_tokens or 0
    wire |= {
        "promptTokenCount": prompt - tools,
        "candidatesTokenCount": output - thoughts,
        "totalTokenCount": wire.get("totalTokenCount", prompt + output),
    }
    if usage.cache_read_tokens is not None:
        wire["cachedContentTokenCount"] = usage.cache_read_tokens
    if usage.reasoning_tokens is not None:
        wire["thoughtsTokenCount"] = thoughts
    return wire
