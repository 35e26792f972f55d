"""Fields of an answer that only its vendor knows, for a target of another dialect."""

from __future__ import annotations

from typing import Any

from streamnorm._core.json import is_array, is_object
from streamnorm._core.losses.loss import Losses

__all__ = ["VendorFields"]

# What says nothing of the answer: types, ids, states, times, sums and padding; what other features
# and the writers of blocks deal with; and what a response repeats of its request.
_UNCOUNTED = frozenset(
    {
        *("type", "object", "role", "id", "index", "item_id", "status", "responseId"),
        *("total_tokens", "totalTokenCount"),
        *("created", "created_at", "completed_at", "createTime"),
        *("system_fingerprint", "obfuscation", "service_tier", "thought"),
        *("access_programs", "background", "conversation", "frequency_penalty", "image"),
        *("instructions", "max_output_tokens", "max_tool_calls", "metadata"),
        *("parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning"),
        *("safety_identifier", "store", "temperature", "text", "tool_choice", "tools"),
        *("top_logprobs", "top_p", "truncation", "user"),
    }
)


class VendorFields:
    """Counts the vendor's own fields (`extra`) that the target does not get.

    They are no content, so they do not end a strict encoder: each answer of some vendors has
    them.

    Args:
        losses: Counts `extra`.

    Attributes:
        are_carried: Whether source and target are of one dialect, which writes them back.
        carried: Names of fields that are written in any case.
    """

    def __init__(self, losses: Losses) -> None:
        self.are_carried = False
        self.carried: frozenset[str] = frozenset()
        self._losses = losses

    def drop(self, fields: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the fields of an event without those that are lost, which are counted."""
        left = self.left_of(fields)
        if fields is not None and left is not fields:
            for name in fields.keys() - (left or {}).keys():
                self._losses.count("extra", name, "dropped")
        return left

    def left_of(self, fields: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the fields of an event that are not lost; the same object if none is."""
        if fields is None or self.are_carried:
            return fields
        left = {
            name: value
            for name, value in fields.items()
            if name in _UNCOUNTED or name in self.carried or not _says_something(value)
        }
        return fields if len(left) == len(fields) else left or None


def _says_something(value: object) -> bool:
    """Return whether a value is, or holds, anything but nulls, zeros and empty texts."""
    if is_object(value):
        return any(map(_says_something, value.values()))
    if is_array(value):
        return any(map(_says_something, value))
    return bool(value)
