"""Import of files of other tools, with the reader of cassettes of vcrpy and cassetter.

Both cassettes are a list of interactions, and differ in the bodies:

    vcrpy       request: body: text or bytes         response: body: {string: text or bytes},
                                                     or {base64_string: base64} in files of JSON
    cassetter   body: {type: json, content: value}   or text, binary (in hexadecimal), none

A widespread serializer for vcrpy writes `parsed_body: value` instead of a JSON body.  If only
the value of a JSON body is stored, its text is that of `json.dumps`, as when these tools replay.

Sources, read 2026-11-22: https://vcrpy.readthedocs.io and https://kludex.github.io/cassetter,
and what vcrpy 9.4.2 and cassetter 0.16.1 write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType

from streamnorm._core.errors import RecordingError
from streamnorm._core.json import InvalidJSON, compact, convert, is_array, is_object
from streamnorm._core.limits import Limits
from streamnorm.recording.format import WireRequest, check_path, read_bounded, split_name
from streamnorm.recording.importing.entries import (
    MAX_FILE_DEPTH,
    ForeignExchange,
    Unreadable,
    UnsupportedValue,
    check_exchange,
    decode_base64,
    decode_body,
    make_recording,
    read_json,
    read_yaml,
    resolve_scalars,
)
from streamnorm.recording.importing.har import export_har, read_har
from streamnorm.recording.importing.transcripts import is_transcript, read_transcript
from streamnorm.recording.recorder import Recorder, slug_of
from streamnorm.recording.recording import Recording

__all__ = ["export_har", "import_file"]

_LIMITS = Limits()


def import_file(
    path: Path | str,
    directory: Path | str,
    *,
    on_present: Callable[[Recording], None] | None = None,
    on_skipped: Callable[[int, str], None] | None = None,
) -> list[Recording]:
    """Import the exchanges of a cassette, HAR file or WebSocket transcript as recordings.

    Cassettes of vcrpy and cassetter are read, and transcripts as `transcripts` describes them.  The
    format is detected from the content, YAML or JSON from the suffix.  Secrets are removed as when
    a stream is recorded.  These formats have no reads and no timing, so neither have the
    recordings; a HAR file that `export_har` wrote gives the exported recordings.

    Args:
        path: The file.
        directory: Directory of the recordings; new ones are numbered after those in it.  An
            exchange with the request and the response of one of those is not written again.
        on_present: Called with each recording that was not written again.
        on_skipped: Called with the number, from 0, and the reason of each entry of a HAR file that
            is no HTTP exchange that can be replayed: a request without a response, a WebSocket, a
            `data:` URL, or a response whose body the file does not hold.

    Returns:
        The recordings, in the order of the file.

    Raises:
        RecordingError: The file cannot be read, holds something that is no HTTP exchange, or all
            of its entries are skipped; or a recording cannot be written.  In that case nothing
            is written.
        ModuleNotFoundError: PyYAML or the decoder of a body is not installed; both are of the
            extra `import`.
    """
    path, directory = check_path(path), check_path(directory)
    data = read_bounded(path, _LIMITS.max_companion_bytes)
    try:
        exchanges = list(_read_exchanges(data, path, on_skipped or (lambda number, reason: None)))
        recordings = [make_recording(exchange) for exchange in exchanges]
    except Unreadable as exc:
        raise RecordingError(f"{path}: {exc}") from exc
    _save(recordings, directory, on_present or (lambda recording: None))
    return recordings


def _read_exchanges(
    data: bytes, path: Path, on_skipped: Callable[[int, str], None]
) -> Iterator[ForeignExchange]:
    if is_transcript(data):
        return iter(read_transcript(data))
    is_yaml = _is_yaml(data, path)
    value = (read_yaml if is_yaml else read_json)(data, max_depth=MAX_FILE_DEPTH)
    if is_object(value) and "interactions" in value:
        return read_cassette(value, _LIMITS.max_recording_bytes)
    if is_object(value) and "log" in value and not is_yaml:
        return read_har(value, path, _LIMITS, on_skipped)
    raise Unreadable("neither a cassette of version 1 nor a HAR file")


def _is_yaml(data: bytes, path: Path) -> bool:
    if path.suffix.lower() in (".yaml", ".yml"):
        return True
    return not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def _save(
    recordings: list[Recording], directory: Path, on_present: Callable[[Recording], None]
) -> None:
    """Save the recordings that the directory lacks; after an error, remove all of them again."""
    present = _find_saved(directory, {len(recording.body) for recording in recordings})
    recorder = Recorder(directory)
    saved: list[tuple[str, Recording]] = []
    try:
        for recording in recordings:
            same = present.get(_identify(recording))
            if same:
                recording.path = same.pop(0)
                on_present(recording)
                continue
            # The recorded URL has no secrets, which a path may contain.
            url = "" if recording.request is None else recording.request.url
            name = recorder.take_name(slug_of(url))
            saved.append((name, recording))
            recording.save(name + recording.response.body)
    except RecordingError:
        for name, recording in saved:
            for suffix in (recording.response.body, ".json"):
                with suppress(OSError):
                    Path(name + suffix).unlink()
        raise


def _find_saved(directory: Path, sizes: set[int]) -> dict[tuple[str, bytes], list[Path]]:
    """Return the saved recordings whose body sizes are among `sizes`, by `_identify` key."""
    present: dict[tuple[str, bytes], list[Path]] = {}
    with suppress(OSError):  # there is no such directory yet
        for path in sorted(directory.iterdir()):
            if split_name(path)[1] is None or path.stat().st_size not in sizes:
                continue
            with suppress(RecordingError):  # a damaged recording is no copy
                present.setdefault(_identify(Recording.load(path)), []).append(path)
    return present


def _identify(recording: Recording) -> tuple[str, bytes]:
    """Return a key of a recording's request and response, equal for copies."""
    return compact([recording.request, recording.response]), recording.body


