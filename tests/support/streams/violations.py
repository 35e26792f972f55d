"""Violations of a dialect's strict rules that no encoder may repair, since the source has them."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["EXCUSED", "is_excused"]

EXCUSED = {
    r"(input of block|arguments of [a-z ]+) \d+ in \d+ characters (is|are) no JSON .*": (
        "arguments pass byte for byte, those too that were cut or never were an object"
    ),
    r"(content_block\.|delta\.|step\.|event_|)type is unknown in \d+ characters, .*": (
        "events that the dialect does not know yet go out as they came"
    ),
    r"stop_reason is end_turn with a tool_use block, expected tool_use": (
        "a call whose arguments were cut, or that was answered at once, is not to be executed"
    ),
    r"status is completed with a call of the client, expected requires_action": (
        "a call whose arguments were cut, or that was answered at once, is not to be executed"
    ),
    r".*\.logprob is (missing|null), expected a number": "NaN, which JSON cannot have",
    r"(response\.)?usage\.(completion|output)_tokens_details has \d+ tokens, .*": (
        "some providers count more reasoning than output"
    ),
    r"item\.(action|role) is missing, expected .*": (
        "items of the provider's own go out as they came, those too that lack a field"
    ),
    r"item\.status is a string of 9 characters, expected completed or .*": (
        "a search that is done and still searches"
    ),
    r"(candidates|usageMetadata).* is an integer, expected (a string|MODALITY_UNSPECIFIED or .*)": (
        "numbers for words, as Google sends them to those who ask for that"
    ),
    r".*\.safetyRatings\[\d\]\.category is missing, expected a string": (
        "what Google says of safety goes out as it came"
    ),
    r"(usageMetadata\.totalTokenCount|usage\.total_tokens) is \d+, expected \d+": (
        "Google's own total, where it is another than the sum"
    ),
}
"""Pattern of each message, and the reason."""


def is_excused(message: str, further: Iterable[str] = ()) -> bool:
    """Return whether a violation comes from the source.

    Args:
        message: Its message.
        further: Patterns besides `EXCUSED`.
    """
    return any(re.fullmatch(pattern, message) for pattern in (*EXCUSED, *further))
