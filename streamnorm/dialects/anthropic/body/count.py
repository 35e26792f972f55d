"""Requests for the number of tokens of a message, and their answers.

https://platform.claude.com/docs/en/api/messages-count-tokens (read 2026-11-23).
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.bodies.fields import require_count
from streamnorm._core.bodies.token_count import TokenCount
from streamnorm._core.codec import CountCodec, Written

_TOKENS = "input_tokens"


def _write_request(written: Written) -> Written:
    return structs.replace(written, path=f"{written.path}/count_tokens")


def _read_count(body: dict[str, Any]) -> TokenCount:
    return TokenCount(require_count(body, _TOKENS))


def _write_count(count: TokenCount) -> dict[str, Any]:
    return {_TOKENS: count.input_tokens}


COUNT = CountCodec(
    fields=frozenset(
        {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"}
        | {"cache_control", "speed", "mcp_servers", "context_management", "compaction"}
        | {"billing_policy"}
    ),
    write_request=_write_request,
    read_count=_read_count,
    write_count=_write_count,
)
