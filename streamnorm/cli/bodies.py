"""The commands that translate whole bodies: `streamnorm request` and `message`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from streamnorm._core.errors import (
    DecodeError,
    EncodeError,
    LossyEncoding,
    ProfileError,
    RecordingError,
    UnknownDialect,
    UpstreamError,
)
from streamnorm._registry import lookup
from streamnorm.cli.console import (
    AddParser,
    Parser,
    UsageError,
    complain,
    exit_statuses,
    json_line,
    report_losses,
    write,
)
from streamnorm.cli.requests import body_in, detected, stored_request
from streamnorm.cli.source import Source, dialect_names, server_option
from streamnorm.inspect.survey import writable

if TYPE_CHECKING:
    from streamnorm._bodies import Encoded
    from streamnorm.profiles import Profiles

__all__ = ["add_commands"]

_PROVIDER_FAILED = 1
_NOT_A_BODY = 4
_LOSSES_FORBIDDEN = 5

_STATUSES = {
    0: "translated",
    2: "wrong usage",
    _NOT_A_BODY: "not a body of its dialect, or one that the other cannot express",
    _LOSSES_FORBIDDEN: "losses with --strict",
}


def add_commands(add_parser: AddParser) -> None:
    """Add `request` and `message`."""
    request = add_parser(
        "request",
        parents=[_body_options("a request's JSON, the .json of a recording, or - for stdin")],
        help="write a request's body as another dialect's",
        description="Write the body of a request on stdout; on stderr its losses, and the path\n"
        "and headers that belong to it.",
        epilog=exit_statuses(_STATUSES),
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
    request.set_defaults(run=_request)
    message = add_parser(
        "message",
        parents=[_body_options("a response's JSON, a recording's .body.json, or - for stdin")],
        help="write a whole response as another dialect's",
        description="Write the body of a response on stdout, its losses on stderr.",
        epilog=exit_statuses({**_STATUSES, _PROVIDER_FAILED: "the provider reported an error"}),
    )
    server_option(message)
    message.set_defaults(run=_message)


def _body_options(file: str) -> Parser:
    """Return a parser with the options of both commands."""
    common = Parser(add_help=False)
    common.add_argument("file", metavar="FILE", help=file)
    common.add_argument(
        "--to",
        required=True,
        metavar="DIALECT",
        help=f"dialect to write: {dialect_names(writable())}",
    )
    common.add_argument(
        "--from",
        dest="source",
        metavar="DIALECT",
        help="dialect of FILE, with the names of --to (default: what the body shows)",
    )
    common.add_argument("--strict", action="store_true", help="fail where something would be lost")
    return common


def _request(arguments: argparse.Namespace) -> int:
    from streamnorm._bodies import translate_request

    source = Source(arguments)
    profiles = _profiles(arguments.profiles, arguments.server)

    def translate() -> Encoded:
        asked = stored_request(source, arguments.path)
        return translate_request(
            asked.body,
            to=arguments.to,
            dialect=asked.dialect,
            path=asked.path,
            headers=asked.headers,
            server=arguments.server,
            version=arguments.api_version,
            profiles=profiles,
            repair=arguments.repair,
            arguments=arguments.arguments,
            missing_tools=arguments.missing_tools,
            strict=arguments.strict,
        )

    return _write(translate, arguments.to)


def _profiles(files: list[str], server: str | None) -> Profiles:
    """Return the profiles of a command, which name the server that is written for."""
    from streamnorm.profiles import Profiles

    try:
        profiles = Profiles.load(*files)
    except ProfileError as exc:
        raise UsageError(str(exc)) from exc
    if server is not None and server not in profiles.servers:
        names = ", ".join(sorted(profiles.servers))
        raise UsageError(f"server {server!r}, expected {names}, or none: no other changes the body")
    return profiles


def _message(arguments: argparse.Namespace) -> int:
    from streamnorm._bodies import translate_message
    from streamnorm._core.failures import find_error

    source = Source(arguments)

    def translate() -> Encoded:
        _, body = body_in(source)
        dialect = source.dialect
        if dialect is None and find_error(body) is None:
            dialect = detected(body, "response")
        return translate_message(
            body,
            to=arguments.to,
            dialect=dialect,
            server=source.server,
            strict=arguments.strict,
        )

    return _write(translate, arguments.to)


def _write(translate: Callable[[], Encoded], to: str) -> int:
    """Write a translated body and report its losses; return the exit status."""
    try:
        lookup(to)  # a name of no dialect is worth more words than a body of none
        encoded = translate()
    except (RecordingError, UnknownDialect) as exc:
        raise UsageError(str(exc)) from exc
    except UpstreamError as exc:
        complain(f"the provider reported an error: {exc}")
        return _PROVIDER_FAILED
    except (DecodeError, EncodeError) as exc:
        complain(str(exc))
        return _NOT_A_BODY
    except LossyEncoding as exc:
        report_losses(exc.losses)
        complain(str(exc))
        return _LOSSES_FORBIDDEN
    report_losses(encoded.losses)
    if encoded.path and "model" not in encoded.body:
        complain(f"path: {encoded.path}")
    for name, value in encoded.headers.items():
        complain(f"header: {name}: {value}")
    write([json_line(encoded.body)])
    return 0
