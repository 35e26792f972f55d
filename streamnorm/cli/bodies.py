"""Commands that translate whole bodies: `streamnorm request` and `message`."""

from __future__ import annotations

import argparse
import codecs
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from streamnorm._core.errors import DecodeError, RecordingError, StreamnormError
from streamnorm._core.json import is_object
from streamnorm._core.limits import Limits
from streamnorm._registry import DIALECTS, lookup
from streamnorm.cli import console
from streamnorm.cli.streams import (
    Source,
    add_server_option,
    add_target_options,
    list_dialects,
)
from streamnorm.inspect.page import format_count

if TYPE_CHECKING:
    from streamnorm._bodies import Encoded
    from streamnorm.profiles import Profiles

_LIMITS = Limits()
_REFUSED = 4

_STATUSES = {
    0: "translated",
    2: "wrong usage",
    4: "not a body of its dialect, or one that the other cannot express",
    5: "losses with --strict",
}


def add_commands(add_parser: console.AddParser) -> None:
    """Add `request` and `message`."""
    request = add_parser(
        "request",
        parents=[
            _make_body_options(
                "a request's JSON, the .json of a recording, or - for stdin",
                [name for name, known in DIALECTS.items() if known.body is not None],
            )
        ],
        help="write a request's body as another dialect's",
        description="Write the body of a request on stdout; on stderr its losses, and the path\n"
        "and headers that belong to it.",
        epilog=console.format_statuses(_STATUSES),
    )
    request.add_argument(
        "--path",
        metavar="PATH",
        help="path or URL that the request was sent to: it may name the dialect and the model",
    )
    request.add_argument(
        "--server",
        metavar="NAME",
        help="server to write for, such as vertex or vllm (default: the vendor's own)",
    )
    request.add_argument("--api-version", metavar="VERSION", help="version of the API to write for")
    request.add_argument(
        "--profiles",
        metavar="FILE",
        action="append",
        default=[],
        help="TOML file that says what models and servers refuse; several are read in order",
    )
    request.add_argument(
        "--repair",
        choices=("error", "fill"),
        default="error",
        help="what becomes of tool results that are missing, late, or of no call"
        " (default: error), or fill them in and move them",
    )
    request.add_argument(
        "--arguments",
        choices=("error", "raw", "repair"),
        default="error",
        help="what becomes of tool arguments that are no JSON object where the dialect has"
        " objects (default: error)",
    )
    request.add_argument(
        "--missing-tools",
        choices=("error", "drop"),
        default="error",
        help="what becomes of a request for a search, or another tool that its provider executes,"
        " where the dialect has none (default: error)",
    )
    request.set_defaults(run=_translate_request)
    message = add_parser(
        "message",
        parents=[
            _make_body_options(
                "a response's JSON, a recording's .body.json, or - for stdin",
                _list_body_dialects(),
            )
        ],
        help="write a whole response as another dialect's",
        description="Write the body of a response on stdout, its losses on stderr.",
        epilog=console.format_statuses({**_STATUSES, 1: "the provider reported an error"}),
    )
    add_server_option(message)
    message.set_defaults(run=_translate_message)


def _list_body_dialects() -> list[str]:
    """Return the names of the dialects whose requests and responses are read and written."""
    return [name for name, known in DIALECTS.items() if known.codec is not None]


def _make_body_options(file: str, sources: list[str]) -> console.Parser:
    """Return a parser with the options that `request` and `message` share.

    Args:
        file: Help of the file.
        sources: Names of the dialects that the command reads.
    """
    common = console.Parser(add_help=False)
    common.add_argument("file", metavar="FILE", help=file)
    add_target_options(common, _list_body_dialects())
    common.add_argument(
        "--from",
        dest="source",
        metavar="DIALECT",
        help=f"dialect of FILE: {list_dialects(sources)}; default: what the body shows",
    )
    return common


