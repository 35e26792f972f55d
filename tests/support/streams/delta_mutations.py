"""Mutations of one delta that a line or JSON parser may notice.

A mutation returns the chunks that replace an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from support.bodies.json_mutations import json_mutations
from support.streams.delta_pieces import MARK

__all__ = ["damaged_bytes", "other_payloads", "other_spellings"]

_Mutation: TypeAlias = Callable[[bytes], list[bytes]]

_TEXT = f'"{MARK}"'.encode()

_INSERTED = (*b'"\\{}[],: \t\r\n\0x1', 0x1B, 0x7F, 0x80, 0xC3, 0xEF, 0xFF)


def damaged_bytes(event: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yield an event with one byte deleted, inserted, repeated or flipped."""
    for at, byte in enumerate(event):
        before, behind = event[:at], event[at + 1 :]
        yield f"deleted at {at}", [before + behind]
        yield f"cut at {at}", [before]
        for other in (byte, *_INSERTED):
            yield f"{bytes([other])!r} inserted at {at}", [before + bytes([other]) + event[at:]]
        for bit in range(8):
            flipped = bytes([byte ^ 1 << bit])
            yield f"{flipped!r} at {at}", [before + flipped + behind]


def other_payloads(event: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yield an event with one change in its JSON."""
    start, end = event.index(b"{"), event.rindex(b"}") + 1
    for name, changed in json_mutations(event[start:end].decode()):
        yield name, [event[:start] + changed.encode() + event[end:]]


def other_spellings(event: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yield an event with another spelling, framing or extra lines."""
    for name, mutation in _SPELLINGS.items():
        chunks = mutation(event)
        if chunks != [event]:
            yield name, chunks


def _text(new: bytes) -> _Mutation:
    """Return a mutation that replaces the text and its quotes."""
    return lambda event: [event.replace(_TEXT, new)]


def _texts(*new: bytes) -> _Mutation:
    """Return a mutation to several events, one with each text."""
    return lambda event: [event.replace(_TEXT, b'"' + text + b'"') for text in new]


def _before(*other: bytes) -> _Mutation:
    return lambda event: [*other[:-1], other[-1] + event]


def _behind(other: bytes) -> _Mutation:
    return lambda event: [event + other]


def _ending(new: bytes) -> _Mutation:
    """Return a mutation that replaces the line ends at the event's end."""
    return lambda event: [event.rstrip(b"\r\n") + new]


def _lines(change: Callable[[list[bytes]], list[bytes]], end: bytes = b"\n") -> _Mutation:
    """Return a mutation that changes the lines."""
    return lambda event: [b"".join(line + end for line in [*change(event.splitlines()[:-1]), b""])]


def _replaced(old: bytes, new: bytes, count: int = -1) -> _Mutation:
    return lambda event: [event.replace(old, new, count)]


def _named(name: bytes | None) -> _Mutation:
    """Return the event with another event name, or without one."""

    def change(lines: list[bytes]) -> list[bytes]:
        rest = [line for line in lines if not line.startswith(b"event:")]
        return rest if name is None else [b"event: " + name, *rest]

    return _lines(change)


def _recased(case: Callable[[bytes], bytes]) -> _Mutation:
    """Return the event with field names in another case."""

    def change(lines: list[bytes]) -> list[bytes]:
        fields = (line.partition(b":") for line in lines)
        return [case(name) + colon + value for name, colon, value in fields]

    return _lines(change)


def _over_lines(event: bytes, cut: bytes) -> list[bytes]:
    """Return the event with its payload on two data lines."""
    return [event.replace(cut, b"\ndata: " + cut, 1)]


def _without_end(event: bytes) -> list[bytes]:
    return [event.rstrip(b"\r\n")]


_AROUND_TEXT = {
    f"{name} {place} the text": _text(data + _TEXT if place == "before" else _TEXT + data)
    for place in ("before", "behind")
    for name, data in {
        "CR": b"\r",
        "LF": b"\n",
        "CRLF": b"\r\n",
        "space": b" ",
        "tab": b"\t",
        "NUL": b"\0",
        "form feed": b"\f",
        "BOM": b"\xef\xbb\xbf",
        "comma": b",",
        "colon": b":",
        "quote": b'"',
        "two quotes": b'""',
        "brace": b"}",
        "braces": b"}}",
        "bracket": b"]",
        "backslash": b"\\",
        "letter": b"x",
        "invalid UTF-8": b"\xff",
        "another text": b'"x"',
        "comment": b"//x",
    }.items()
}

_WITHIN_TEXT = {
    f"{name} within the text": _text(b'"a' + data + b'b"')
    for name, data in {
        "CR": b"\r",
        "LF": b"\n",
        "blank line": b"\n\n",
        "blank line and data": b"\n\ndata: ",
        "tab": b"\t",
        "NUL": b"\0",
        "control": b"\x1f",
        "DEL": b"\x7f",
        "C1 control": b"\xc2\x85",
        "line separator": b"\xe2\x80\xa8",
        "BOM": b"\xef\xbb\xbf",
        "0xFF": b"\xff",
        "half a sequence": b"\xc3",
        "overlong sequence": b"\xc0\x80",
        "surrogate as UTF-8": b"\xed\xa0\xbd",
        "beyond Unicode": b"\xf4\x90\x80\x80",
        "quote": b'"',
        "escaped quote": b'\\"',
        "escaped end": b'\\"}}\\n\\n',
        "escaped slash": b"\\/",
        "escaped NUL": b"\\u0000",
        "escaped letter": b"\\u0041",
        "pair": b"\\ud83d\\ude00",
        "pair in capitals": b"\\uD83D\\uDE00",
        "high surrogate": b"\\ud83d",
        "low surrogate": b"\\ude00",
        "swapped pair": b"\\ude00\\ud83d",
        "unknown escape": b"\\x41",
        "short escape": b"\\u12",
        "braces": b"}}}",
        "10 kB": b"x" * 10_000,
        "10 kB of escapes": b"\\n" * 5_000,
        "10 kB of four bytes each": "😀".encode() * 2_500,
    }.items()
}

_WHOLE_TEXTS = {
    "empty": _text(b'""'),
    "twenty empty ones": _texts(*[b""] * 20),
    "no text": _text(b""),
    "null": _text(b"null"),
    "a number": _text(b"1"),
    "a list": _text(b'["a"]'),
    "an object": _text(b'{"text":"a"}'),
    "single quotes": _text(b"'a'"),
    "white space": _text(b'" \\n\\t"'),
    "opening brace": _text(b'"{"'),
    "closing brace": _text(b'"}"'),
    "closing quote and brace": _text(b'"\\"}"'),
    "a whole object": _text(b'"{\\"a\\":1}"'),
    "empty object": _text(b'"{}"'),
    "ends in a backslash": _text(b'"a\\\\"'),
    "ends in an open escape": _text(b'"a\\"'),
    "pair over two": _texts(b"\\ud83d", b"\\ude00"),
    "pair over two with text around": _texts(b"a\\ud83d", b"\\ude00b"),
    "pair over two with an empty one between": _texts(b"\\ud83d", b"", b"\\ude00"),
    "high surrogate without its low one": _texts(b"a\\ud83d", b"b"),
    "low surrogate alone": _texts(b"\\ude00", b"b"),
    "two high surrogates": _texts(b"\\ud83d", b"\\ud83d", b"\\ude00"),
    "character over two": _texts(b"a\xc3", b"\xa9b"),
    "twice": _texts(MARK.encode(), MARK.encode()),
    "large and small in turn": _texts(b"x" * 5_000, b"y", b"z" * 5_000, b""),
    "end of the arguments": _texts(b'\\"}', b""),
    "white space behind the arguments": _texts(b'\\"}', b" ", b"\\n"),
    "more behind the arguments": _texts(b'\\"}', b"x"),
    "arguments again": _texts(b'\\"}', b"{"),
}

_BLANK_LINES = (
    *(b"", b"\n", b"\r", b"\r\n", b"\n\r\n", b"\r\n\n", b"\r\r", b"\r\n\r\n", b"\n\n\n", b"\n \n"),
    *(b"\n \n\n", b"\n\t\n\n", b"\n\0\n\n", b"\n\n ", b" \n\n", b"\t\n\n", b"\x0b\n\n"),
)
_LAST_LINES = (
    *(b": hi", b":", b"data", b"data:", b"data: ", b"data: {}", b"id: 7", b"id", b"foo", b"foo: 1"),
    *(b"retry: 10", b"retry: x", b"event: error", b"event: ping", b"event:", b"event"),
    *(b"error: boom", b'error: {"message":"boom"}', b'{"error":"boom"}'),
)
_JUNK = (
    *(b"}", b"}}}", b"]", b"x", b'"', b",", b"\0", b"{}", b"null", b"\xff", b"\\", b"//"),
    *(b" " * 300, b"}" + b" " * 300),
)
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_KEEPALIVE = b'event: keepalive\ndata: {"type":"keepalive"}\n\n'
_ERROR = b'event: error\ndata: {"type":"error","error":{}}\n\n'
_BEFORE = (
    *(b"\n", b"\n\n", b"\r", b"\r\n", b" ", b"\t", b"\0", b"\xef\xbb\xbf", b"\xff", b"x"),
    *(b": hi\n", b": hi\n\n", b":\n\n", b":" + b"x" * 300 + b"\n", b"id: 1\n", b"id: a\0b\n"),
    *(b"id\n", b"id: 1\n\n", b"retry: 3\n", b"retry: 3\n\n", b"retry: -1\n", b"event: error\n"),
    *(b"event: error\n\n", b"event: ping\n", b"event: message\n", b"event\n", b"event: \n"),
    *(b"data\n", b"data: \n", b"data: {}\n\n", b"data: \n\n", b"data\n\n", b"data: null\n\n"),
    *(b"data: x\n", b"data: {\n", b"data: [DONE]\n", _PING, _KEEPALIVE, _ERROR),
    *(b"error: boom\n", b"error: boom\n\n", b'{"error":"boom"}\n', b"<html>\n"),
)
_CHUNKS_BEFORE = (
    *(b"", b"\n", b": hi\n\n", b":", b"d", b"\xef", b"id: 1\n", b"event: ping\n", b"data: {}\n\n"),
    *(_PING, _KEEPALIVE),
)
_BEHIND = (
    *(b"\n", b"\r", b"\r\n", b"d", b": hi", b": hi\n\n", b"id: 1\n\n", b"event: error\n"),
    *(b"data: ", b"data: [DONE]\n\n", b'data: {"error":{"message":"boom"}}\n\n'),
    *(b"error: boom\n\n", b"\xef\xbb\xbf", b"\0", _PING, _ERROR),
)

_BESIDE = {
    **{f"ends in {end!r}": _ending(end) for end in _BLANK_LINES},
    **{f"{line!r} as its last line": _ending(b"\n" + line + b"\n\n") for line in _LAST_LINES},
    **{f"{junk!r} behind its JSON": _ending(junk + b"\n\n") for junk in _JUNK},
    **{f"{data!r} before": _before(data) for data in _BEFORE},
    **{f"{data!r} before, as a chunk": _before(data, b"") for data in _CHUNKS_BEFORE},
    **{f"{data!r} behind": _behind(data) for data in _BEHIND},
}

_FIELDS = {
    "CRLF": _lines(list, b"\r\n"),
    "CR": _lines(list, b"\r"),
    "LF": _lines(list, b"\n"),
    "CRLF but for the blank line": lambda e: [e.strip().replace(b"\n", b"\r\n") + b"\r\n\n"],
    "no space behind data": _replaced(b"data: ", b"data:"),
    "no space behind event": _replaced(b"event: ", b"event:"),
    "two spaces behind data": _replaced(b"data: ", b"data:  "),
    "a tab behind data": _replaced(b"data: ", b"data:\t"),
    "two spaces behind event": _replaced(b"event: ", b"event:  "),
    "a space before the colon": _replaced(b"data:", b"data :"),
    "a space before data": _replaced(b"data:", b" data:"),
    "capitals": _recased(bytes.upper),
    "first letters in capitals": _recased(bytes.capitalize),
    "a name within data": _replaced(b"data: ", b"data: data: "),
    "no name": _named(None),
    "named message": _named(b"message"),
    "named error": _named(b"error"),
    "named ping": _named(b"ping"),
    "named with a NUL": _named(b"x\0y"),
    "named behind the data": _lines(lambda lines: lines[::-1]),
    "named twice": _lines(lambda lines: [b"event: error", *lines]),
    "payload twice": _lines(lambda lines: [*lines, lines[-1]]),
    "payload in two lines at a comma": partial(_over_lines, cut=b","),
    "payload in two lines before the text": partial(_over_lines, cut=_TEXT),
    "payload in two lines within the text": partial(_over_lines, cut=MARK.encode()),
    "payload in two lines at its end": partial(_over_lines, cut=b"}"),
}

_CHUNKS: dict[str, _Mutation] = {
    "missing": lambda event: [],
    "twice": lambda event: [event, event],
    "five times": lambda event: [event] * 5,
    "twice in one chunk": lambda event: [event + event],
    "halves": lambda event: [event[: len(event) // 2], event[len(event) // 2 :]],
    "without its end": _without_end,
    "without its end, and again": lambda event: [*_without_end(event), event],
    "empty chunks": lambda event: [b"", event, b"", b""],
}

_SPELLINGS: dict[str, _Mutation] = {
    **_AROUND_TEXT,
    **_WITHIN_TEXT,
    **_WHOLE_TEXTS,
    **_BESIDE,
    **_FIELDS,
    **_CHUNKS,
}
