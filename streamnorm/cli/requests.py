"""Requests in files: how they are read, and the command `streamnorm validate --request`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from streamnorm._core.errors import DecodeError, RecordingError, StreamnormError, UnknownDialect
from streamnorm._core.json import is_object
from streamnorm._core.limits import Limits
from streamnorm._registry import DIALECTS, lookup
from streamnorm.cli.console import (
    UsageError,
    complain,
    json_line,
    text_line,
    write,
)
from streamnorm.cli.source import Source
from streamnorm.inspect.page import amount

if TYPE_CHECKING:
    from streamnorm import RequestViolation

__all__ = ["StoredRequest", "body_in", "detected", "stored_request", "validate_requests"]

_LIMITS = Limits()
_REFUSED = 4


class StoredRequest(NamedTuple):
    """A request in a file, and what is known of it beside its body.

    Attributes:
        body: The decoded body.
        dialect: Its dialect.
        path: Path of its URL; None if unknown.
        headers: Its headers.
        method: Its HTTP method.
        server: Name of the server that it was sent to; None if unknown.
    """

    body: dict[str, Any]
    dialect: str
    path: str | None = None
    headers: Mapping[str, str] = {}
    method: str = "POST"
    server: str | None = None


def stored_request(source: Source, url: str | None) -> StoredRequest:
    """Return the request of a file: a body, or the request in the companion of a recording.

    Args:
        source: The file.
        url: URL that was given for it.

    Raises:
        DecodeError: It is no JSON object, or of no known dialect.
        RecordingError: It is a damaged companion, or one without the body of a request.
    """
    from streamnorm._detection import detect_path
    from streamnorm.recording.format import decode_companion
    from streamnorm.recording.operations import path_of

    data, body = body_in(source)
    found = StoredRequest(body, "")
    if "streamnorm_recording" in body:
        companion = decode_companion(data, Path(source.name), _LIMITS)[0]
        request = companion.request
        if request is None or not is_object(request.body):
            raise RecordingError(f"{source.name}: a recording without the JSON body of its request")
        url = url or request.url
        found = StoredRequest(
            request.body, "", None, request.headers, request.method, companion.server
        )
    path = None if url is None else path_of(url)
    dialect = source.dialect or (None if path is None else detect_path(path))
    return found._replace(dialect=dialect or detected(found.body, "request"), path=path)


def body_in(source: Source) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a body, and the object that they are.

    Raises:
        DecodeError: They are no JSON object.
    """
    from streamnorm._core.bodies.parsing import body_object

    data = source.body(_LIMITS.max_event_bytes)
    return data, body_object(data, _LIMITS)


def detected(body: dict[str, Any], kind: Literal["request", "response"]) -> str:
    """Return the dialect of a body.

    Raises:
        DecodeError: It is of none, or of several.
    """
    from streamnorm._detection import detect_body

    dialect = detect_body(body, kind)
    if dialect is None:
        raise DecodeError(f"{kind} of no known dialect, or of several, expected --from DIALECT")
    return dialect


def validate_requests(arguments: argparse.Namespace) -> int:
    """Print what providers would refuse of requests; return the exit status."""
    if arguments.source is not None:
        try:
            lookup(arguments.source)
        except UnknownDialect as exc:
            raise UsageError(str(exc)) from exc
    _check_server(arguments.server)
    validation = _Validation(arguments)
    for path in arguments.files:
        if path == "-" or not Path(path).is_dir():
            validation.add_file(path)
        else:
            validation.add_directory(Path(path))
    return validation.end()


def _check_server(name: str | None) -> None:
    if name is not None and name not in (known := _named_servers() | _vendors()):
        raise UsageError(
            f"server {name!r}, expected {', '.join(sorted(known))}, or none: no other has rules"
        )