def _translate_request(arguments: argparse.Namespace) -> int:
    from streamnorm._bodies import translate_request

    profiles = _load_profiles(arguments.profiles, arguments.server)
    lookup(arguments.to)  # the error of a wrong name comes before the one of a wrong body
    stored = read_request(Source(arguments.file, arguments.source), arguments.path)
    encoded = translate_request(
        stored.body,
        to=arguments.to,
        dialect=stored.dialect,
        path=stored.path,
        headers=stored.headers,
        server=arguments.server,
        version=arguments.api_version,
        profiles=profiles,
        repair=arguments.repair,
        arguments=arguments.arguments,
        missing_tools=arguments.missing_tools,
        strict=arguments.strict,
    )
    return _write(encoded)


def _load_profiles(files: list[str], server: str | None) -> Profiles:
    """Return a command's profiles; check that they include the command's server."""
    from streamnorm.profiles import Profiles

    profiles = Profiles.load(*files)
    if server is not None and server not in profiles.servers:
        names = ", ".join(sorted(profiles.servers))
        raise console.UsageError(
            f"server {server!r}, expected {names}, or none: no other changes the body"
        )
    return profiles


def _translate_message(arguments: argparse.Namespace) -> int:
    from streamnorm._answers import translate_message
    from streamnorm._core.failures import find_error

    source = Source(arguments.file, arguments.source, arguments.server)
    lookup(arguments.to)
    _, body = read_body(source, finite=False)
    dialect = source.dialect
    if dialect is None and find_error(body) is None:
        dialect = detect(body, "response")
    encoded = translate_message(
        body, to=arguments.to, dialect=dialect, server=source.server, strict=arguments.strict
    )
    return _write(encoded)


def _write(encoded: Encoded) -> int:
    """Write a translated body, and report its losses; return the exit status."""
    console.report_losses(encoded.losses)
    if encoded.path and "model" not in encoded.body:
        console.print_error(f"path: {encoded.path}")
    for name, value in encoded.headers.items():
        console.print_error(f"header: {name}: {value}")
    console.print_json(encoded.body)
    return 0


class StoredRequest(NamedTuple):
    """A request read from a file.

    Attributes:
        body: The decoded body.
        dialect: The dialect of the body.
        path: Path of the URL; None if unknown.
        headers: The headers.
        method: The HTTP method.
        server: Name of the server that received it; None if unknown.
    """

    body: dict[str, Any]
    dialect: str
    path: str | None = None
    headers: Mapping[str, str] = {}
    method: str = "POST"
    server: str | None = None


def read_request(source: Source, url: str | None) -> StoredRequest:
    """Return the request in a file: a body, or a recording's request.

    Args:
        source: The file.
        url: URL of the request, from the command line.

    Raises:
        DecodeError: It is no JSON object, or of no known dialect.
        RecordingError: It is a damaged companion, or one without the body of a request.
    """
    from streamnorm._registry import detect_path
    from streamnorm.http.urls import path_of
    from streamnorm.recording.format import decode_companion

    data, body = read_body(source, finite=True)
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
    return found._replace(dialect=dialect or detect(found.body, "request"), path=path)


