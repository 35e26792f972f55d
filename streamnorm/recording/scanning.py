"""Search for secrets in recordings, cassettes and HAR files."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from msgspec import Struct

from streamnorm._core.codec.message_layout import ChunkContent
from streamnorm._core.errors import RecordingError
from streamnorm._core.json import is_array, is_object
from streamnorm._core.limits import Limits
from streamnorm.eventstream import EventStreamDecoder
from streamnorm.recording.format import read_bounded
from streamnorm.recording.importing.entries import MAX_FILE_DEPTH, Unreadable, read_json, read_yaml
from streamnorm.recording.secrets.credentials import (
    decode_container,
    find_in_header,
    find_in_json,
    find_in_url,
    is_secret_field_of,
    is_secret_header,
)
from streamnorm.recording.secrets.patterns import Secret, find_fields, find_tokens

_MAX_DECODED_BYTES = Limits().max_companion_bytes
_READ_BYTES = 1024 * 1024
# As for a `Scrubber`: no secret is longer, and no lookbehind.
_LOOKAHEAD = 8 * 1024
_CONTEXT = 128
_MESSAGES = ".eventstream"
# Less specific kinds: a key of a known shape may stand at the same offset.
_GENERAL = ("bearer token", "secret field")

_URL_FIELDS = frozenset({"uri", "url"})
_TEXT_FIELDS = frozenset({"body", "content", "string", "text"})
_PARAMETER_FIELDS = frozenset({"params", "querystring"})

_SHORTEST = 6
# Texts that people and tools write instead of a secret.
_REPLACED = re.compile(
    r"[xX*•.]+|.*(?:\$\{|\{\{|<|(?i:censored|dummy|example|fake|filtered|hidden|masked|not-needed"
    r"|placeholder|redacted|removed|sanitized|scrubbed|test-?(?:api-?)?key|x{8}|your[_-])).*",
    re.DOTALL,
)
# A longer name with digits might be a key.
_NAME = re.compile("[A-Za-z_-]{1,40}|[A-Za-z_][A-Za-z0-9_-]{0,14}")


class Finding(Struct, frozen=True):
    """The position and kind of a secret in a file, without the secret.

    Attributes:
        file: The file.
        place: Line and column in bytes, the number of a message, or the path of a field.
        kind: Kind of the secret, such as `JSON Web Token`.
    """

    file: Path
    place: str
    kind: str


def find_files(path: Path) -> Iterator[Path]:
    """Yield the regular files in a directory tree, sorted by name; or only `path` if it is a file.

    Hidden directories are omitted, and links are not followed.

    Raises:
        OSError: The path or a directory below it cannot be read.
    """
    if not path.is_dir():
        yield path
        return
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith("."):
                yield from find_files(path / entry.name)
        elif entry.is_file(follow_symlinks=False):
            yield path / entry.name


def scan_file(path: Path) -> Iterator[Finding]:
    """Yield the secrets in a file, in order.

    Keys and tokens of a known shape are found anywhere, also in the base64 of an event stream of
    AWS, whose messages are counted from 0.  In JSON and YAML, values are found at
    positions that are known to hold credentials, too, unless the file is too large to decode.

    Raises:
        OSError: The file cannot be read, or it is an event stream too large to decode, of which
            all but the base64 was searched.
    """
    known: set[bytes] = set()
    with path.open("rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return
        for place, value, kind in _find_shapes(file):
            known.add(value)
            yield Finding(path, place, kind)
    if path.suffix == _MESSAGES:
        yield from _find_in_messages(path)
    yield from _find_at_positions(path, known)


def _find_in_messages(path: Path) -> Iterator[Finding]:
    """Yield the secrets in the Base64 text of an AWS event stream's messages."""
    try:
        data = read_bounded(path, _MAX_DECODED_BYTES)
    except RecordingError as exc:
        # Nobody is to take it for clean.
        raise OSError(errno.EFBIG, str(exc).removeprefix(f"{path}: ")) from exc
    decoder = EventStreamDecoder()
    payloads = [message.payload for message in decoder.feed(data)]
    # Behind them may be a message that is cut or damaged, and any others behind it.
    for number, payload in enumerate([*payloads, data[decoder.offset :]]):
        for text in ChunkContent().find_encoded(payload):
            size = len(text)
            for secret in (*find_tokens(text, 0, size), *find_fields(text, 0, size)):
                if not is_replaced(text[secret.start : secret.end].decode(errors="replace")):
                    yield Finding(path, f"message {number}", secret.kind)


def _find_shapes(file: BinaryIO) -> Iterator[tuple[str, bytes, str]]:
    """Yield the position, value and kind of each secret with a known shape."""
    places = _LineCounter()
    data, low = b"", 0
    last = Secret(0, 0, "")
    while low < len(data) or not data:
        piece = file.read(_READ_BYTES)
        data += piece
        high = max(low, len(data) - _LOOKAHEAD) if piece else len(data)
        found = (*find_tokens(data, low, high), *find_fields(data, low, high))
        for secret in sorted(found, key=lambda found: (found.start, found.kind in _GENERAL)):
            value = data[secret.start : secret.end]
            # A private key is found line by line.
            is_next_line = (
                secret.kind == last.kind == "private key" and secret.start <= last.end + 2
            )
            is_new = secret.start >= last.end and not is_next_line
            last = Secret(secret.start, max(last.end, secret.end), secret.kind)
            if is_new and not is_replaced(value.decode(errors="replace")):
                yield places.locate(data, secret.start), value, secret.kind
        if not piece and high == len(data):
            return
        cut = max(0, high - _CONTEXT)
        places.advance(data, cut)
        data, low = data[cut:], high - cut
        last = Secret(last.start - cut, last.end - cut, last.kind)


