"""Commands that translate a stream: `streamnorm transcode` and `decode`."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import msgspec
from msgspec import UNSET

from streamnorm._core.codec.framing import Framing
from streamnorm._core.codec.websocket_messages import WS_MESSAGE
from streamnorm._core.errors import NotAStream, RecordingError, did_you_mean
from streamnorm._core.events import Event, Failed, Outcome, StreamError, Truncated
from streamnorm._core.failures import NOT_A_STREAM
from streamnorm._core.json import FAST_ERRORS
from streamnorm._core.limits import Limits
from streamnorm._core.losses import ReasoningField
from streamnorm._registry import DIALECTS, FRAMINGS, decoder, framing_of, lookup
from streamnorm._transcoder import Transcoder
from streamnorm.cli import console
from streamnorm.inspect import list_writable_dialects
from streamnorm.recording.format import (
    STREAM_SUFFIXES,
    Companion,
    RecordedRead,
    read_bounded,
    reads_of,
    split_name,
)
from streamnorm.recording.recording import load_companion

STATUSES = {
    0: "completed",
    1: "the provider reported an error",
    2: "wrong usage",
    3: "truncated",
    4: "not a stream, or malformed",
}
"""The exit statuses of the commands that decode a stream."""

_SERVERS = sorted({name for known in DIALECTS.values() for name in known.servers_with_quirks})
WHO_SENT = f"who sent it, where that decides between two readings: {', '.join(_SERVERS)}"
"""The help of `--server`."""

_CHUNK_BYTES = 64 * 1024
_LARGE_BYTES = 2 * 1024 * 1024  # which take more than an instant
_LONGEST_WAIT_S = 0.5  # for bytes, until the next look for signals
_GZIP = b"\x1f\x8b"  # RFC 1952, section 2.3.1

_JSON: msgspec.json.Decoder[dict[str, msgspec.Raw] | list[msgspec.Raw]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw] | list[msgspec.Raw]
)

_REASONING: dict[str, ReasoningField | None] = {
    "reasoning_content": "reasoning_content",
    "reasoning": "reasoning",
    "reasoning_details": "reasoning_details",
    "none": None,
}


def list_dialects(names: list[str]) -> str:
    """Return dialect names with their aliases, for a help text."""
    known = [DIALECTS[name] for name in names]
    shown = [f"{d.name} ({', '.join(d.aliases)})" if d.aliases else d.name for d in known]
    return f"{', '.join(shown[:-1])} or {shown[-1]}"


def make_source_options(*, several: bool = False) -> console.Parser:
    """Return a parser with the options of every command that reads a stream.

    Args:
        several: Whether the command reads any number of streams.
    """
    common = console.Parser(add_help=False)
    what = "a recording's stream, a body, or - for stdin"
    if several:
        several_help = f"{what}; several, or a directory of recordings, are a table"
        common.add_argument("files", metavar="FILE", nargs="*", help=several_help)
    else:
        common.add_argument("file", metavar="FILE", help=what)
    add_dialect_option(common, "--from")
    add_framing_option(common)
    add_server_option(common)
    add_think_tags_option(common)
    return common


def add_dialect_option(command: argparse.ArgumentParser, *names: str) -> None:
    """Add the option that names the dialect of the input."""
    command.add_argument(
        *names,
        dest="source",
        metavar="DIALECT",
        help=f"dialect of FILE: {list_dialects([*DIALECTS])};"
        " default: its companion's, or what the first frames show",
    )


def add_framing_option(command: argparse.ArgumentParser) -> None:
    """Add `--framing`, the framing of the input."""
    command.add_argument(
        "--framing",
        type=parse_framing,
        metavar="NAME",
        help=f"how events stand in FILE: {', '.join(FRAMINGS)};"
        " default: its companion's, or that of the dialect",
    )


def parse_framing(name: str) -> Framing:
    """Return the framing called `name`.

    Raises:
        argparse.ArgumentTypeError: There is none of that name.
    """
    framing = FRAMINGS.get(name)
    if framing is None:
        raise argparse.ArgumentTypeError(
            f"{name!r}, expected {', '.join(FRAMINGS)}{did_you_mean(name, FRAMINGS)}"
        )
    return framing


def add_target_options(command: argparse.ArgumentParser, dialects: list[str]) -> None:
    """Add `--to` and `--strict` to a command that translates.

    Args:
        command: The command.
        dialects: Names of the dialects that the command writes.
    """
    command.add_argument(
        "--to",
        required=True,
        metavar="DIALECT",
        help=f"dialect to write: {list_dialects(dialects)}",
    )
    command.add_argument("--strict", action="store_true", help="fail where something would be lost")


def add_think_tags_option(command: argparse.ArgumentParser) -> None:
    """Add `--think-tags`."""
    command.add_argument(
        "--think-tags", action="store_true", help="read <think>...</think> in text as reasoning"
    )


def add_server_option(command: argparse.ArgumentParser) -> None:
    """Add `--server`, the name of the server that sent the stream or the body."""
    command.add_argument("--server", type=parse_server, metavar="NAME", help=WHO_SENT)


def parse_server(name: str) -> str:
    """Check that a server's name changes how a stream is read, and return the name.

    Raises:
        argparse.ArgumentTypeError: It changes nothing.
    """
    if name not in _SERVERS:
        raise argparse.ArgumentTypeError(
            f"{name!r}, expected {', '.join(_SERVERS)}, or none: no other changes the reading"
            f"{did_you_mean(name, _SERVERS)}"
        )
    return name


class Source:
    """An input stream or body, from a file or stdin, with its dialect and server.

    Args:
        file: Path of the file; `-` for stdin.
        dialect: Dialect that the user names; None for the companion's.
        server: Server that the user names; None for the companion's.
        framing: Framing that the user names; None for that of the companion or the dialect.

    Attributes:
        name: Name of the file, for messages.
        dialect: Dialect to read as; None to detect it.
        server: Server to read as; None if it is unknown.
        framing: How events stand in the bytes of a stream.
        shows_progress: Whether to show on the terminal how much of a large file was read.

    Raises:
        RecordingError: The companion is damaged.
        UsageError: The file is an event stream of AWS, and nothing says what is in it.
        UnknownDialect: There is no such dialect.
    """

    def __init__(
        self,
        file: str,
        dialect: str | None,
        server: str | None = None,
        framing: Framing | None = None,
    ) -> None:
        self._file = file
        self.name = "standard input" if file == "-" else file
        self.dialect = dialect
        self.server = server
        self.shows_progress = False
        self._companion = self._load_companion()
        self._head = b""  # the first bytes
        if self.dialect is None and self._companion.dialect in DIALECTS:
            self.dialect = self._companion.dialect
            self.server = self.server or self._companion.server
        self.framing = framing or self._find_framing()

    def read_chunks(self) -> Iterator[bytes]:
        """Yield the bytes as they arrive.

        Raises:
            NotAStream: They have ended and were none, or white space alone; or are compressed.
            UsageError: They cannot be read.
        """
        is_blank = True
        for chunk in self._read():
            is_blank = is_blank and chunk.isspace()
            self._head += chunk[: _CHUNK_BYTES - len(self._head)]
            yield chunk
        if is_blank:
            raise NotAStream("no stream of a known dialect: the input is empty")

    def read_body(self, max_bytes: int) -> bytes:
        """Return the whole body; stop reading once it exceeds `max_bytes`.

        Raises:
            NotAStream: They are compressed.
            UsageError: They cannot be read.
        """
        pieces: list[bytes] = []
        size = 0
        for chunk in self._read():
            pieces.append(chunk)
            size += len(chunk)
            if size > max_bytes:
                break
        return b"".join(pieces)

    def load_reads(self) -> list[RecordedRead] | None:
        """Return the recorded sizes and delays of the chunks; None if no delays were recorded.

        Raises:
            RecordingError: They are damaged.
            UsageError: They are of another size than the file.
        """
        path = Path(split_name(Path(self._file))[0] + ".json")
        reads = reads_of(self._companion, path) or []
        if not any(read.gap_ms for read in reads):
            return None
        with console.convert_os_errors(self.name):
            size = os.path.getsize(self._file)
        recorded = sum(read.size for read in reads)
        if size != recorded:
            raise console.UsageError(f"{path}: chunks of {recorded} bytes, {self._file} has {size}")
        return reads

    def read_timed_chunks(self, reads: list[RecordedRead] | None) -> Iterator[tuple[bytes, int]]:
        """Yield the bytes of each chunk, and the milliseconds since the previous chunk.

        Args:
            reads: The recorded reads; None to read as bytes arrive, with no times.
        """
        if reads is None:
            yield from ((chunk, 0) for chunk in self.read_chunks())
            return
        stored = bytearray()
        chunks = self.read_chunks()
        for read in reads:
            while len(stored) < read.size and (chunk := next(chunks, b"")):
                stored += chunk
            yield bytes(stored[: read.size]), read.gap_ms
            del stored[: read.size]

    def has_ended(self, outcome: Outcome | None) -> bool:
        """Return whether to stop reading: a pipe may stay open after the stream's end."""
        return outcome is not None and not os.path.isfile(self._file)

    def report_wrong_dialect(self, outcome: Outcome | None) -> None:
        """Report the detected dialect of a stream that was unreadable in the expected dialect."""
        # A stream that was read, or an error of the provider.
        if self.dialect is None or choose_exit_status(outcome) in (0, 1):
            return
        probe = decoder(framing=self.framing)
        probe.feed(self._head)
        known = lookup(self.dialect)
        if not probe.dialect:
            return
        found = lookup(probe.dialect)
        # A variant is read under the name of its dialect, too.
        if known.name not in (found.name, found.variant_of):
            console.print_error(
                f"read as {known.name}, it looks like {probe.dialect}: try --from {probe.dialect}"
            )

    def _read(self) -> Iterator[bytes]:
        with console.convert_os_errors(self.name), self._open() as file:
            chunk = _read_chunk(file)
            if chunk.startswith(_GZIP):
                raise NotAStream(
                    f"{self.name}: gzip data, expected what is in it: "
                    "gunzip -c FILE | streamnorm COMMAND -"
                )
            # 0 for a pipe, which has no end to wait for.
            size = os.fstat(file.fileno()).st_size if self.shows_progress else 0
            read = 0
            while chunk:
                yield chunk
                read += len(chunk)
                self._show_progress(read, len(chunk), size)
                chunk = _read_chunk(file)

    def _show_progress(self, read: int, added: int, size: int) -> None:
        """Show the percentage of a large file that was read, if it has changed; remove it at 100.

        Args:
            read: Bytes of the file that were read.
            added: How many of them since the last call.
            size: Bytes of the file; 0 if they are unknown.
        """
        if size < _LARGE_BYTES or (percent := 100 * read // size) == 100 * (read - added) // size:
            return
        console.show_progress(f"{percent} % of {self.name[-60:]}" if percent < 100 else "")

    def _open(self) -> FileIO:
        return FileIO(0, closefd=False) if self._file == "-" else FileIO(self._file)

    def _load_companion(self) -> Companion:
        path = Path(self._file)
        # A JSON body, such as Gemini's array, may be named like a companion, and has none.
        is_bare = self._file.endswith(".json") and split_name(path)[1] is None
        if self._file == "-" or is_bare:
            return Companion(1)
        try:
            return load_companion(path)
        except RecordingError:
            if self.dialect is None and not _is_other_json(Path(split_name(path)[0] + ".json")):
                raise
            return Companion(1)

    def _find_framing(self) -> Framing:
        """Return the framing from the recording's companion file or the dialect."""
        stated = self._companion.framing
        path = Path(self._file)
        suffix = split_name(path)[1]
        if suffix == WS_MESSAGE.suffix:
            return WS_MESSAGE
        framing = framing_of(self.dialect, None if stated is UNSET else FRAMINGS.get(stated))
        # A file that is not there is reported where it is read.
        if suffix in STREAM_SUFFIXES and suffix != framing.suffix and path.exists():
            raise console.UsageError(
                f"{self._file}: a file {suffix} to be read in the framing {framing.name}, expected"
                " another --framing"
                f" ({', '.join(name for name, f in FRAMINGS.items() if f.suffix == suffix)})"
                " or dialect"
            )
        return framing


def _is_other_json(path: Path) -> bool:
    """Return whether a file is JSON that does not claim to be of a recording, as a request is."""
    try:
        value = _JSON.decode(read_bounded(path, Limits().max_companion_bytes))
    except (RecordingError, *FAST_ERRORS):
        return False
    return "streamnorm_recording" not in value


def _read_chunk(file: FileIO) -> bytes:
    """Return the next bytes; b"" at the end."""
    # A signal that comes just before a system call does not interrupt it: the interpreter learns
    # of it when the call returns.  Windows selects sockets alone.
    while sys.platform != "win32" and not select.select([file], [], [], _LONGEST_WAIT_S)[0]:
        pass
    return file.read(_CHUNK_BYTES)


def choose_exit_status(outcome: Outcome | None) -> int:
    """Return a command's exit status for a stream's outcome."""
    match outcome:
        case Failed(StreamError("upstream")):
            return 1
        case Failed():
            return 4
        case Truncated():
            return 3
        case _:
            return 0


def add_commands(add_parser: console.AddParser) -> None:
    """Add `transcode` and `decode`."""
    common = make_source_options()
    transcode = add_parser(
        "transcode",
        parents=[common],
        help="write the stream as another dialect's",
        description="Write the stream on stdout as it becomes known, losses on stderr.",
        epilog=console.format_statuses({**STATUSES, 5: "losses with --strict"}),
    )
    add_target_options(transcode, list_writable_dialects())
    transcode.add_argument(
        "--to-framing",
        type=parse_framing,
        metavar="NAME",
        help=f"how events stand in what is written: {', '.join(FRAMINGS)};"
        " default: that of the dialect",
    )
    transcode.add_argument(
        "--ordering",
        choices=("sequential", "interleaved"),
        default="sequential",
        help="one block at a time (default), or blocks as they come",
    )
    transcode.add_argument("--model", help="model to name in place of the one that answered")
    transcode.add_argument(
        "--normalize",
        action="store_true",
        help="write a stream of the same dialect anew (default: its bytes as they are)",
    )
    transcode.add_argument(
        "--reasoning",
        choices=_REASONING,
        default="reasoning_content",
        help="field of Chat Completions for reasoning (default: reasoning_content), or none",
    )
    transcode.add_argument(
        "--no-usage", action="store_true", help="leave the tokens out of Chat Completions"
    )
    transcode.set_defaults(run=_transcode)
    decode = add_parser(
        "decode",
        parents=[common],
        help="write the stream's events",
        description="Write events on stdout as they become known, one a line.",
        epilog=console.format_statuses(STATUSES),
    )
    decode.add_argument("--json", action="store_true", help="write JSON lines")
    decode.set_defaults(run=_decode)


def _check_framing(dialect: str, framing: Framing | None) -> None:
    """Raise `UsageError` if no server sends the dialect in a framing."""
    known = lookup(dialect)
    endpoints = known.endpoints
    spoken = {known.framing, endpoints.socket_framing} - {None}
    spoken |= {route.framing for route in endpoints.routes} - {None}
    if framing is not None and framing not in spoken:
        names = [name for name, each in FRAMINGS.items() if each in spoken]
        raise console.UsageError(
            f"--to-framing: no framing of {known.name}, expected {' or '.join(names)}"
        )


def _transcode(arguments: argparse.Namespace) -> int:
    source = Source(arguments.file, arguments.source, arguments.server, arguments.framing)
    _check_framing(arguments.to, arguments.to_framing)
    transcoder = Transcoder(
        source.dialect,
        arguments.to,
        ordering=arguments.ordering,
        strict=arguments.strict,
        server=source.server,
        think_tags=arguments.think_tags,
        model=arguments.model,
        verbatim=not arguments.normalize,
        include_usage=not arguments.no_usage,
        reasoning=_REASONING[arguments.reasoning],
        framing=source.framing,
        to_framing=arguments.to_framing,
    )
    for chunk in source.read_chunks():
        console.write(transcoder.feed(chunk))
        if source.has_ended(transcoder.outcome):
            break
    console.write(transcoder.close())
    console.report_losses(transcoder.losses)
    return _report_outcome(transcoder.outcome, source)


def _decode(arguments: argparse.Namespace) -> int:
    source = Source(arguments.file, arguments.source, arguments.server, arguments.framing)
    decoding = decoder(
        source.dialect,
        server=source.server,
        think_tags=arguments.think_tags,
        framing=source.framing,
    )
    line = console.encode_json if arguments.json else _encode_event
    for chunk in source.read_chunks():
        console.write([line(event) for event in decoding.feed(chunk)])
        if source.has_ended(decoding.outcome):
            break
    console.write([line(event) for event in decoding.close()])
    return _report_outcome(decoding.outcome, source)


def _encode_event(event: Event) -> bytes:
    fields = msgspec.to_builtins(event)
    name = fields.pop("event")
    shown = " ".join(f"{key}={msgspec.json.encode(item).decode()}" for key, item in fields.items())
    return console.encode_text(f"{name:<16} {shown}".rstrip())


def _report_outcome(outcome: Outcome | None, source: Source) -> int:
    """Report a failed or truncated outcome; return the exit status."""
    report_failure(outcome)
    source.report_wrong_dialect(outcome)
    return choose_exit_status(outcome)


def report_failure(outcome: Outcome | None) -> None:
    """Report a failed or truncated outcome; nothing for any other."""
    match outcome:
        case Failed(StreamError("upstream", message, code, status)):
            about = ", ".join(str(part) for part in (code, status) if part is not None)
            console.print_error(
                f"the provider reported an error{f' ({about})' if about else ''}: {message}"
            )
        case Failed(StreamError(message=message, code=code)) if code == NOT_A_STREAM:
            console.print_error(f"no stream of a known dialect: {message}")
        case Failed(error):
            console.print_error(f"{error.kind.replace('_', ' ')}: {error.message}")
        case Truncated(error):
            console.print_error(f"truncated: {error.message}")
        case _:
            pass