def _named_servers() -> frozenset[str]:
    """Return the names of the servers that rules or profiles name."""
    from streamnorm.profiles import shipped_profiles
    from streamnorm.profiles.rules import VENDOR, shipped_rules

    servers = shipped_profiles().servers.union(*(rule.servers for rule in shipped_rules()))
    return servers - {VENDOR, "*"}


def _vendors() -> frozenset[str]:
    """Return the names that recordings give to the vendors of the dialects."""
    codecs = [known.body() for known in DIALECTS.values() if known.body is not None]
    return frozenset(
        codec.capabilities.reasoning_issuer
        for codec in codecs
        if codec.capabilities.reasoning_issuer is not None
    )


class _Validation:
    """The violations of the requests in files, printed as they are found.

    Args:
        arguments: Those of the command.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._requests = self._violations = self._skipped = 0
        self._is_refused = False

    def add_file(self, path: str) -> None:
        """Validate the request in a file, which must hold one."""
        try:
            self._validate(path)
        except StreamnormError as exc:
            name = "standard input" if path == "-" else path
            complain(f"{name}: {str(exc).removeprefix(f'{name}: ')}")
            self._is_refused = True

    def add_directory(self, directory: Path) -> None:
        """Validate all requests in a directory and below; other files are skipped."""
        from streamnorm.recording.scanning import scanned_files

        try:
            files = [file for file in scanned_files(directory) if _may_hold_request(file)]
        except OSError as exc:
            raise UsageError(f"{exc.filename}: {exc.strerror}") from exc
        for number, file in enumerate(files, 1):
            _show_progress(f"{number}/{len(files)}, {amount(self._violations, 'violation')}")
            try:
                self._validate(str(file))
            except StreamnormError:
                self._skipped += 1
        _show_progress("")

    def end(self) -> int:
        """Print the counts, and return the exit status."""
        if not self._arguments.json:
            violations = amount(self._violations, "violation")
            write([text_line(f"{violations} in {amount(self._requests, 'request')}")])
        if self._skipped:
            complain(f"{amount(self._skipped, 'file')} without a request skipped")
        return _REFUSED if self._violations or self._is_refused else 0

    def _validate(self, path: str) -> None:
        """Print the violations of the request in a file.

        Raises:
            StreamnormError: The file holds no request for a message.
        """
        from streamnorm._request_validation import validate_request

        arguments = self._arguments
        source = Source(argparse.Namespace(file=path, source=arguments.source, server=None))
        found = stored_request(source, arguments.path)
        asked = lookup(found.dialect).endpoints.asked(found.method, found.path or "")
        if asked is not None and asked.operation not in ("message", "stream"):
            raise RecordingError(f"{source.name}: no request for a message, expected one")
        violations = validate_request(
            found.body,
            found.dialect,
            model=arguments.model,
            server=arguments.server or _server_of(found),
            path=found.path,
            headers=found.headers,
        )
        self._requests += 1
        self._violations += len(violations)
        _show_progress("")
        if arguments.json:
            fields = {"request": source.name, "dialect": lookup(found.dialect).name}
            write([json_line({**fields, "violations": violations})])
        else:
            write(_lines(source.name, violations))


def _may_hold_request(file: Path) -> bool:
    # `NAME.body.json` is the body of a recorded answer.
    return file.suffix == ".json" and not file.name.endswith(".body.json")


def _server_of(request: StoredRequest) -> str | None:
    """Return the server whose rules hold for a recorded request; None is the vendor."""
    server = request.server
    if server is None or server in _named_servers():
        return server
    # Of another server than a vendor, no more is known than its dialect.
    return None if server in _vendors() else "compatible"


def _lines(name: str, violations: list[RequestViolation]) -> Iterator[bytes]:
    for each in violations:
        yield text_line(f"{name}: {each.path or 'body'}: {each.rule}: {each.message}")


def _show_progress(text: str) -> None:
    """Show a line on a terminal in place of the one before; "" removes it."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)  # noqa: T201 - progress