class _LineCounter:
    """Converter of offsets to lines and columns, in a file read in pieces."""

    def __init__(self) -> None:
        self._line = 1
        self._column = 1  # of the first byte held

    def locate(self, data: bytes, at: int) -> str:
        """Return the line and column of an offset."""
        line, column = self._count(data, at)
        return f"line {line}, column {column}"

    def advance(self, data: bytes, size: int) -> None:
        """Move the start of `data` forward by `size` bytes."""
        self._line, self._column = self._count(data, size)

    def _count(self, data: bytes, size: int) -> tuple[int, int]:
        lines = data.count(b"\n", 0, size)
        if not lines:
            return self._line, self._column + size
        return self._line + lines, size - data.rindex(b"\n", 0, size)


def _find_at_positions(path: Path, known: set[bytes]) -> Iterator[Finding]:
    """Yield the credentials at known positions, except those in `known`."""
    reported: set[tuple[str, str]] = set()
    for place, kind, value in find_credentials(_decode_file(path)):
        octets = value.encode(errors="replace")
        is_known = any(secret in octets or octets in secret for secret in known)
        if not is_known and (place, kind) not in reported:
            yield Finding(path, place, kind)
        reported.add((place, kind))


def _decode_file(path: Path) -> Any:
    """Return the content of a JSON or YAML file; None if it is invalid or too large."""
    try:
        data = read_bounded(path, _MAX_DECODED_BYTES)
        if path.suffix.lower() in (".yaml", ".yml"):
            return read_yaml(data, max_depth=MAX_FILE_DEPTH)
        if data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"[")):
            return read_json(data, max_depth=MAX_FILE_DEPTH)
    except (RecordingError, Unreadable, ModuleNotFoundError):
        # Without PyYAML, of the extra `import`, a cassette is searched as text.
        return None
    return None


class Credential(NamedTuple):
    """A credential found at a known position.

    Attributes:
        path: The position, as `request.headers.x-api-key`.
        kind: Kind of the position, such as `cookie`.
        value: The credential.
    """

    path: str
    kind: str
    value: str


def find_credentials(value: Any) -> Iterator[Credential]:
    """Yield the credentials in a file's decoded JSON or YAML, in order."""
    for position in _find_in_value(value, ""):
        if len(position.value) >= _SHORTEST and not is_replaced(position.value):
            yield position


def is_replaced(value: str) -> bool:
    """Return whether a value is a placeholder of a secret, such as `xxxxxxxx` or `REDACTED`."""
    return _REPLACED.fullmatch(value) is not None


def _find_in_value(value: Any, path: str) -> Iterator[Credential]:
    if is_array(value):
        for number, item in enumerate(value):
            yield from _find_in_value(item, f"{path}[{number}]")
    elif is_object(value):
        for number, (name, item) in enumerate(value.items()):
            where = _join_path(path, name, number)
            # Other URLs are those of pictures and citations.
            if "method" in value and name.lower() in _URL_FIELDS and isinstance(item, str):
                found = find_in_url(item, is_secret=_is_secret_parameter)
                yield from _place_credentials(where, "credential in a URL", found)
            else:
                yield from _find_in_field(value, name, item, where)


def _find_in_field(owner: dict[str, Any], name: str, value: Any, path: str) -> Iterator[Credential]:
    lower = name.lower()
    if is_secret_field_of(owner, name):
        found = find_in_json({"type": owner.get("type"), name: value})
        yield from _place_credentials(path, "secret field", found)
    elif lower.endswith("headers"):
        for where, header, text in _read_pairs(value, path):
            if not is_replaced(text):
                yield from _place_credentials(
                    where, "credential in a header", find_in_header(header, text)
                )
    elif lower == "cookies":
        for where, _, text in _read_pairs(value, path):
            yield Credential(where, "cookie", text)
    elif lower in _PARAMETER_FIELDS:
        for where, parameter, text in _read_pairs(value, path):
            if _is_secret_parameter(parameter):
                yield Credential(where, "credential in a URL", text)
    elif lower in _TEXT_FIELDS and isinstance(value, str):
        # A text may be JSON, such as a body in a cassette.
        yield from _place_credentials(path, "secret field", find_in_json(decode_container(value)))
    else:
        yield from _find_in_value(value, path)


def _read_pairs(value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the path, name and value of headers and similar pairs, in any tool's format."""
    if is_object(value):
        for number, (name, item) in enumerate(value.items()):
            for text in item if is_array(item) else [item]:
                if isinstance(text, str):
                    yield _join_path(path, name, number), name, text
    elif is_array(value):
        for number, item in enumerate(value):
            match item:
                case {"name": str(name), "value": str(text)}:
                    yield f"{path}[{number}]", name, text
                case _:
                    pass


def _place_credentials(path: str, kind: str, values: Iterable[str]) -> Iterator[Credential]:
    """Yield the distinct values found at one position as credentials, longest first."""
    for value in sorted(dict.fromkeys(values), key=len, reverse=True):
        yield Credential(path, kind, value)


def _is_secret_parameter(name: str) -> bool:
    return is_secret_header(name) or name.lower() in ("sig", "x-amz-signature")


def _join_path(path: str, name: str, number: int) -> str:
    """Return a field's path, with a number for a name that may be a secret."""
    if not _NAME.fullmatch(name):
        return f"{path}[{number}]"
    return f"{path}.{name}" if path else name
