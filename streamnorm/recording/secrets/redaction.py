"""The secrets of one exchange, and its request and response without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, TypedDict

from streamnorm._core.json import InvalidJSON, decode_any
from streamnorm._core.limits import Limits
from streamnorm.recording.exchange import WireRequest
from streamnorm.recording.format import RecordedRequest
from streamnorm.recording.secrets.bodies import Field, in_text, text_of
from streamnorm.recording.secrets.credentials import (
    in_header,
    in_json,
    replace_strings,
)
from streamnorm.recording.secrets.forms import Forms
from streamnorm.recording.secrets.scrubbing import Finder, Scrubber
from streamnorm.recording.secrets.urls import in_url, public_url

__all__ = ["Secrets"]

_REQUEST_HEADERS = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta"}
)
_RESPONSE_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms", "x-should-retry"})

# A shorter value occurs in many texts where it is no secret.
_MIN_CHARS = 6
# Keys for servers that need none; some occur in bodies, for example in `fp_ollama`.
_PLACEHOLDERS = frozenset(
    {"anything", "api-key", "api_key", "apikey", "bearer", "lm-studio", "no-key", "not-needed"}
    | {"ollama", "placeholder", "sk-no-key-required", "unused"}
)
# A server must not make the search of its body slow.
_MAX_RESPONSE_VALUES = 256
_MAX_DEPTH = Limits().max_json_depth


class _Body(TypedDict, total=False):
    body: Any
    text: str
    bytes: int


class Secrets:
    """The secrets of one exchange, collected as it passes.

    Args:
        redact: Further secrets: literal texts, and regular expressions.

    Attributes:
        count: Number of secrets replaced so far.
    """

    def __init__(self, redact: Sequence[str | re.Pattern[str]] = ()) -> None:
        self.count = 0
        texts = [item.rstrip("\\") for item in redact if isinstance(item, str)]
        self._values = dict.fromkeys(text for text in texts if text)
        self._patterns = [item for item in redact if not isinstance(item, str)]
        self._forms: Forms | None = None

    def request(self, request: WireRequest) -> RecordedRequest:
        """Collect the credentials of a request, and return it without them."""
        for name, value in request.headers:
            self._learn(in_header(name, value))
        self._learn(in_url(request.url))
        # First, because the body may hold credentials that URL and headers repeat.
        body = self._body(request)
        return RecordedRequest(
            request.method,
            self._scrub_text(public_url(request.url)),
            self._headers(request.headers, _REQUEST_HEADERS),
            **body,
        )

    def response_headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Collect the credentials of a response; return its public headers without them."""
        headers = list(headers)
        found = chain.from_iterable(in_header(name, value) for name, value in headers)
        self._learn(islice(found, _MAX_RESPONSE_VALUES))
        return self._headers(headers, _RESPONSE_HEADERS)

    def scrub(self, data: bytes) -> bytes:
        """Return a complete body with an "x" for each byte of a secret."""
        scrubber = self.stream()
        return scrubber.feed(data) + scrubber.close()

    def stream(self) -> Scrubber:
        """Return a scrubber of a body in chunks, which uses the secrets known at each step."""
        return Scrubber(lambda: Finder(self._current_forms(), self._patterns), self._add)

    def _learn(self, values: Iterable[str]) -> None:
        for value in values:
            # JSON doubles a trailing backslash, and one of the two would remain.
            text = value.strip().rstrip("\\")
            if len(text) < _MIN_CHARS or not text.strip("x") or text.lower() in _PLACEHOLDERS:
                continue
            if text not in self._values:
                self._values[text] = None
                self._forms = None

    def _current_forms(self) -> Forms:
        if self._forms is None:
            self._forms = Forms(self._values)
        return self._forms

    def _add(self) -> None:
        self.count += 1

    def _headers(
        self, headers: Iterable[tuple[str, str]], allowed: frozenset[str]
    ) -> dict[str, str]:
        kept: dict[str, str] = {}
        for name, value in headers:
            name = name.lower()
            if name in allowed:
                value = self._scrub_text(value)
                kept[name] = f"{kept[name]}, {value}" if name in kept else value
        return kept

    def _body(self, request: WireRequest) -> _Body:
        if not request.body:
            return {}
        text, is_whole = text_of(request.body, request.headers)
        if is_whole:
            try:
                value = decode_any(text, max_depth=_MAX_DEPTH)
            except InvalidJSON:
                pass
            else:
                self._learn(in_json(value))
                return {"body": self._public(value)}
        kinds = [value for name, value in request.headers if name.lower() == "content-type"]
        fields = sorted(in_text(text, ", ".join(kinds)))
        self._learn(field.value for field in fields)
        if not is_whole:
            return {"bytes": len(request.body)}
        return {"text": self._scrub_text(self._without(fields, text))}

    def _without(self, fields: Iterable[Field], text: str) -> str:
        """Return a text with the fields replaced; they are in order, and may overlap."""
        pieces: list[str] = []
        at = 0
        for start, end, _ in fields:
            if end > at:
                pieces += (text[at:start], self._hide(text[max(at, start) : end]))
                at = end
        return "".join([*pieces, text[at:]])

    def _public(self, value: Any) -> Any:
        """Return a decoded JSON value without secrets."""
        texts: list[str] = []

        def collect(text: str) -> str:
            texts.append(text)
            return text

        value = replace_strings(value, collect, self._hide)
        scrubbed = self._scrub_texts(texts)
        if scrubbed is texts:
            return value
        replaced = iter(scrubbed)
        return replace_strings(value, lambda _: next(replaced), lambda hidden: hidden)

    def _scrub_texts(self, texts: list[str]) -> list[str]:
        """Scrub many texts at once: each on its own would be slow for a large prompt."""
        # A pattern must match within one text, and not across two.
        special = {text for p in self._patterns for text in texts if p.search(text)}
        pieces = [b"" if text in special else _encode(text) for text in texts]
        scrubber = Scrubber(lambda: Finder(self._current_forms(), ()), self._add)
        # No secret contains a NUL.
        joined = b"\0".join(pieces)
        replaced = scrubber.feed(joined) + scrubber.close()
        if replaced == joined and not special:
            return texts
        scrubbed: list[str] = []
        at = 0
        for text, piece in zip(texts, pieces, strict=True):
            plain = replaced[at : at + len(piece)].decode("utf-8", "replace")
            scrubbed.append(self._scrub_text(text) if text in special else plain)
            at += len(piece) + 1
        return scrubbed

    def _hide(self, text: str) -> str:
        self.count += bool(text)
        return "x" * len(_encode(text))

    def _scrub_text(self, text: str) -> str:
        # A match may end inside a character where a long text is cut.
        return self.scrub(_encode(text)).decode("utf-8", "replace")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")
