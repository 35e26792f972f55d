"""The turns of a history that another vendor than the upstream wrote.

A client that was answered by several upstreams sends back what each of them wrote.  A request in
the upstream's own dialect may then hold signatures that its vendor refuses: ours, which name
another issuer, or none at all; or reasoning, where its vendor has no field for it.
"""

from __future__ import annotations

import operator
import re
from typing import NamedTuple, Self

from msgspec import structs

from streamnorm._bodies import codec_of
from streamnorm._core.blocks import InputBlock, Reasoning, RedactedReasoning
from streamnorm._core.bodies.projection.history import holds_tags
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.ids import read_carrier, untag_redacted_reasoning
from streamnorm._upstream.requests import Upstream
from streamnorm.profiles import shipped_profiles

# Of a signature of ours, as text or in base64; of reasoning that may have none; of calls that may
# have none.
_MARK = re.compile(
    rb'"(?:sn1[.-]|c24x)|"signature"\s*+:\s*+""|"type"\s*+:\s*+"reasoning"|"function_?[Cc]all"\s*+:'
)

# Reasoning in a message of a dialect whose vendor has no field for it.
_REASONING = re.compile(rb'"reasoning_(?:content|details)"\s*+:|"reasoning"\s*+:\s*+"')

# A search holds the interpreter's lock until it ends.
_SEARCHED_BYTES = 1024 * 1024
_MATCHED_BYTES = 1024

# Servers that host the models of vendors.
_HOSTS = ("azure", "bedrock", "vertex")


def may_have_foreign_turns(body: bytes, upstream: Upstream) -> bool:
    """Return whether a body must be decoded to know that its vendor wrote the whole history."""
    if _finds(_MARK, body):
        return True
    return _refuses_reasoning(upstream) and _finds(_REASONING, body)


def _finds(pattern: re.Pattern[bytes], body: bytes) -> bool:
    """Return whether a pattern matches in a body, of which a slice is searched at a time.

    A match has 1,024 bytes at most; none has more but with white space that no client sends.
    """
    return any(
        pattern.search(body, start, start + _SEARCHED_BYTES + _MATCHED_BYTES) is not None
        for start in range(0, len(body), _SEARCHED_BYTES)
    )


def _refuses_reasoning(upstream: Upstream) -> bool:
    """Return whether an upstream is a vendor that neither writes reasoning nor takes it.

    OpenAI's Chat Completions: other servers with its dialect have fields for both.
    """
    base = codec_of(upstream.dialect).capabilities
    return base.reasoning_issuer is None and upstream.server in (base.file_issuer, base.dialect)


def disown_foreign_turns(request: Request, upstream: Upstream) -> Request:
    """Return a request whose turns of other vendors are written as those of another dialect.

    The same object is returned if there are none.

    Args:
        request: The request, decoded from the upstream's own dialect.
        upstream: The upstream.
    """
    target = _Target.of(request, upstream)
    messages = tuple(
        message
        if message.role != "assistant" or target.has_written(message)
        else structs.replace(message, blocks=_without_carriers(message.blocks), source=None)
        for message in request.messages
    )
    if all(map(operator.is_, messages, request.messages)):
        return request
    return structs.replace(request, messages=messages)


class _Target(NamedTuple):
    """The signatures that an upstream verifies in a history.

    Attributes:
        refuses_reasoning: Whether its vendor neither writes reasoning nor takes it.
        has_issuer: Whether its vendor, or its server, signs what it writes.
        needs_reasoning_signed: Whether it refuses reasoning without a signature.
        needs_calls_signed: Whether it refuses a first call without a signature.
    """

    refuses_reasoning: bool
    has_issuer: bool
    needs_reasoning_signed: bool
    needs_calls_signed: bool

    @classmethod
    def of(cls, request: Request, upstream: Upstream) -> Self:
        base = codec_of(upstream.dialect).capabilities
        model, server = upstream.upstream_model(request.model), upstream.server
        profiles = upstream.profiles or shipped_profiles()
        target = profiles.resolve(base, server=server, model=model, version=None)
        signs_calls = base.signature_placeholder is not None
        # Other servers than the vendor's may write both without a signature, and read them again.
        verifies = server in (base.reasoning_issuer, base.dialect, *_HOSTS)
        # One that stores its answers has reasoning of which the client has the id alone.
        is_stored = "store" in base.fields and request.store is not False
        return cls(
            refuses_reasoning=_refuses_reasoning(upstream),
            has_issuer=(base.reasoning_issuer or target.reasoning_issuer) is not None,
            needs_reasoning_signed=verifies and not (signs_calls or is_stored),
            needs_calls_signed=verifies and target.signature_placeholder is not None,
        )

    def has_written(self, message: InputMessage) -> bool:
        """Return whether a message of the assistant may be the upstream's own."""
        if self.refuses_reasoning:
            return not any(
                isinstance(block, Reasoning | RedactedReasoning) for block in message.blocks
            )
        if not self.has_issuer:
            return True
        if holds_tags(message):
            return False
        if self.needs_reasoning_signed and any(map(_lacks_signature, message.blocks)):
            return False
        calls = message.tool_calls
        return not (self.needs_calls_signed and calls and calls[0].signature is None)


def _lacks_signature(block: InputBlock) -> bool:
    """Return whether a block is unsigned reasoning, of which no aggregator names the vendor."""
    if not isinstance(block, Reasoning) or block.signature is not None:
        return False
    return not any("format" in fields for fields in (block.extra or {}).values())


def _is_carrier(signature: str) -> bool:
    """Return whether a signature of reasoning holds what another block was signed with."""
    return read_carrier(signature) is not None or untag_redacted_reasoning(signature) is not None


def _without_carriers(blocks: tuple[InputBlock, ...]) -> tuple[InputBlock, ...]:
    """Return blocks without reasoning that only holds a signature for another vendor."""
    return tuple(
        block
        for block in blocks
        if not (
            (isinstance(block, Reasoning) and _is_carrier(block.signature or ""))
            or (isinstance(block, RedactedReasoning) and _is_carrier(block.data))
        )
    )
