"""Exchanges in memory, and the format of their files: a body and its companion files.

`NAME.sse` is the exact body of a stream after content decoding, so that framing bugs
reproduce, a person can read it, and `curl -N … > x.sse` is already a recording.  A body
that is no stream is `NAME.body.json`, or `NAME.body.bin` if it is no JSON.  A stream in the
messages of AWS (`application/vnd.amazon.eventstream`) is `NAME.eventstream`; its companion
states the framing, unless the dialect has no other.  The answer to a create on a WebSocket is
`NAME.ws.jsonl`, a message a line.

`NAME.json` is optional and holds everything else, as JSON indented by two spaces:

    {
      "streamnorm_recording": 1,          version of the format
      "dialect": "openai_chat",           or null
      "framing": "invoke_chunks",         only if it is not the framing of the dialect
      "server": "openai",                 or null
      "provenance": "recorded",           or "written": no server sent it
      "request": {
        "method": "POST",
        "url": "https://api.openai.com/v1/chat/completions",
        "headers": {"content-type": "application/json"},
        "body": {"model": "…"}            its JSON; or "text" for other text, or
      },                                  "bytes" (a count) and "sha256" for one that is not
                                          stored; none of them if bodies of requests are not
                                          recorded
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

An answer that had no content type has `"content_type": null` beside its headers.  Recordings
without headers and without that are replayed with the content type of their suffix.

`end` is how the body ended: `eof` completely, `reset` when the connection broke, `timeout`
when the client's read timed out, `aborted` when the client stopped reading, `incomplete`
when not all of it could be written.  A server that closed a WebSocket in the middle of a response
has a `close_code` beside it.

The request of a `NAME.ws.jsonl` has a URL that begins with `ws`, the headers of the handshake, and
the create as its body; `sent` holds what else the client sent meanwhile, as
`{"after": 5, "data": {"type": "response.steer", …}}` behind five messages of the server.

`NAME.events.jsonl` may hold the events that the body is expected to decode to, one a line.

Unknown fields are refused, and so is what cannot be replayed, a file larger than its bound,
and one that is no regular file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from streamnorm._core.codec.endpoints import Cloud
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.codec.websocket_messages import WS_MESSAGE
from streamnorm._core.errors import RecordingError, did_you_mean
from streamnorm._core.json import FAST_ERRORS, compact, too_deep
from streamnorm._core.limits import Limits
from streamnorm._registry import DIALECTS, FRAMINGS

PlaybackEnd: TypeAlias = Literal["eof", "reset", "timeout"]
"""How a playback ends: completely, by a broken connection, or by silence."""

End: TypeAlias = Literal["eof", "reset", "timeout", "aborted", "incomplete"]
"""How a body ended."""

Provenance: TypeAlias = Literal["recorded", "written"]
"""Whether a server sent the bytes, or somebody wrote them."""

Suffix: TypeAlias = Literal[".sse", ".eventstream", ".ws.jsonl", ".body.json", ".body.bin"]
"""Suffix of the file that holds the body."""

# An interim response (1xx) is followed by the one that is recorded.
MIN_STATUS = 200
MAX_STATUS = 599
WITHOUT_BODY = (204, 304)  # RFC 9110 §6.4.1

CONTENT_TYPES: dict[Suffix, str] = {
    ".sse": "text/event-stream",
    ".eventstream": "application/vnd.amazon.eventstream",
    ".ws.jsonl": WS_MESSAGE.media_type,
    ".body.json": "application/json",
    ".body.bin": "application/octet-stream",
}
"""Content type of a body by the suffix of its file."""


class WireRequest(Struct, frozen=True):
    """A request as sent, with credentials: never to be stored or shown.

    Attributes:
        method: HTTP method.
        url: The whole URL.
        headers: Pairs of name and value, in order; a name may occur twice.
        body: The whole body; None if it is not known, as that of an upload before it is sent.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = b""

    def __repr__(self) -> str:
        return f"WireRequest({self.method!r}, …)"


class Step(Struct, frozen=True, gc=False):
    """One chunk of a played body, with the delay before it.

    Attributes:
        delay_s: Recorded seconds since the chunk before; divided by the speed.
        data: The bytes.
        stall_s: Seconds that a fault adds before the chunk.  At speed 0 no time passes: they
            only decide whether the reader would have timed out.
    """

    delay_s: float
    data: bytes
    stall_s: float = 0.0


class Playback(Struct, frozen=True):
    """The answer to one request.

    Attributes:
        status: HTTP status.
        headers: Headers by lower-case name.
        steps: The chunks of the body.
        end: How the body ends after the last chunk.
        dialect: Name of the dialect; None if unknown.
        framing: How events stand in the body, if it is a stream.
        cloud: Cloud that answers, in whose form its errors are; None for the vendor.
        close_code: Code with which the server closes a WebSocket behind the body, if it does not
            end as `eof`; None if it has none.
    """

    status: int
    headers: Mapping[str, str]
    steps: tuple[Step, ...]
    end: PlaybackEnd = "eof"
    dialect: str | None = None
    framing: Framing = SSE
    cloud: Cloud | None = None
    close_code: int | None = None

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join([step.data for step in self.steps])


