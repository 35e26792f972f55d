"""Turns of other vendors in a history in the upstream's dialect.

A client that several upstreams have answered sends all their turns back.  A request in the
upstream's dialect may then hold what its vendor refuses: signatures of another issuer in our tagged
form, unsigned reasoning or calls, reasoning that the vendor has no field for, a tool loop without
the reasoning that its vendor writes, or the ids of servers that count their calls in each turn.
Such a request is no passthrough: its foreign turns are disowned.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, Self

from msgspec import structs

from streamnorm._bodies import codec_of
from streamnorm._core.blocks import InputBlock, Reasoning, RedactedReasoning
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.projection.history import holds_tags
from streamnorm._core.bodies.projection.reasoning_options import find_continued_answer
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.text import read_carrier, untag_redacted_reasoning
from streamnorm._upstream.requests import Upstream
from streamnorm.profiles import shipped_profiles

# A tagged signature, as text or in base64; reasoning or calls that may lack a signature.
_MARK = re.compile(
    rb'"(?:sn1[.-]|c24x)|"signature"\s*+:\s*+""|"type"\s*+:\s*+"reasoning"|"function_?[Cc]all"\s*+:'
)

# Reasoning in a message of a dialect whose vendor has no field for it.
_REASONING = re.compile(rb'"reasoning_(?:content|details)"\s*+:|"reasoning"\s*+:\s*+"')

# Ids that results answer: a result repeats the id of its call in the field of one pattern alone.
_ANSWERED_ID = re.compile(rb'"tool_use_id"\s*+:\s*+"([^"\\]++)"')
_CALL_OR_RESULT_ID = re.compile(rb'"call_id"\s*+:\s*+"([^"\\]++)"')

_BUDGET = re.compile(rb'"budget_tokens"\s*+:')

# A search holds the interpreter's lock until it ends.
_SEARCHED_BYTES = 1024 * 1024
_MATCHED_BYTES = 1024

# Servers that host the models of vendors.
_HOSTS = ("azure", "bedrock", "vertex")


def may_have_foreign_turns(body: bytes, upstream: Upstream) -> bool:
    """Return whether a body may hold assistant turns of another vendor."""
    if _finds(_MARK, body):
        return True
    if _refuses_reasoning(upstream):
        return _finds(_REASONING, body)
    base = codec_of(upstream.dialect_record).capabilities
    if not _is_vendor(upstream, base):
        return False
    if base.unique_ids and _may_repeat_ids(body):
        return True
    issued = base.issued_id_pattern
    if issued is None:
        return False
    return _finds(_BUDGET, body) and _finds(_compile_other_result(issued), body)


def _may_repeat_ids(body: bytes) -> bool:
    """Return whether a body may hold two calls with one id."""
    return _repeats(_ANSWERED_ID, body, 1) or _repeats(_CALL_OR_RESULT_ID, body, 2)


def _repeats(pattern: re.Pattern[bytes], body: bytes, most: int) -> bool:
    """Return whether a pattern finds an id more often than `most`, searching in slices."""
    counts = Counter[bytes]()
    for start in range(0, len(body), _SEARCHED_BYTES):
        end = start + _SEARCHED_BYTES
        for match in pattern.finditer(body, start, end + _MATCHED_BYTES):
            if match.start() < end:  # else the next slice finds it, too
                counts[match[1]] += 1
    return any(count > most for count in counts.values())


@cache
def _compile_other_result(issued_id_pattern: str) -> re.Pattern[bytes]:
    """Return the pattern of a tool result whose call has an id that its vendor did not issue."""
    return re.compile(rb'"tool_use_id"\s*+:\s*+"(?!%b)' % issued_id_pattern.encode())


def _finds(pattern: re.Pattern[bytes], body: bytes) -> bool:
    """Return whether a pattern matches in a body, searching in slices.

    Slices overlap by 1,024 bytes: a longer match needs white space that no client sends.
    """
    return any(
        pattern.search(body, start, start + _SEARCHED_BYTES + _MATCHED_BYTES) is not None
        for start in range(0, len(body), _SEARCHED_BYTES)
    )


def _refuses_reasoning(upstream: Upstream) -> bool:
    """Return whether the upstream's vendor neither writes nor accepts reasoning.

    OpenAI's Chat Completions: other servers with its dialect have fields for both.
    """
    base = codec_of(upstream.dialect_record).capabilities
    return base.reasoning_issuer is None and _is_vendor(upstream, base)


def _is_vendor(upstream: Upstream, base: BodyCapabilities) -> bool:
    """Return whether the upstream is the vendor of its dialect."""
    return upstream.server in (base.file_issuer, base.dialect)


def disown_foreign_turns(request: Request, upstream: Upstream) -> Request:
    """Return a request with turns of other vendors marked for translation.

    The encoder then translates them.  Without such a turn the same object is returned.

    Args:
        request: The request, decoded from the upstream's dialect.
        upstream: The upstream.
    """
    rules = _SignatureRules.of(request, upstream)
    foreign = set(map(id, _find_unreasoned_loop(request, upstream)))
    foreign.update(map(id, _find_repeated_calls(request, upstream)))
    messages = tuple(
        message
        if message.role != "assistant"
        or (id(message) not in foreign and rules.may_have_written(message))
        else structs.replace(message, blocks=_without_carriers(message.blocks), source=None)
        for message in request.messages
    )
    if all(map(operator.is_, messages, request.messages)):
        return request
    return structs.replace(request, messages=messages)


def _find_unreasoned_loop(request: Request, upstream: Upstream) -> tuple[InputMessage, ...]:
    """Return the messages of a running tool loop that another vendor began without reasoning.

    With a budget, the vendor begins each answer with reasoning, and refuses to continue an answer
    without.  Where it issued the ids of all calls, the client left the reasoning out.
    """
    base = codec_of(upstream.dialect_record).capabilities
    options = request.reasoning
    if options is None or options.mode != "budget":
        return ()
    if base.issued_id_pattern is None or not _is_vendor(upstream, base):
        return ()
    answer = find_continued_answer(request.messages)
    first = next((block for message in answer for block in message.blocks), None)
    if isinstance(first, Reasoning | RedactedReasoning):
        return ()
    issued = re.compile(base.issued_id_pattern).match
    calls = [call for message in answer for call in message.tool_calls]
    return () if all(issued(call.id) for call in calls) else answer


def _find_repeated_calls(request: Request, upstream: Upstream) -> Iterator[InputMessage]:
    """Yield the messages with a call whose id an earlier call has, which the vendor refuses.

    Its own ids are unique: servers that count their calls in each turn wrote these.
    """
    base = codec_of(upstream.dialect_record).capabilities
    if not (base.unique_ids and _is_vendor(upstream, base)):
        return
    known = set[str]()
    for message in request.messages:
        ids = [call.id for call in message.tool_calls]
        if len({*ids} - known) < len(ids):
            yield message
        known.update(ids)


class _SignatureRules(NamedTuple):
    """Rules on the signatures that an upstream verifies in a history.

    Attributes:
        refuses_reasoning: Whether its vendor neither writes nor accepts reasoning.
        has_issuer: Whether its vendor or its server signs the blocks it writes.
        needs_reasoning_signed: Whether it refuses reasoning without a signature.
        needs_calls_signed: Whether it refuses a first call without a signature.
    """

    refuses_reasoning: bool
    has_issuer: bool
    needs_reasoning_signed: bool
    needs_calls_signed: bool

    @classmethod
    def of(cls, request: Request, upstream: Upstream) -> Self:
        base = codec_of(upstream.dialect_record).capabilities
        model, server = upstream.upstream_model(request.model), upstream.server
        profiles = upstream.profiles or shipped_profiles()
        target = profiles.resolve(base, server=server, model=model, version=None)
        signs_calls = base.signature_placeholder is not None
        # Servers other than the vendor's may write both unsigned, and accept them back.
        verifies = server in (base.reasoning_issuer, base.dialect, *_HOSTS)
        # With stored responses, clients refer to reasoning by its id, without a signature.
        is_stored = "store" in base.fields and request.store is not False
        return cls(
            refuses_reasoning=_refuses_reasoning(upstream),
            has_issuer=(base.reasoning_issuer or target.reasoning_issuer) is not None,
            needs_reasoning_signed=verifies and not (signs_calls or is_stored),
            needs_calls_signed=verifies and target.signature_placeholder is not None,
        )

    def may_have_written(self, message: InputMessage) -> bool:
        """Return whether the upstream may have written an assistant message."""
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
    """Return whether a block is unsigned reasoning without an aggregator's `format` field."""
    if not isinstance(block, Reasoning) or block.signature is not None:
        return False
    return not any("format" in fields for fields in (block.extra or {}).values())


def _is_carrier(signature: str) -> bool:
    """Return whether a reasoning signature carries another block's signature."""
    return read_carrier(signature) is not None or untag_redacted_reasoning(signature) is not None


def _without_carriers(blocks: tuple[InputBlock, ...]) -> tuple[InputBlock, ...]:
    """Return blocks, except reasoning that only carries another block's signature."""
    return tuple(
        block
        for block in blocks
        if not (
            (isinstance(block, Reasoning) and _is_carrier(block.signature or ""))
            or (isinstance(block, RedactedReasoning) and _is_carrier(block.data))
        )
    )