def read_body(source: Source, *, finite: bool) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a body, and its decoded object.

    Args:
        source: The file.
        finite: Whether to refuse numbers that are not finite, as in a request.

    Raises:
        DecodeError: They are no JSON object.
    """
    from streamnorm._core.bodies.fields import body_object

    data = source.read_body(_LIMITS.max_event_bytes)
    # Editors and shells of Windows write one; a parser may ignore it (RFC 8259, section 8.1).
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data or (data.isspace() and len(data) <= _LIMITS.max_event_bytes):
        raise DecodeError("an empty input, expected a JSON object")
    return data, body_object(data, _LIMITS, finite=finite)


def detect(body: dict[str, Any], kind: Literal["request", "response"]) -> str:
    """Return the dialect of a body.

    Raises:
        DecodeError: It is of none, or of several.
    """
    from streamnorm._registry import detect_body

    dialect = detect_body(body, kind)
    if dialect is None:
        raise DecodeError(f"{kind} of no known dialect, or of several, expected --from DIALECT")
    return dialect


def validate_requests(arguments: argparse.Namespace) -> int:
    """Print the violations of requests; return the exit status."""
    if arguments.source is not None:
        lookup(arguments.source)
    _check_server(arguments.server)
    validation = _Validation(arguments)
    for path in arguments.files:
        if path == "-" or not Path(path).is_dir():
            validation.add_file(path)
        else:
            validation.add_directory(Path(path))
    return validation.end()


def _check_server(name: str | None) -> None:
    if name is not None and name not in (known := _list_named_servers() | _list_vendors()):
        raise console.UsageError(
            f"server {name!r}, expected {', '.join(sorted(known))}, or none: no other has rules"
        )


def _list_named_servers() -> frozenset[str]:
    """Return the server names that have rules or profiles."""
    from streamnorm.profiles import VENDOR, shipped_profiles
    from streamnorm.profiles.rules import shipped_rules

    servers = shipped_profiles().servers.union(*(rule.servers for rule in shipped_rules()))
    return servers - {VENDOR, "*"}


def _list_vendors() -> frozenset[str]:
    """Return the server names of the dialects' vendors."""
    codecs = [known.codec for known in DIALECTS.values()]
    return frozenset(
        codec.capabilities.reasoning_issuer
        for codec in codecs
        if codec is not None and codec.capabilities.reasoning_issuer is not None
    )


class _Validation:
    """Validates the requests in files, and prints violations as they are found.

    Args:
        arguments: Those of the command.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._requests = self._violations = self._skipped = 0
        self._is_refused = False

    def add_file(self, path: str) -> None:
        """Validate the request in a file; a file without a request is an error."""
        try:
            self._validate(path)
        except StreamnormError as exc:
            name = "standard input" if path == "-" else path
            console.print_error(f"{name}: {str(exc).removeprefix(f'{name}: ')}")
            self._is_refused = True

    def add_directory(self, directory: Path) -> None:
        """Validate all requests in a directory tree; skip other files."""
        from streamnorm.recording.scanning import find_files

        with console.convert_os_errors():
            files = [file for file in find_files(directory) if _may_hold_request(file)]
        for number, file in enumerate(files, 1):
            console.show_progress(
                f"{number}/{len(files)}, {format_count(self._violations, 'violation')}"
            )
            try:
                self._validate(str(file))
            except StreamnormError:
                self._skipped += 1
        console.show_progress("")

    def end(self) -> int:
        """Print the counts, and return the exit status."""
        if not self._arguments.json:
            violations = format_count(self._violations, "violation")
            console.print_lines([f"{violations} in {format_count(self._requests, 'request')}"])
        if self._skipped:
            console.print_error(f"{format_count(self._skipped, 'file')} without a request skipped")
        return _REFUSED if self._violations or self._is_refused else 0

    def _validate(self, path: str) -> None:
        """Print the violations of the request in a file.

        Raises:
            StreamnormError: The file holds no request for a message.
        """
        from streamnorm.validation import validate_request

        arguments = self._arguments
        source = Source(path, arguments.source)
        found = read_request(source, arguments.path)
        asked = lookup(found.dialect).endpoints.match(found.method, found.path or "")
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
        console.show_progress("")
        if arguments.json:
            fields = {"request": source.name, "dialect": lookup(found.dialect).name}
            console.print_json({**fields, "violations": violations})
        else:
            console.print_lines(
                f"{source.name}: {each.path or 'body'}: {each.rule}: {each.message}"
                for each in violations
            )


def _may_hold_request(file: Path) -> bool:
    # `NAME.body.json` is the body of a recorded answer.
    return file.suffix == ".json" and not file.name.endswith(".body.json")


def _server_of(request: StoredRequest) -> str | None:
    """Return the server whose rules apply to a recorded request; None stands for the vendor."""
    server = request.server
    if server is None or server in _list_named_servers():
        return server
    # Of another server than a vendor, no more is known than its dialect.
    return None if server in _list_vendors() else "compatible"
