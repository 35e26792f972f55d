"""The commands that serve: `streamnorm record` and `streamnorm replay`."""

from __future__ import annotations

import argparse
import logging
import math
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from streamnorm._core.errors import RecordingError, UnrecordedRequest
from streamnorm.cli.console import STATUSES, AddParser, UsageError, complain, say
from streamnorm.cli.faulty import read_fault

if TYPE_CHECKING:
    from streamnorm.recording.exchange import Playback, Responder, WireRequest
    from streamnorm.recording.format import End

__all__ = ["add_commands"]

_UNRECORDED = 6
_MAX_PORT = 65535
_MAX_SIZE_DIGITS = 12

_ENDS: dict[End, str] = {
    "eof": "complete",
    "reset": "cut",
    "timeout": "timed out",
    "aborted": "client left",
    "incomplete": "incomplete",
}


def add_commands(add_parser: AddParser) -> None:
    """Add what records and replays."""
    record = add_parser(
        "record",
        help="pass requests on to a provider, and record the answers",
        description="Listen on 127.0.0.1, pass requests on, and write each exchange down,\n"
        "without its secrets. Ctrl-C ends it.",
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    record.add_argument(
        "--upstream",
        required=True,
        metavar="URL",
        help="the provider, as https://api.openai.com; the path of each request is appended",
    )
    record.add_argument("--out", required=True, metavar="DIR", help="where to write recordings")
    record.add_argument(
        "--redact",
        action="append",
        default=[],
        metavar="TEXT",
        help="what else must not be written (may be given several times)",
    )
    _add_port(record)
    record.set_defaults(run=_record)
    replay = add_parser(
        "replay",
        help="answer requests with recordings",
        description="Listen on 127.0.0.1, and answer with recordings. Ctrl-C ends it.",
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    replay.add_argument("path", metavar="PATH", help="a recording's .sse, or a directory")
    _add_port(replay)
    replay.add_argument(
        "--speed",
        type=_speed,
        default=0.0,
        metavar="X",
        help="how many times faster than recorded (default: 0, no waiting)",
    )
    replay.add_argument(
        "--rechunk",
        type=_rechunk,
        default="recorded",
        metavar="HOW",
        help="recorded (default), event, byte, hostile, random:SEED, or a size in bytes",
    )
    replay.add_argument(
        "--match",
        choices=("normalised", "exact", "sequence"),
        default="normalised",
        help="how a request finds its recording (default: normalised)",
    )
    replay.add_argument(
        "--drift",
        choices=("error", "warn", "ignore"),
        default="error",
        help="what to do where a request is not as recorded (default: error)",
    )
    replay.add_argument(
        "--ignore",
        type=_pattern,
        action="append",
        default=[],
        metavar="REGEX",
        help="what is not compared in the strings of a request (may be given several times)",
    )
    replay.add_argument(
        "--fault",
        type=read_fault,
        action="append",
        default=[],
        metavar="FAULT",
        help="what goes wrong, as cut(event=3), http(529, times=2) or bom (may be given several"
        " times)",
    )
    replay.set_defaults(run=_replay)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {exc}") from exc


def _add_port(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--port", type=_port, default=0, metavar="N", help="where to listen (default: any free)"
    )


def _record(arguments: argparse.Namespace) -> int:
    from streamnorm.asgi import RecordingProxy
    from streamnorm.cli.serving import serve
    from streamnorm.recording.recorder import Recorder

    upstream: str = arguments.upstream
    recorder = Recorder(arguments.out, redact=arguments.redact, on_recorded=_tell_recorded)
    try:
        proxy = RecordingProxy(upstream, recorder)
    except ValueError as exc:
        raise UsageError(f"argument --upstream: {exc}") from exc
    _make_directory(recorder.directory)
    path = urlsplit(upstream).path

    def announce(url: str) -> None:
        _complain_of_warnings()
        say(f"listening on {url}")
        say(f"recording into {arguments.out}")
        _tell_base_urls(url, path)

    status = serve(proxy, arguments.port, announce)
    return _UNRECORDED if recorder.failures else status


def _replay(arguments: argparse.Namespace) -> int:
    from streamnorm.asgi import ReplayApp
    from streamnorm.cli.serving import serve
    from streamnorm.recording.library import Library

    try:
        library = Library(
            arguments.path,
            match=arguments.match,
            drift=arguments.drift,
            rechunk=arguments.rechunk,
            ignore=arguments.ignore,
            faults=arguments.fault,
        )
    except (RecordingError, ValueError) as exc:
        raise UsageError(str(exc)) from exc
    if not library.recordings:
        raise UsageError(f"{arguments.path}: no recordings")
    app = ReplayApp(_Announced(library), speed=arguments.speed)

    def announce(url: str) -> None:
        _complain_of_warnings()
        say(f"listening on {url}")
        say(f"recordings: {len(library.recordings)} in {arguments.path}")
        _tell_base_urls(url, "")

    status = serve(app, arguments.port, announce)
    return _UNRECORDED if library.unrecorded else status


class _Announced:
    """Say which requests no recording answers, and which drifted from theirs.

    Args:
        inner: What answers.
    """

    def __init__(self, inner: Responder) -> None:
        self._inner = inner

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the answer."""
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                playback = self._inner.respond(request)
        except UnrecordedRequest as exc:
            _say_lines(str(exc))
            raise
        for warning in warned:
            _say_lines(str(warning.message))
        return playback


class _Complaints(logging.Handler):
    """Say what the library warns of as the command line says things."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        complain(record.getMessage())


def _complain_of_warnings() -> None:
    logging.getLogger("streamnorm").addHandler(_Complaints(logging.WARNING))


def _say_lines(text: str) -> None:
    for line in f"streamnorm: {text}".splitlines():
        say(line)


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror}") from exc


def _tell_recorded(path: Path) -> None:
    from streamnorm.recording import load_companion

    response = load_companion(path).response
    name = path.name.removesuffix(response.body)
    size = path.stat().st_size
    say(f"{name}  {response.status}  {size:,} bytes  {_ENDS[response.end]}")


def _tell_base_urls(url: str, upstream_path: str) -> None:
    """Say what to tell official SDKs, which bring their version of the API along or do not."""
    if re.search(r"/v[0-9][^/]*/?$", upstream_path):
        say(f"  OPENAI_BASE_URL={url}")
        return
    say(f"  OPENAI_BASE_URL={url}/v1")
    say(f"  ANTHROPIC_BASE_URL={url}")
    say(f"  GOOGLE_GEMINI_BASE_URL={url}")


def _port(text: str) -> int:
    port = int(text) if text.isdecimal() and len(text) <= len(str(_MAX_PORT)) else -1
    if not 0 <= port <= _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}, expected 0 to {_MAX_PORT}")
    return port


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 <= speed < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number of 0 or more")
    return speed


def _rechunk(text: str) -> str | int:
    return int(text) if text.isdecimal() and len(text) < _MAX_SIZE_DIGITS else text