T = TypeVar("T")

# Other keys hold what is no HTTP exchange, such as `ws_interactions`.
_KNOWN = {"version", "interactions", "recorded_with", "metadata"}


class _CassetteRequest(Struct):
    method: str
    uri: str
    headers: Any = None
    body: Any = None
    parsed_body: Any | UnsetType = UNSET


class _CassetteResponse(Struct):
    status: Any = None
    headers: Any = None
    body: Any = None
    parsed_body: Any | UnsetType = UNSET
    # As vcrpy before 6 wrote the responses of httpx.
    status_code: int | None = None
    content: Any = None


class _CassetteInteraction(Struct):
    request: _CassetteRequest
    response: _CassetteResponse
    recorded_at: Any = None


class _Cassette(Struct):
    version: int
    interactions: list[_CassetteInteraction]


class _CassetteStatus(Struct):
    code: int


def read_cassette(value: dict[str, Any], max_bytes: int) -> Iterator[ForeignExchange]:
    """Yield the exchanges of a cassette in recorded order.

    Cassettes of vcrpy are in that order; cassetter sorts interactions, and stores their times.

    Args:
        value: The content of the file.
        max_bytes: Bound on the decoded bodies together, in bytes.

    Raises:
        Unreadable: It is no cassette, or an interaction is no HTTP exchange.
    """
    for key in value:
        if key not in _KNOWN and value[key]:
            raise Unreadable("a cassette that holds more than HTTP interactions")
    cassette = _convert(value, _Cassette)
    if cassette.version != 1:
        raise Unreadable(f"a cassette of version {cassette.version}, expected 1")
    for number, interaction in _sort_by_time(cassette.interactions):
        try:
            exchange = check_exchange(_read_interaction(interaction, max_bytes))
        except Unreadable as exc:
            raise Unreadable(f"interactions[{number}]: {exc}") from exc
        max_bytes -= len(exchange.body)
        yield exchange


