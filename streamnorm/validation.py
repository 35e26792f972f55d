"""Strict validation of streams and requests.

Events are checked against the grammar, bytes against the strict rules of a dialect.  No code
is shared with the decoders, which forgive.  Framing is checked here for all dialects, payloads
by the checker of the dialect.  In an event stream of AWS nothing is read behind a wrong length or
checksum, since where the next message begins is not known.

Legal in every dialect are blank lines, CR, LF and CRLF, and payloads of several `data`
lines; in all but Gemini comments and `data:` without a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import overload

from streamnorm._core import grammar
from streamnorm._core.bodies.fields import Body, body_object, lone_surrogate_in
from streamnorm._core.codec import MAX_PROBLEMS, Checker, Finding, RequestFacts, RequestViolation
from streamnorm._core.codec.framing import Framing, StrictReader
from streamnorm._core.events import Event
from streamnorm._core.grammar import Violation
from streamnorm._core.limits import Limits
from streamnorm._registry import checker, framing_of, lookup
from streamnorm.profiles import VENDOR, shipped_profiles
from streamnorm.profiles.rules import RequestRule, shipped_rules
from streamnorm.sse import Frame

__all__ = ["RequestViolation", "Violation", "validate", "validate_request"]

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


@overload
def validate(source: Iterable[Event], /) -> list[Violation]: ...
@overload
def validate(
    source: bytes, /, dialect: str, *, framing: Framing | None = ..., limits: Limits = ...
) -> list[Violation]: ...


def validate(
    source: Iterable[Event] | bytes,
    /,
    dialect: str | None = None,
    *,
    framing: Framing | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> list[Violation]:
    """Return all protocol violations in a stream.

    The position of a violation is the number of the event or, in bytes, of the frame, from 0.
    Something that is missing at the end has the position after the last one, as has a last
    frame without its blank line.  After 1,000 violations one more says that there are more.

    Args:
        source: All events, or all bytes of the wire.
        dialect: Dialect of the bytes; without it, `source` is events.
        framing: How events stand in the bytes; None for the framing of the dialect.
        limits: Bounds, of which `max_event_bytes` applies to bytes.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be checked.
    """
    if not isinstance(source, bytes):
        return grammar.validate(source)
    if dialect is None:
        raise TypeError("bytes without a dialect, expected the name of one")
    validator = Validator(dialect, framing=framing, limits=limits)
    return [*validator.feed(source), *validator.close()]


class Validator:
    """Strict validator of one stream, whose bytes are fed in pieces of any size.

    Violations are those that `validate` returns for all bytes at once.

    Args:
        dialect: Dialect of the bytes.
        framing: How events stand in the bytes; None for the framing of the dialect.
        limits: Bounds, of which `max_event_bytes` applies.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be checked.
    """

    def __init__(
        self,
        dialect: str,
        *,
        framing: Framing | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._checker = checker(dialect)
        strict_reader = framing_of(dialect, framing).layout.strict_reader
        self._framing: StrictReader = (
            _StrictLines(self._checker, limits.max_event_bytes)
            if strict_reader is None
            else strict_reader(limits.max_event_bytes)
        )
        self._position = 0
        self._found = 0

    def feed(self, data: bytes) -> list[Violation]:
        """Return the violations in `data`."""
        return self._limit_violations(self._judge(self._framing.feed(data)))

    def close(self) -> list[Violation]:
        """Return the violations at the end of the stream."""
        ending = self._limit_violations(self._judge(self._framing.close()))
        left = () if self._framing.has_failed else self._checker.missing()
        missing = (Violation(self._position, text) for text in left)
        return [*ending, *self._limit_violations(missing)]

    def _judge(self, found: Iterable[Frame | str]) -> Iterator[Violation]:
        for item in found:
            if isinstance(item, str):
                yield Violation(self._position, item)
                continue
            for message in self._checker.check(item) if item.data else ():
                yield Violation(self._position, message)
            self._position += 1

    def _limit_violations(self, violations: Iterator[Violation]) -> list[Violation]:
        """Return violations up to a bound, then one violation in place of all further ones."""
        bounded: list[Violation] = []
        if self._found > MAX_PROBLEMS:
            return bounded
        for violation in violations:
            self._found += 1
            if self._found > MAX_PROBLEMS:
                message = f"more than {MAX_PROBLEMS} violations, expected none"
                bounded.append(Violation(violation.position, message))
                break
            bounded.append(violation)
        return bounded


class _StrictLines:
    """Strict reader of server-sent event frames.

    It yields frames and problems, in their order.  A frame that cannot be read is empty.  An
    event without its blank line, which clients drop, is a problem and a frame, so that one
    mistake is reported once.

    Args:
        judge: The checker, which says what lines the dialect's clients break on.
        max_event_bytes: Bytes of one event's lines, each with its line end.
    """

    has_failed = False

    def __init__(self, judge: Checker, max_event_bytes: int) -> None:
        self._judge = judge
        self._rejects_carriage_returns = judge.rejects_carriage_returns
        self._max_event_bytes = max_event_bytes
        self._start = b""  # the first bytes, while they may become a BOM
        self._has_started = False
        self._after_cr = False
        self._line = bytearray()  # an incomplete line, as far as it may be one of an event
        self._line_bytes = 0
        self._begin()

    def feed(self, data: bytes) -> Iterator[Frame | str]:
        """Yield the frames and problems that `data` completes."""
        if not self._has_started:
            self._start += data
            if len(self._start) < len(_BOM) and _BOM.startswith(self._start):
                return
            yield from self._begin_stream()
            return
        yield from self._lines(data)

    def close(self) -> Iterator[Frame | str]:
        """Yield the frames and problems at the end of the stream."""
        if not self._has_started:
            yield from self._begin_stream()
        if self._line_bytes:
            yield from self._end_line()
        if self._data or self._event or self._is_too_large():
            yield f"event of {self._size} bytes ends without a blank line, expected one"
        if self._data or self._is_too_large():
            yield from self._dispatch()

    def _begin_stream(self) -> Iterator[Frame | str]:
        self._has_started = True
        if self._start.startswith(_BOM):
            yield "byte order mark, expected none"
        start, self._start = self._start.removeprefix(_BOM), b""
        yield from self._lines(start)

    def _lines(self, data: bytes) -> Iterator[Frame | str]:
        start = 1 if self._after_cr and data.startswith(b"\n") else 0
        self._after_cr = data.endswith(b"\r") if data else self._after_cr
        for end in _LINE_END.finditer(data, start):
            if self._rejects_carriage_returns and end[0] != b"\n":
                self._rejects_carriage_returns = False  # said once
                yield "line ends with a carriage return, expected a line feed alone"
            self._extend_line(data[start : end.start()])
            if self._line_bytes:
                yield from self._end_line()
            else:
                yield from self._dispatch()
            start = end.end()
        self._extend_line(data[start:])

    def _extend_line(self, data: bytes) -> None:
        self._line += data[: max(0, self._max_event_bytes - len(self._line))]
        self._line_bytes += len(data)

    def _begin(self) -> None:
        self._size = 0
        self._data: list[str] = []
        self._event = ""

    def _is_too_large(self) -> bool:
        return self._size > self._max_event_bytes

    def _end_line(self) -> Iterator[str]:
        line, size = bytes(self._line), self._line_bytes
        self._line.clear()
        self._line_bytes = 0
        # Of a line that is too large only the beginning was stored.
        if len(line) == size and (invalid := _invalid_at(line)) is not None:
            yield f"byte {invalid} of a line of {size} is invalid, expected UTF-8"
        text = line.decode(errors="replace")
        if text.startswith(":"):
            if self._judge.rejects_comments:
                yield f"comment of {size} bytes, expected data lines alone"
            return
        self._size += size + 1
        if self._is_too_large():
            self._data.clear()
            return
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                if self._judge.rejects_comments and not text.startswith("data: "):
                    yield "data line without a space, expected one behind the colon"
                self._data.append(value)
            case "event":
                self._event = value
            case "id" | "retry":
                if self._judge.rejects_id_and_retry:
                    yield f"{name} line, expected data lines alone"
            case _:
                yield f"line of {size} bytes that is no field, expected a data line"

    def _dispatch(self) -> Iterator[Frame | str]:
        payload = "\n".join(self._data)
        if self._is_too_large():
            yield f"event of {self._size} bytes, expected at most {self._max_event_bytes}"
            yield Frame("message", "")
        elif self._data:
            if not payload:
                yield "data is empty, expected a payload"
            yield Frame(self._event or "message", payload)
        elif self._event:
            yield "event line without data, expected a data line"
        self._begin()


def _invalid_at(line: bytes) -> int | None:
    """Return the offset of the first invalid UTF-8 byte, or None."""
    try:
        line.decode()
    except UnicodeDecodeError as exc:
        return exc.start
    return None


_MAX_QUOTED_CHARS = 80
_MAX_PATH_CHARS = 1000
# Keys of providers, tokens of GitHub, GitLab, AWS, Slack, Stripe, npm and Tavily, JSON Web Tokens,
# and the password in a URL.
_SECRET = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk|csk|xai|pplx|org|nvapi|glpat|xox[a-z]|tvly)-"
    r"|(?:gsk|hf|r8|fw|proj|gh[a-z]|github_pat|npm|whsec|[prs]k_(?:live|test))_"
    r"|ya29\.|AQ\.|AIza|eyJ|A[KS]IA)[A-Za-z0-9_.-]{12}"
    r"|(?i:bearer\s|private key)|://[^/\s:@\[\]]*:[^/\s@]+@"
)
_ELEMENT = re.compile(r"\[([0-9]+)\]")
# A name in a path may be one that the client has chosen.
_NAME = re.compile(r"[^.\[\]]+")


def validate_request(
    body: Body,
    dialect: str,
    *,
    model: str | None = None,
    server: str | None = None,
    path: str | None = None,
    headers: Mapping[str, str] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> list[RequestViolation]:
    """Return the violations for which a provider would refuse a request.

    The rules are those that users of providers have met, each with the provider's own words;
    they hold for the models and servers that they name.  After 1,000 violations no more are
    returned.

    Args:
        body: JSON text, or the decoded object.
        dialect: Dialect of the body.
        model: Name of the model; None = as the body or the path has it.
        server: Name of the server; None, or a name without rules and profiles, is the
            dialect's own vendor.
        path: Path of the URL, which in some dialects names the model.  A request that counts
            tokens has no rules.
        headers: Headers of the request, which name betas.
        limits: Bounds.

    Raises:
        DecodeError: The body is no JSON object, or exceeds a bound.
        UnknownDialect: There is no such dialect.
    """
    known = lookup(dialect)
    value = body_object(body, limits, finite=True)
    if known.endpoints.counts(path or ""):
        return []
    facts = RequestFacts(
        value,
        model or known.endpoints.model(path or "", value),
        server,
        path or "",
        {name.lower(): text for name, text in (headers or {}).items()},
        stream=known.endpoints.streams(path or "", value),
        lone_surrogate=lone_surrogate_in(body),
    )
    found: list[RequestViolation] = []
    for rule in rules_for(known.name, server=server, model=facts.model):
        for finding in rule.check(facts):
            found.append(_violation(rule, finding, facts.model))
            if len(found) == MAX_PROBLEMS:
                return found
    return found


def rules_for(dialect: str, *, server: str | None, model: str) -> Iterator[RequestRule]:
    """Yield the request rules that apply to a model on a server."""
    rules = [rule for rule in shipped_rules() if rule.dialect == dialect]
    is_known = shipped_profiles().knows(server, dialect)
    if server is None or not (is_known or any(server in rule.servers for rule in rules)):
        server = VENDOR
    for rule in rules:
        if rule.holds_for(server, model):
            yield rule


def _violation(rule: RequestRule, finding: Finding, model: str) -> RequestViolation:
    path = quoted_path(finding.path)
    message = rule.says.format(
        path=path,
        dotted=_ELEMENT.sub(r".\1", path),
        context=quoted_path(finding.context),
        value=quoted(finding.value),
        name=quoted(finding.name),
        count=finding.count,
        limit=finding.limit,
        model=quoted(model),
    )
    return RequestViolation(rule.id, path, message, rule.status, rule.type, rule.code)


def quoted_path(path: str) -> str:
    """Return a path for an error message."""
    shown = _NAME.sub(lambda name: quoted(name[0]), path) if not _SECRET.search(path) else "…"
    return shown if len(shown) <= _MAX_PATH_CHARS else f"{shown[:_MAX_PATH_CHARS]}…"


def quoted(value: object) -> str:
    """Return a value for an error message, shortened and without secrets."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        return "…"
    if len(value) > _MAX_QUOTED_CHARS or _SECRET.search(value):
        return "…"
    return value