class Responder(Protocol):
    """Answers requests from recordings or a script.

    Transports, the ASGI application and the command line's server pass requests to it.  Its
    methods may be called from several threads.
    """

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the answer to a request.

        Raises:
            UnrecordedRequest: There is none.
        """
        ...


class SentMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """A WebSocket message that the client sent during an answer.

    Attributes:
        after: Number of messages of the server that preceded it.
        data: The JSON; a text if it was none.
    """

    after: int
    data: Any


class RecordedRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A recorded request, without secrets.

    Attributes:
        method: HTTP method.
        url: URL without userinfo, fragment and all query parameters not known to be public.
        headers: Headers known to be public, by lower-case name.
        body: The decoded JSON body.
        text: The body, if it is text but no JSON.
        bytes: Size of a body that is not stored.
        sha256: Digest of a body that is not stored, without its multipart boundary and the
            credentials of the exchange; None if the body was not read.
        sent: What the client sent later, on a WebSocket, in order.
    """

    method: str
    url: str
    headers: dict[str, str]
    # UNSET is no body; None is the JSON value null.
    body: Any | UnsetType = UNSET
    text: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    sent: list[SentMessage] = []


class RecordedResponse(Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded response without its body.

    Attributes:
        status: HTTP status, 200 to 599.
        headers: Headers known to be public, by lower-case name.
        body: Suffix of the file that holds the body.
        end: How the body ended.
        close_code: Code with which the server closed the WebSocket before the response had ended.
        content_type: None if the response is known to have had none.
    """

    status: Annotated[int, Meta(ge=MIN_STATUS, le=MAX_STATUS)] = 200
    headers: dict[str, str] = {}
    body: Suffix = ".sse"
    end: End = "eof"
    close_code: int | UnsetType = UNSET
    content_type: UnsetType | None = UNSET


class Companion(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `NAME.json`, the companion file that describes a recorded body.

    The module's docstring describes the fields.
    """

    streamnorm_recording: Literal[1]
    dialect: str | None = None
    framing: str | UnsetType = UNSET
    server: str | None = None
    provenance: Provenance = "recorded"
    request: RecordedRequest | None = None
    response: RecordedResponse = RecordedResponse()
    redacted: int = 0
    chunks: list[str] | None = None


class RecordedRead(Struct, frozen=True):
    """Size and timing of the bytes that one read returned.

    Attributes:
        gap_ms: Milliseconds since the read before.
        size: Number of bytes.
    """

    gap_ms: int
    size: int

    def __str__(self) -> str:
        return f"+{self.gap_ms} {self.size}"


_COMPANION: msgspec.json.Decoder[Companion] = msgspec.json.Decoder(Companion)
# RFC 9110 §5.1 and §5.5: a token, and a value without control characters.  One that a server
# cannot send would fail each replay.
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\n(?:[^\0-\x20\x7f]+(?:[ \t]+[^\0-\x20\x7f]+)*)?")
_SIZE = re.compile("[0-9]{1,12}")
_CHUNK = re.compile(r"\+([0-9]{1,12}) ([0-9]{1,12})", re.ASCII)


def find_bad_header(headers: Mapping[str, str]) -> int | None:
    """Return the number of the first header that HTTP cannot carry; None if it can carry all."""
    for number, header in enumerate(headers.items()):
        if not _HEADER.fullmatch("{}\n{}".format(*header)):
            return number
    return None


def find_content_length(headers: Iterable[tuple[str, str]]) -> int | None:
    """Return the size of a body that its headers state, or None."""
    for name, value in headers:
        if name.lower() == "content-length" and _SIZE.fullmatch(value):
            return int(value)
    return None


def content_type_of(headers: Iterable[tuple[str, str]]) -> str:
    """Return a lower-case content type without parameters, or ""."""
    for name, value in headers:
        if name.lower() == "content-type":
            return value.partition(";")[0].strip().lower()
    return ""


def suffix_of(content_type: str, framing: Framing = SSE) -> Suffix | None:
    """Return the file suffix for a content type; None if the type is empty.

    Args:
        content_type: The content type.
        framing: Framing of the streams at the URL; further ones are no streams that can be read.
    """
    if not content_type:
        return None
    for each in (framing, SSE):
        if content_type == each.media_type:
            return each.suffix
    is_json = content_type == "application/json" or content_type.endswith("+json")
    return ".body.json" if is_json else ".body.bin"


def split_name(path: Path) -> tuple[str, Suffix | None]:
    """Return the path of a recording's files without the suffix, and the suffix.

    The suffix is None if the path is that of a companion, or the NAME alone.
    """
    text = str(path)
    for suffix in CONTENT_TYPES:
        if text.endswith(suffix):
            return text.removesuffix(suffix), suffix
    return text.removesuffix(".json"), None


STREAM_SUFFIXES = frozenset(framing.suffix for framing in FRAMINGS.values())
"""Suffixes of the files that hold streams."""


def own_framing(dialect: str | None, suffix: Suffix = SSE.suffix) -> Framing:
    """Return the default framing of a dialect's streams; a companion may name another."""
    if suffix == WS_MESSAGE.suffix:  # which no other framing has
        return WS_MESSAGE
    known = None if dialect is None else DIALECTS.get(dialect)
    return SSE if known is None else known.framing


def framing_name(dialect: str | None, framing: Framing, suffix: Suffix) -> str | UnsetType:
    """Return the framing name to write in a companion; UNSET if dialect and suffix imply it.

    Args:
        dialect: Name of the dialect; None if unknown.
        framing: Framing of the body, if it is a stream.
        suffix: Suffix of the body.
    """
    is_known = framing is own_framing(dialect, suffix) or suffix != framing.suffix
    return UNSET if is_known else framing.name


def framing_of(companion: Companion) -> Framing:
    """Return the framing of a recorded body.

    Raises:
        RecordingError: There is no such framing, or the body is in another.
    """
    body = companion.response.body
    framing = own_framing(companion.dialect, body)
    if companion.framing is not UNSET:
        found = FRAMINGS.get(companion.framing)
        if found is None:
            expected = f"one of {', '.join(FRAMINGS)}{did_you_mean(companion.framing, FRAMINGS)}"
            raise RecordingError(f"framing {companion.framing!r:.64}, expected {expected}")
        framing = found
    if body not in STREAM_SUFFIXES or body == framing.suffix:
        return framing
    if companion.dialect is None and companion.framing is UNSET:
        raise RecordingError("an event stream alone, expected NAME.json with framing or dialect")
    raise RecordingError(f"framing {framing.name} of a body {body}, expected {framing.suffix}")


def check_path(path: Path | str) -> Path:
    """Return a path, checked to be one that a file can have.

    Raises:
        RecordingError: It holds a NUL, or a surrogate that stands for no byte.
    """
    try:
        is_valid = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise RecordingError(f"{str(path)!r}: a path that no file can have")
    return Path(path)


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file, within a bound.

    Raises:
        RecordingError: It cannot be read, is no regular file, or is larger than `max_bytes`.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            # Opening a FIFO waits for its writer, and a device may have no end.
            raise RecordingError(f"{path}: not a regular file")
        if found.st_size > max_bytes:
            raise RecordingError(f"{path}: {found.st_size} bytes, expected at most {max_bytes}")
        with path.open("rb") as file:
            # `read` allocates the requested size in advance.
            data = file.read(found.st_size + 1)
    except OSError as exc:
        raise RecordingError(f"{path}: {exc.strerror}") from exc
    if len(data) > found.st_size:
        raise RecordingError(f"{path}: more than {found.st_size} bytes, it is being written")
    return data


def decode_companion(
    data: bytes, path: Path, limits: Limits
) -> tuple[Companion, list[RecordedRead] | None]:
    """Decode the content of `NAME.json`, with the sizes and times of the reads.

    Raises:
        RecordingError: It is not of this format.
    """
    try:
        # Editors on Windows write a byte order mark.
        companion = _COMPANION.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except FAST_ERRORS as exc:
        # msgspec's text has fields, types and the path; a value only of a literal type.
        raise RecordingError(f"{path}: no companion of a recording: {exc}") from exc
    request = companion.request
    if request is not None and too_deep(request.body, limits.max_json_depth):
        raise RecordingError(f"{path}: nested deeper than {limits.max_json_depth}")
    if (number := find_bad_header(companion.response.headers)) is not None:
        raise RecordingError(f"{path}: header {number} of the response is no HTTP header")
    try:
        framing_of(companion)
    except RecordingError as exc:
        raise RecordingError(f"{path}: {exc}") from exc
    return companion, reads_of(companion, path)


def reads_of(companion: Companion, path: Path) -> list[RecordedRead] | None:
    """Return the sizes and times of the reads in a companion; None if they are unknown.

    Raises:
        RecordingError: A line is no read.
    """
    if companion.chunks is None:
        return None
    reads: list[RecordedRead] = []
    for number, line in enumerate(companion.chunks):
        match = _CHUNK.fullmatch(line)
        if match is None:
            raise RecordingError(f'{path}: chunk {number} is not as "+<ms> <bytes>"')
        reads.append(RecordedRead(int(match[1]), int(match[2])))
    return reads


def write_companion(file: BinaryIO, companion: Companion, chunks: Iterable[str] | None) -> None:
    """Write `NAME.json`; equal content gives equal bytes.

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
