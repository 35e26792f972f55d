"""WebSocket transcripts of other tools: one JSON line for each message.

    {"at": "handshake", "method": "GET", "path": "/v1/responses", "headers": {…}, "status": 101}
    {"at": "client", "data": {"type": "response.create", …}}
    {"at": "server", "data": {"type": "response.created", …}}
    {"at": "close", "by": "server", "code": 1011, "reason": ""}

A handshake that was refused has a `body`, and may be all; it may have a `url` in place of a `path`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamnorm._core.json import compact, is_object
from streamnorm.http.urls import dialect_of_url, is_websocket_url
from streamnorm.recording.conversations import SWITCHED, ConversationRecorder
from streamnorm.recording.format import MAX_STATUS, MIN_STATUS, End, SentMessage, WireRequest
from streamnorm.recording.importing.entries import (
    MAX_FILE_DEPTH,
    ForeignExchange,
    Unreadable,
    read_json,
)

_UNKNOWN_HOST = "wss://unknown.invalid"
_JSON = (("content-type", "application/json"),)


class _Exchange:
    """An exchange of a transcript."""

    def __init__(self, request: WireRequest) -> None:
        self._request = request
        self._headers: tuple[tuple[str, str], ...] = ()
        self._status = 0
        self._lines: list[bytes] = []
        self._sent: list[SentMessage] = []
        self._end: End = "incomplete"
        self._close_code: int | None = None

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        self._status, self._headers = status, tuple(headers)

    def write(self, data: bytes) -> None:
        self._lines.append(data)

    def add_sent(self, message: bytes) -> None:
        value = read_json(message, max_depth=MAX_FILE_DEPTH)
        self._sent.append(SentMessage(len(self._lines), value))

    def end(self, how: End, close_code: int | None = None) -> None:
        self._end, self._close_code = how, close_code

    def exchange(self) -> ForeignExchange:
        return ForeignExchange(
            self._request,
            self._status,
            self._headers,
            b"".join(self._lines),
            end=self._end,
            close_code=self._close_code,
            sent=tuple(self._sent),
        )


class _Exchanges:
    """Collector of the exchanges in a transcript."""

    def __init__(self) -> None:
        self.found: list[_Exchange] = []

    def start(self, request: WireRequest) -> _Exchange:
        self.found.append(_Exchange(request))
        return self.found[-1]


def is_transcript(data: bytes) -> bool:
    """Return whether the first line of a file is the first line of a transcript."""
    try:
        value = read_json(data.lstrip().partition(b"\n")[0], max_depth=MAX_FILE_DEPTH)
    except Unreadable:
        return False
    return is_object(value) and "at" in value


def read_transcript(data: bytes) -> list[ForeignExchange]:
    """Return the exchanges of a transcript, one for each `response.create` or refused handshake.

    Raises:
        Unreadable: It is no transcript.
    """
    lines = enumerate(data.splitlines(), 1)
    values = [(number, _object_in(line, number)) for number, line in lines if line.strip()]
    number, first = values[0]
    if first.get("at") != "handshake":
        raise Unreadable(f"line {number}: no handshake, expected one first")
    handshake = _handshake_of(first)
    if first.get("status") != SWITCHED:
        body = first.get("body")
        text = body if isinstance(body, str) else compact(body)
        status = first.get("status")
        if not isinstance(status, int) or not MIN_STATUS <= status <= MAX_STATUS:
            raise Unreadable(f"line {number}: a handshake without a status of a response")
        return [ForeignExchange(handshake, status, _JSON, text.encode(errors="replace"))]
    exchanges = _Exchanges()
    recorder = ConversationRecorder(exchanges, handshake, ())
    end: End = "incomplete"
    code: int | None = None
    for number, value in values[1:]:
        match value.get("at"):
            case "client":
                recorder.add_sent(compact(_data_of(value, number)))
            case "server":
                recorder.add_received(compact(_data_of(value, number)))
            case "close":
                is_server = value.get("by") == "server"
                end = "reset" if is_server else "aborted"
                found = value.get("code")
                code = found if is_server and isinstance(found, int) else None
            case _:
                raise Unreadable(f"line {number}: expected client, server or close")
    recorder.end(end, code)
    return [each.exchange() for each in exchanges.found]


def _handshake_of(value: dict[str, Any]) -> WireRequest:
    path, url, headers = value.get("path"), value.get("url"), value.get("headers")
    if not isinstance(url, str):
        url = f"{_UNKNOWN_HOST}{path}"
    if not is_websocket_url(url) or dialect_of_url(url) is None:
        raise Unreadable("a handshake at another path than that of a WebSocket of Responses")
    pairs = headers.items() if is_object(headers) else ()
    return WireRequest("GET", url, tuple((name, str(text)) for name, text in pairs), b"")


def _object_in(line: bytes, number: int) -> dict[str, Any]:
    try:
        value = read_json(line, max_depth=MAX_FILE_DEPTH)
    except Unreadable as exc:
        raise Unreadable(f"line {number}: {exc}") from exc
    if not is_object(value):
        raise Unreadable(f"line {number}: no JSON object")
    return value


def _data_of(value: dict[str, Any], number: int) -> Any:
    if not is_object(value.get("data")):
        raise Unreadable(f"line {number}: no JSON object as data")
    return value["data"]
