"""The file format of a recording: one exchange as a body and its companions.

`NAME.sse` is the exact body of a stream after content decoding, so that framing bugs
reproduce, a person can read it, and `curl -N … > x.sse` is already a recording.  A body
that is no stream is `NAME.body.json`, or `NAME.body.bin` if it is no JSON.

`NAME.json` is optional and holds everything else, as JSON indented by two spaces:

    {
      "streamnorm_recording": 1,          version of the format
      "dialect": "openai_chat",           or null
      "server": "openai",                 or null
      "provenance": "recorded",           or "written": no server sent it
      "request": {
        "method": "POST",
        "url": "https://api.openai.com/v1/chat/completions",
        "headers": {"content-type": "application/json"},
        "body": {"model": "…"}            its JSON; or "text" for other text, or
      },                                  "bytes" (a count) for a body that is not stored
      "response": {
        "status": 200,
        "headers": {"content-type": "text/event-stream"},
        "body": ".sse",                   a suffix, never a path
        "end": "eof"
      },
      "redacted": 0,                      how many secrets were replaced by "x"
      "chunks": ["+412 321", "+35 36"]    one read each: ms since the read before, bytes
    }

The first gap starts when the request was sent.  The sizes add up to that of the body.
Without `chunks`, each event is a read, and takes no time.  A secret is replaced by as many
"x" as it has bytes, so that the sizes of the reads stay the same.

`end` is how the body ended: `eof` completely, `reset` when the connection broke, `timeout`
when the client's read timed out, `aborted` when the client stopped reading, `incomplete`
when not all of it could be written.

`NAME.events.jsonl` may hold the events that the body is expected to decode to, one a line.

Unknown fields are refused, and so is a file larger than its bound.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from streamnorm._core.errors import RecordingError
from streamnorm._core.json import FAST_ERRORS, compact, too_deep
from streamnorm._core.limits import Limits

__all__ = [
    "Companion",
    "End",
    "Provenance",
    "RecordedRead",
    "RecordedRequest",
    "RecordedResponse",
    "Suffix",
    "decode_companion",
    "read_bounded",
    "reads_of",
    "replace_file",
    "split_name",
    "write_companion",
]

End: TypeAlias = Literal["eof", "reset", "timeout", "aborted", "incomplete"]
"""How a body ended."""

Provenance: TypeAlias = Literal["recorded", "written"]
"""Whether a server sent the bytes, or somebody wrote them."""

Suffix: TypeAlias = Literal[".sse", ".body.json", ".body.bin"]
"""Suffix of the file that holds the body."""

_SUFFIXES: tuple[Suffix, ...] = (".sse", ".body.json", ".body.bin")


class RecordedRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request as it is stored: without secrets.

    Attributes:
        method: HTTP method.
        url: URL without userinfo, fragment and all query parameters not known to be public.
        headers: Headers known to be public, by lower-case name.
        body: The decoded JSON body.
        text: The body, if it is text but no JSON.
        bytes: Size of a body that is not stored.
    """

    method: str
    url: str
    headers: dict[str, str]
    # UNSET is no body; None is the JSON value null.
    body: Any | UnsetType = UNSET
    text: str | None = None
    bytes: int | None = None


class RecordedResponse(Struct, frozen=True, forbid_unknown_fields=True):
    """A response without the bytes of its body.

    Attributes:
        status: HTTP status.
        headers: Headers known to be public, by lower-case name.
        body: Suffix of the file that holds the body.
        end: How the body ended.
    """

    status: int = 200
    headers: dict[str, str] = {}
    body: Suffix = ".sse"
    end: End = "eof"


class Companion(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `NAME.json`; the module's docstring describes the fields."""

    streamnorm_recording: Literal[1]
    dialect: str | None = None
    server: str | None = None
    provenance: Provenance = "recorded"
    request: RecordedRequest | None = None
    response: RecordedResponse = RecordedResponse()
    redacted: int = 0
    chunks: list[str] | None = None


class RecordedRead(Struct, frozen=True):
    """One read.

    Attributes:
        gap_ms: Milliseconds since the read before.
        size: Number of bytes.
    """

    gap_ms: int
    size: int

    def __str__(self) -> str:
        return f"+{self.gap_ms} {self.size}"


_COMPANION: msgspec.json.Decoder[Companion] = msgspec.json.Decoder(Companion)
_CHUNK = re.compile(r"\+([0-9]{1,12}) ([0-9]{1,12})", re.ASCII)


def split_name(path: Path) -> tuple[str, Suffix | None]:
    """Return the NAME that all files of a recording share, with its folder, and the suffix.

    The suffix is None if the path is that of a companion, or the NAME alone.
    """
    text = str(path)
    for suffix in _SUFFIXES:
        if text.endswith(suffix):
            return text.removesuffix(suffix), suffix
    return text.removesuffix(".json"), None


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file.

    Raises:
        RecordingError: It cannot be read, or is larger than `max_bytes`.
    """
    try:
        with path.open("rb") as file:
            # `read` allocates the requested size in advance.
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, max_bytes) + 1)
    except OSError as exc:
        raise RecordingError(f"{path}: {exc.strerror}") from exc
    if len(data) > max_bytes:
        raise RecordingError(f"{path}: more than {max_bytes} bytes")
    return data


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file completely or not at all.

    Raises:
        OSError: It cannot be written.
    """
    part = Path(f"{path}.part")
    try:
        with part.open("wb") as out:
            write(out)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def decode_companion(
    data: bytes, path: Path, limits: Limits
) -> tuple[Companion, list[RecordedRead] | None]:
    """Return the content of `NAME.json`, and its reads.

    Raises:
        RecordingError: It is not of this format.
    """
    try:
        companion = _COMPANION.decode(data)
    except FAST_ERRORS as exc:
        # msgspec's text has fields, types and the path; a value only of a literal type.
        raise RecordingError(f"{path}: no companion of a recording: {exc}") from exc
    request = companion.request
    if request is not None and too_deep(request.body, limits.max_json_depth):
        raise RecordingError(f"{path}: nested deeper than {limits.max_json_depth}")
    return companion, reads_of(companion, path)


def reads_of(companion: Companion, path: Path) -> list[RecordedRead] | None:
    """Return the reads of a companion; None if they are unknown.

    Raises:
        RecordingError: A line is no read.
    """
    if companion.chunks is None:
        return None
    return [_chunk(line, n, path) for n, line in enumerate(companion.chunks)]


def _chunk(line: str, number: int, path: Path) -> RecordedRead:
    match = _CHUNK.fullmatch(line)
    if match is None:
        raise RecordingError(f'{path}: chunk {number} is not as "+<ms> <bytes>"')
    return RecordedRead(int(match[1]), int(match[2]))


def write_companion(file: BinaryIO, companion: Companion, chunks: Iterable[str] | None) -> None:
    """Write `NAME.json`: the same bytes for the same content.

    Args:
        file: File to write to.
        companion: The content; its `chunks` are ignored.
        chunks: A line `+35 36` for each read, in batches of any number of lines, so that
            they need not all be in memory; None if there are none.
    """
    fields: dict[str, Any] = msgspec.to_builtins(companion)
    del fields["chunks"]
    head = msgspec.json.format(compact(fields), indent=2)
    file.write(head.removesuffix("\n}").encode())
    if chunks is not None:
        file.write(b',\n  "chunks": [')
        separator = "\n"
        for lines in chunks:
            items = lines.rstrip("\n").replace("\n", '",\n    "')
            file.write(f'{separator}    "{items}"'.encode())
            separator = ",\n"
        file.write(b"]" if separator == "\n" else b"\n  ]")
    file.write(b"\n}\n")
