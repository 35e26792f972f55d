"""Checks of contents: roles, parts, the order of calls and responses, signatures.

https://ai.google.dev/api/caching#Content (read 2026-11-23), and the errors that the API answers
with.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object, string_of
from streamnorm.dialects.gemini.validate.request_fields import (
    MODEL,
    Content,
    all_parts_of,
    contents_of,
    elements_of,
    field_of,
    option_of,
)

# Results had the role `function` in former revisions; several SDKs still send it.
_ROLES = frozenset({"user", MODEL, "function", "tool"})
_CALL, _RESPONSE = "functionCall", "functionResponse"
_SIGNATURE = "thoughtSignature"
# Fields that a part may have without data; a stream ends in a part with a signature alone.
_RARE_DATA = (_SIGNATURE, "audioTranscription", "mediaProcessing", "partMetadata")
# Google documents two placeholders; Vertex AI knows the other one alone.
_GEMINI_PLACEHOLDER = "context_engineering_is_the_way_to_go"


def missing_contents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `contents` if it is missing or empty."""
    field = option_of(facts.body, "contents")
    if field.value is None or field.value == []:
        yield Finding(field.path)


def roles(facts: RequestFacts) -> Iterator[Finding]:
    """Yield unknown roles of contents."""
    for content in contents_of(facts.body):
        if content.role not in _ROLES:
            yield Finding(f"{content.path}.role", content.role)


def empty_contents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield contents without parts."""
    for content in contents_of(facts.body):
        parts = field_of(content.value, "parts", content.path, f"contents[{content.number}]")
        if parts.value is None or parts.value == []:
            yield Finding(parts.path, context=parts.location)


def empty_parts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield parts without data or a signature, also in the system instruction."""
    for part in all_parts_of(facts.body):
        others = (field_of(part.value, name).value for name in _RARE_DATA)
        if not part.data and all(value is None for value in others):
            yield Finding(part.path, context=part.location)


def part_data(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the second data field of a part."""
    for content in contents_of(facts.body):
        for part in content.parts:
            fields = list(part.data.items())
            for name, field in fields[1:]:
                yield Finding(field.path, name=name, context=part.location)


def _is_cached(facts: RequestFacts) -> bool:
    """Return whether the vendor has the beginning of the conversation."""
    return option_of(facts.body, "cachedContent").value is not None


def call_turns(facts: RequestFacts) -> Iterator[Finding]:
    """Yield contents with calls that are first, or follow another content of the model."""
    before = "user" if _is_cached(facts) else ""
    for content in contents_of(facts.body):
        if content.with_data(_CALL) and content.role == MODEL and before in ("", MODEL):
            yield Finding(content.path)
        before = content.role


def response_turns(facts: RequestFacts) -> Iterator[Finding]:
    """Yield contents with responses that do not follow a content with calls."""
    contents = contents_of(facts.body)
    calls = _is_cached(facts)
    for content in contents:
        if content.role != MODEL and content.with_data(_RESPONSE) and not calls:
            yield Finding(content.path)
        calls = bool(content.with_data(_CALL))


def response_counts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield contents that follow calls with another number of responses than there are calls."""
    for content, after in pairwise(contents_of(facts.body)):
        calls = content.with_data(_CALL)
        responses = after.with_data(_RESPONSE)
        if content.role == MODEL and calls and after.role != MODEL:
            # With `mcpServers` the vendor makes calls itself, with their responses in the same
            # content.
            made = len(content.with_data(_RESPONSE))
            if len(responses) != len(calls) - made:
                yield Finding(after.path, count=len(responses), limit=len(calls))


def last_turn(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a last content of the model that does not end in a response."""
    contents = contents_of(facts.body)
    if contents and contents[-1].role == MODEL:
        parts = contents[-1].parts
        if not (parts and _RESPONSE in parts[-1].data):
            yield Finding(contents[-1].path)


def signatures(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first call of each step of the current turn, if it has no signature.

    The current turn begins with the last user content that holds more than responses.
    """
    contents = contents_of(facts.body)
    for content in contents[_start_of_turn(contents) :]:
        calls = content.with_data(_CALL) if content.role == MODEL else []
        if calls and field_of(calls[0].value, _SIGNATURE).value is None:
            call = calls[0].data[_CALL].value
            name = string_of(call, "name") if is_object(call) else ""
            yield Finding(calls[0].path, name=name, count=content.number + 1)


def _start_of_turn(contents: list[Content]) -> int:
    begin = 0
    for number, content in enumerate(contents):
        if content.role != MODEL and any(_RESPONSE not in part.data for part in content.parts):
            begin = number
    return begin


def placeholders(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the placeholder for signatures that Vertex AI does not know."""
    for content in contents_of(facts.body):
        for part in content.parts:
            field = field_of(part.value, _SIGNATURE, part.path)
            if field.value == _GEMINI_PLACEHOLDER:
                yield Finding(field.path, field.value)


def response_media(facts: RequestFacts) -> Iterator[Finding]:
    """Yield files within responses."""
    for content in contents_of(facts.body):
        for part in content.with_data(_RESPONSE):
            response = part.data[_RESPONSE]
            if is_object(response.value):
                parts = field_of(response.value, "parts", response.path)
                has_parts = is_array(parts.value) or is_object(parts.value)
                if has_parts and any(True for _ in elements_of(parts)):
                    yield Finding(parts.path)
