"""Commands on recordings: `streamnorm record`, `replay`, `import`, `export` and `scan`.

The first two run a server on loopback; `import` and `export` convert files of other tools, and
`scan` searches recordings for secrets.
"""

from __future__ import annotations

import argparse
import ast
import logging
import math
import os
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import structs

from streamnorm._core.errors import RecordingError, UnrecordedRequest, did_you_mean
from streamnorm.cli import console

if TYPE_CHECKING:
    from streamnorm.recording import Recording
    from streamnorm.recording.faults import Fault
    from streamnorm.recording.format import End, Playback, Responder, WireRequest
    from streamnorm.recording.scanning import Finding


_STATUSES = {0: "ended by SIGTERM", 2: "wrong usage", 130: "ended by Ctrl-C"}
_UNRECORDED = 6
_MAX_SIZE_DIGITS = 12
_MAX_SHOWN = 5

_ENDS: dict[End, str] = {
    "eof": "complete",
    "reset": "cut",
    "timeout": "timed out",
    "aborted": "client left",
    "incomplete": "incomplete",
}


def add_commands(add_parser: console.AddParser) -> None:
    """Add `record` and `replay`."""
    record = add_parser(
        "record",
        help="pass requests on to a provider, and record the answers",
        description="Listen on 127.0.0.1, pass requests on, and write each exchange down,\n"
        "without its secrets. Ctrl-C ends it.",
        epilog=console.format_statuses({**_STATUSES, _UNRECORDED: "an exchange was not recorded"}),
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
    record.add_argument(
        "--no-request-bodies",
        dest="request_bodies",
        action="store_false",
        help="do not write the bodies of requests; a replay then cannot compare them",
    )
    record.add_argument(
        "--ca",
        metavar="FILE",
        help="trust the certificate authorities in this PEM file, not the usual ones"
        " (or set SSL_CERT_FILE)",
    )
    console.add_port(record)
    record.set_defaults(run=_record)
    replay = add_parser(
        "replay",
        help="answer requests with recordings",
        description="Listen on 127.0.0.1, and answer with recordings. Ctrl-C ends it.",
        epilog=console.format_statuses({**_STATUSES, _UNRECORDED: "a request had no recording"}),
    )
    replay.add_argument("path", metavar="PATH", help="a recording's stream, or a directory")
    console.add_port(replay)
    replay.add_argument(
        "--speed",
        type=_parse_speed,
        default=0.0,
        metavar="X",
        help="how many times faster than recorded (default: 0, no waiting)",
    )
    replay.add_argument(
        "--rechunk",
        type=_parse_rechunk,
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
        type=_parse_pattern,
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


def explain_no_recordings(path: str) -> console.UsageError:
    """Return the error for a directory without recordings, naming subfolders with recordings."""
    from streamnorm.recording.library import find_recording_folders

    folders = find_recording_folders(path)
    shown = ", ".join(folders[:_MAX_SHOWN])
    more = len(folders) - _MAX_SHOWN
    elsewhere = f", but in its folders {shown}{f' and {more} more' if more > 0 else ''}"
    return console.UsageError(f"{path}: no recordings{elsewhere if folders else ''}")


def _parse_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {exc}") from exc


def _record(arguments: argparse.Namespace) -> int:
    from streamnorm.asgi import RecordingProxy
    from streamnorm.asgi.servers import MAX_BODY_BYTES
    from streamnorm.cli.serving import serve
    from streamnorm.recording.recorder import Recorder

    upstream: str = arguments.upstream
    recorder = Recorder(
        arguments.out,
        redact=arguments.redact,
        request_bodies=arguments.request_bodies,
        on_recorded=_report_recorded,
    )
    try:
        proxy = RecordingProxy(upstream, recorder, ca=arguments.ca)
    except ValueError as exc:
        raise console.UsageError(str(exc)) from exc
    with console.convert_os_errors(recorder.directory):
        recorder.directory.mkdir(parents=True, exist_ok=True)
    path = urlsplit(upstream).path

    def announce(url: str) -> None:
        _report_warnings()
        console.print_status(f"listening on {url}")
        console.print_status(f"recording into {arguments.out}")
        console.print_base_urls(url, path)

    status = serve(proxy, arguments.port, announce, max_message_bytes=MAX_BODY_BYTES)
    return _UNRECORDED if recorder.failures else status


def _replay(arguments: argparse.Namespace) -> int:
    from streamnorm.asgi import ReplayApp
    from streamnorm.asgi.servers import MAX_BODY_BYTES
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
        raise console.UsageError(str(exc)) from exc
    if not library.recordings:
        raise explain_no_recordings(arguments.path)
    app = ReplayApp(_Reporting(library), speed=arguments.speed)

    def announce(url: str) -> None:
        _report_warnings()
        console.print_status(f"listening on {url}")
        console.print_status(f"recordings: {len(library.recordings)} in {arguments.path}")
        console.print_base_urls(url, "")

    status = serve(app, arguments.port, announce, max_message_bytes=MAX_BODY_BYTES)
    return _UNRECORDED if library.unrecorded else status


class _Reporting:
    """A responder that also reports on stderr each request that differs from the recordings.

    Args:
        inner: Answers the requests.
    """

    def __init__(self, inner: Responder) -> None:
        self._inner = inner

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the inner responder's answer; report its warnings."""
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                playback = self._inner.respond(request)
        except UnrecordedRequest as exc:
            _report(str(exc))
            raise
        for warning in warned:
            _report(str(warning.message))
        return playback


class _StderrHandler(logging.Handler):
    """Log handler that prints the library's warnings as command line messages."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a log record."""
        console.print_error(record.getMessage())


def _report_warnings() -> None:
    logging.getLogger("streamnorm").addHandler(_StderrHandler(logging.WARNING))


def _report(text: str) -> None:
    for line in f"streamnorm: {text}".splitlines():
        console.print_status(line)


def _report_recorded(path: Path) -> None:
    from streamnorm.recording.recording import load_companion

    response = load_companion(path).response
    name = path.name.removesuffix(response.body)
    size = path.stat().st_size
    console.print_status(f"{name}  {response.status}  {size:,} bytes  {_ENDS[response.end]}")


def _parse_speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 <= speed < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number of 0 or more")
    return speed


def _parse_rechunk(text: str) -> str | int:
    return int(text) if text.isdecimal() and len(text) < _MAX_SIZE_DIGITS else text


def read_fault(text: str) -> Fault:
    """Parse a fault written as a Python call: `http(529, times=2)`.

    Nothing is evaluated: arguments in the parentheses are literals.

    Raises:
        argparse.ArgumentTypeError: There is no such fault, or it has other parameters.
    """
    from streamnorm.recording import faults

    name, positional, keywords = _parse_call(text)
    known = [kind for kind in faults.__all__ if kind.islower() and kind != "every"]
    if name not in known:
        expected = f"{', '.join(known)}{did_you_mean(name, known)}"
        raise argparse.ArgumentTypeError(f"{text!r}, expected one of {expected}")
    kind: type[Fault] = getattr(faults, name)
    try:
        return kind(*positional, **keywords)
    except TypeError as exc:
        raise argparse.ArgumentTypeError(f"{text!r}, expected {_describe_call(kind)}") from exc
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{text!r}: {exc}") from exc


def _describe_call(kind: type[Fault]) -> str:
    """Return the signature of a fault, such as `http(status, times=...)`."""
    # `when` is a function, which no literal is.
    fields = [field for field in structs.fields(kind) if field.name != "when"]
    parameters = [field.name if field.required else f"{field.name}=..." for field in fields]
    return f"{kind.__name__}({', '.join(parameters)})"


def _parse_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the name, positional and keyword arguments of a call such as `cut(event=3)`."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        positional = [ast.literal_eval(value) for value in call.args]
        keywords = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise argparse.ArgumentTypeError(f"{text!r}, expected one as cut(event=3)") from exc
    return call.func.id if isinstance(call.func, ast.Name) else "", positional, keywords


_FILE_STATUSES = {0: "done", 2: "wrong usage, or a file that cannot be read or written"}


def add_file_commands(add_parser: console.AddParser) -> None:
    """Add `import`, `export` and `scan`."""
    importing = add_parser(
        "import",
        help="make recordings of a cassette, a HAR or a transcript",
        description="Make recordings of a YAML cassette (vcrpy, cassetter), a HAR file, or a\n"
        "transcript of a WebSocket (lines of JSON), and name each on stdout. Entries of a\n"
        "HAR that are no HTTP exchange are skipped, and counted on stderr.",
        epilog=console.format_statuses(_FILE_STATUSES),
    )
    importing.add_argument("file", metavar="FILE", help="the cassette, HAR or transcript")
    importing.add_argument("--out", required=True, metavar="DIR", help="where to write recordings")
    importing.set_defaults(run=_import)
    exporting = add_parser(
        "export",
        help="write recordings as a HAR",
        description="Write recordings as a HAR file.",
        epilog=console.format_statuses(_FILE_STATUSES),
    )
    exporting.add_argument(
        "paths", nargs="+", metavar="PATH", help="a recording's stream, or a directory of them"
    )
    exporting.add_argument("--out", required=True, metavar="FILE", help="the .har to write")
    exporting.set_defaults(run=_export)
    _add_scan(add_parser)


@console.clean_up_at_sigterm()
def _import(arguments: argparse.Namespace) -> int:
    from streamnorm.recording.importing import import_file

    present: list[Recording] = []
    skipped: Counter[str] = Counter()
    imported = import_file(
        Path(arguments.file),
        Path(arguments.out),
        on_present=present.append,
        on_skipped=lambda _number, reason: skipped.update([reason]),
    )
    for recording in imported:
        console.write([os.fsencode(recording.path or recording.name), b"\n"])
    if present:
        console.print_status(f"already in {arguments.out}: {len(present)} of {len(imported)}")
    for reason, count in skipped.items():
        console.print_status(f"entries skipped: {count} ({reason})")
    return 0


@console.clean_up_at_sigterm()
def _export(arguments: argparse.Namespace) -> int:
    from streamnorm.cli.output_files import write_output
    from streamnorm.recording.importing.har import encode_har
    from streamnorm.recording.library import Library

    console.check_output("--out", arguments.out)
    recordings: list[Recording] = []
    for path in arguments.paths:
        found = Library(path).recordings
        if not found:
            raise explain_no_recordings(path)
        recordings += found
    out = Path(arguments.out)
    for recording in recordings:
        _check_is_no_source(out, recording)
    is_stdout = console.is_stdout(out)
    write_output(out, encode_har(recordings))
    if not is_stdout:  # which then has the HAR alone
        console.write([os.fsencode(arguments.out), b"\n"])
    return 0


def _check_is_no_source(out: Path, recording: Recording) -> None:
    """Raise `UsageError` if a file to write is one of a recording."""
    from streamnorm.recording.format import split_name

    path = recording.path
    if path is None:
        return
    name = split_name(path)[0]
    for file in (path, Path(name + ".json"), Path(name + ".events.jsonl")):
        if console.is_same_file(out, file):
            raise console.UsageError(f"--out: {out} is of the recording {path}, expected another")


_UNREADABLE = 2
_FOUND = 7
_SCAN_STATUSES = {
    0: "no secret was found",
    _UNREADABLE: "wrong usage, or a file that cannot be read",
    _FOUND: "a secret was found",
}


def _add_scan(add_parser: console.AddParser) -> None:
    scan = add_parser(
        "scan",
        help="find secrets in recordings",
        description="Find keys, tokens and other secrets in recordings, cassettes and HAR files,\n"
        "and name file, place and kind of each on stdout. No secret is shown.",
        epilog=console.format_statuses(_SCAN_STATUSES),
    )
    scan.add_argument("paths", nargs="+", metavar="PATH", help="a directory, or a file")
    scan.add_argument("--json", action="store_true", help="write one line of JSON")
    scan.set_defaults(run=_scan)


def _scan(arguments: argparse.Namespace) -> int:
    from streamnorm.recording.scanning import scan_file

    files = _find_files(arguments.paths)
    findings: list[Finding] = []
    is_unreadable = False
    for file in files:
        found: list[Finding] = []
        try:
            # What was found before an error is told.
            found.extend(scan_file(file))
        except OSError as exc:
            console.print_error(f"{file}: {exc.strerror}")
            is_unreadable = True
        if not arguments.json:
            console.print_lines(f"{file}: {finding.place}: {finding.kind}" for finding in found)
        findings += found
    if arguments.json:
        documents = [
            {"file": str(finding.file), "place": finding.place, "kind": finding.kind}
            for finding in findings
        ]
        console.print_json({"files": len(files), "findings": documents})
    console.print_status(_summarise(len(files), findings))
    if findings:
        return _FOUND
    return _UNREADABLE if is_unreadable else 0


def _find_files(paths: list[str]) -> list[Path]:
    from streamnorm.recording.scanning import find_files

    files: dict[Path, None] = {}
    with console.convert_os_errors():
        for path in map(Path, paths):
            path.stat()
            files |= dict.fromkeys(find_files(path))
    return list(files)


def _summarise(files: int, findings: list[Finding]) -> str:
    if not findings:
        return f"no secrets in {files} {'file' if files == 1 else 'files'}"
    leaky = len({finding.file for finding in findings})
    secrets = "1 secret" if len(findings) == 1 else f"{len(findings)} secrets"
    return f"{secrets} in {leaky} of {files} {'file' if files == 1 else 'files'}"