def _sort_by_time(
    interactions: list[_CassetteInteraction],
) -> list[tuple[int, _CassetteInteraction]]:
    """Return interactions with their positions in the file, sorted by time if all have times."""
    numbered = list(enumerate(interactions))
    try:
        times = [datetime.fromisoformat(item.recorded_at) for item in interactions]
        return sorted(numbered, key=lambda pair: times[pair[0]])
    except (TypeError, ValueError):  # missing, no time, or only some with an offset
        return numbered


def _read_interaction(interaction: _CassetteInteraction, max_bytes: int) -> ForeignExchange:
    asked, response = interaction.request, interaction.response
    headers = _read_headers(response.headers)
    # `str` turns `PlainScalar` into str.
    method, url = str(asked.method), str(asked.uri)
    request = WireRequest(method, url, _read_headers(asked.headers), _read_request_body(asked))
    return ForeignExchange(
        request, _read_status(response), headers, _read_response_body(response, headers, max_bytes)
    )


def _read_status(response: _CassetteResponse) -> int:
    if response.status_code is not None:
        return response.status_code
    if is_object(response.status):
        return _convert(response.status, _CassetteStatus).code
    return _convert(response.status, int)


def _read_headers(value: Any) -> tuple[tuple[str, str], ...]:
    """Return headers as pairs, from a mapping to single values or lists."""
    if value is None:
        return ()
    if not is_object(value):
        raise Unreadable("headers that are no mapping")
    return tuple(
        (name, _read_header(item))
        for name, items in value.items()
        for item in (items if is_array(items) else [items])
    )


def _read_header(value: Any) -> str:
    match value:
        case bytes():
            return value.decode("latin-1")
        case str():
            return str(value)
        case _:
            raise Unreadable("a header that is no text")


def _read_request_body(request: _CassetteRequest) -> bytes | None:
    if request.parsed_body is not UNSET:
        return _encode_json(request.parsed_body)
    if isinstance(request.body, UnsupportedValue):
        return None  # an upload, which vcrpy stores as a Python object
    body = _read_body(request.body)
    return body.encode() if isinstance(body, str) else body


def _read_response_body(
    response: _CassetteResponse, headers: tuple[tuple[str, str], ...], max_bytes: int
) -> bytes:
    if response.parsed_body is not UNSET:
        body = _encode_json(response.parsed_body)
    else:
        stored = _read_body(response.content if response.body is None else response.body)
        # A text is not compressed, whatever its headers say.
        body = (
            stored.encode() if isinstance(stored, str) else decode_body(stored, headers, max_bytes)
        )
    if len(body) > max_bytes:
        raise Unreadable("bodies that are too large together")
    return body


def _read_body(body: Any) -> str | bytes:
    """Return a stored body of vcrpy or cassetter, as text or bytes."""
    if is_object(body):
        if body.keys() == {"type"} or body.keys() == {"type", "content"}:
            return _read_typed_body(body["type"], body.get("content"))
        if body.keys() <= {"base64_string", "encoding"} and "base64_string" in body:
            return decode_base64(str(body["base64_string"]), "a body")
        if "string" not in body:
            return _encode_json(body)
        body = body["string"]
    match body:
        case None:
            return b""
        case str():
            return str(body)
        case bytes():
            return body
        case _:
            raise Unreadable("a body that is neither text nor bytes")


def _read_typed_body(kind: Any, content: Any) -> str | bytes:
    """Return a stored body of cassetter."""
    match kind:
        case "none":
            return b""
        case "json":
            return _encode_json(content)
        case "text" if content is None or isinstance(content, str):
            return str(content or "")
        case "binary" if isinstance(content, str):
            try:
                return bytes.fromhex(content)
            except ValueError as exc:
                raise Unreadable("a binary body that is not hexadecimal") from exc
        case _:
            raise Unreadable("a body that is not of type json, text, binary or none")


def _encode_json(value: Any) -> bytes:
    return json.dumps(resolve_scalars(value)).encode()


def _convert(value: Any, type: type[T]) -> T:
    try:
        return convert(value, type)
    except InvalidJSON as exc:
        raise Unreadable(f"no cassette: {exc}") from exc
