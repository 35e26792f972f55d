"""Compressed bodies of requests: zstd, gzip, deflate, and br where it is installed.

    decoder = body_decoder(headers, max_bytes)
    for chunk in chunks:
        for piece in decoder.feed(chunk):
            ...
    decoder.close()

A few bytes may stand for a gigabyte, so a body is inflated in steps, and refused as soon as it
is larger than its bound.  Codings: RFC 9110, section 8.4; the window of zstd: RFC 9659.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from streamnorm._upstream.requests import RequestRefused

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import backports.zstd as zstd


ENCODING = "content-encoding"
"""Header that names the codings of a body."""


_ALIASES = {"x-gzip": "gzip"}
_MAX_CODINGS = 2  # one by the client, one by a proxy
# What a step returns.  Other requests are answered between two steps.
_STEP_BYTES = 256 * 1024
# What a step is given: each member of gzip copies the rest of it.
_SLICE_BYTES = 64 * 1024
# `bgzip` and `pzstd` write some hundreds into 32 MiB; empty ones would cost time alone.
_MAX_MEMBERS = 1024
_WINDOW_LOG = 23  # 8 MiB, which no encoder for HTTP may exceed


class BodyDecoder:
    """Decodes a body step by step.

    Args:
        codings: Names of its codings, in the order in which they were applied.
        max_bytes: Bound on the decoded body, and on what each coding but the first inflates.
    """

    def __init__(self, codings: Sequence[str], max_bytes: int) -> None:
        self._inflaters = [_Inflater(name, max_bytes) for name in reversed(codings)]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces that a chunk of the body decodes to; a piece may be empty.

        Raises:
            RequestRefused: The body is corrupt, or larger than its bound.
        """
        return _feed(self._inflaters, data)

    def close(self) -> None:
        """Handle the end of the body.

        Raises:
            RequestRefused: It ends early.
        """
        for inflater in self._inflaters:
            inflater.close()


def body_decoder(headers: Mapping[str, str], max_bytes: int) -> BodyDecoder | None:
    """Return the decoder of a body; None if the body is not compressed.

    Args:
        headers: Headers of the request, names in lower case.
        max_bytes: Bound on the decoded body.

    Raises:
        RequestRefused: It has a coding that is not supported, or too many of them.
    """
    names = [name.strip().lower() for name in headers.get(ENCODING, "").split(",")]
    codings = [_ALIASES.get(name, name) for name in names if name not in ("", "identity")]
    if not codings:
        return None
    supported = ", ".join(_CODINGS)
    accepted = {"accept-encoding": supported}
    if any(name not in _CODINGS for name in codings):
        found = f"a {ENCODING} that is not supported, expected one of {supported}"
        raise RequestRefused(found, 415, headers=accepted)
    if len(codings) > _MAX_CODINGS:
        found = f"{len(codings)} codings of a body, expected at most {_MAX_CODINGS}"
        raise RequestRefused(found, 415, headers=accepted)
    return BodyDecoder(codings, max_bytes)


def too_large(max_bytes: int) -> RequestRefused:
    """Return the refusal of a body above its bound."""
    return RequestRefused(
        f"a body that is too large, expected at most {max_bytes} bytes",
        413,
        headers={"connection": "close"},
    )


class _Inflater:
    """Decodes one coding."""

    def __init__(self, name: str, max_bytes: int) -> None:
        self._name = name
        self._coding = _CODINGS[name]
        self._max_bytes = max_bytes
        self._size = 0
        self._members = 0
        self._member: _Member | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _SLICE_BYTES):
            try:
                yield from self._inflate(data[start : start + _SLICE_BYTES])
            except self._coding.error as exc:
                raise RequestRefused(f"a corrupt {self._name} body, expected a valid one") from exc

    def close(self) -> None:
        if self._member is None or not self._member.is_ended:
            raise RequestRefused(f"a {self._name} body that ends early, expected its end")

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        while True:
            member = self._member
            if member is None or (member.is_ended and data):
                member = self._next_member(data)
            piece, data = member.inflate(data)
            self._size += len(piece)
            if self._size > self._max_bytes:
                raise too_large(self._max_bytes)
            yield piece
            if not data and (member.is_ended or not piece):
                return

    def _next_member(self, data: bytes) -> _Member:
        if self._members and not self._coding.repeats:
            raise RequestRefused(f"more than one {self._name} body, expected one")
        if self._members >= _MAX_MEMBERS:
            found = f"a {self._name} body of more than {_MAX_MEMBERS} members"
            raise RequestRefused(f"{found}, expected fewer")
        self._members += 1
        self._member = member = self._coding.open(data)
        return member


def _feed(inflaters: Sequence[_Inflater], data: bytes) -> Iterator[bytes]:
    if not inflaters:
        yield data
        return
    for piece in inflaters[0].feed(data):
        yield from _feed(inflaters[1:], piece)


# The codings


class _Member(Protocol):
    """A complete stream of a coding: a member of gzip, or a frame of zstd."""

    @property
    def is_ended(self) -> bool: ...

    def inflate(self, data: bytes) -> tuple[bytes, bytes]:
        """Return some output, and the data that was not read.

        To be called again with the rest until there is neither.
        """
        ...


class _Coding(NamedTuple):
    """A coding.

    Attributes:
        open: Returns a member that begins with given data, which is not empty.
        error: What inflating a corrupt one raises.
        repeats: Whether a body may have several members.
    """

    open: Callable[[bytes], _Member]
    error: type[Exception]
    repeats: bool


class _Zlib:
    """A stream of gzip or deflate."""

    def __init__(self, window_bits: int) -> None:
        self._stream = zlib.decompressobj(window_bits)

    @property
    def is_ended(self) -> bool:
        return self._stream.eof

    def inflate(self, data: bytes) -> tuple[bytes, bytes]:
        stream = self._stream
        piece = stream.decompress(data, _STEP_BYTES)
        return piece, stream.unused_data if stream.eof else stream.unconsumed_tail


class _Zstd:
    """A frame of zstd."""

    def __init__(self) -> None:
        options = {int(zstd.DecompressionParameter.window_log_max): _WINDOW_LOG}
        self._stream = zstd.ZstdDecompressor(options=options)

    @property
    def is_ended(self) -> bool:
        return self._stream.eof

    def inflate(self, data: bytes) -> tuple[bytes, bytes]:
        return self._stream.decompress(data, _STEP_BYTES), self._stream.unused_data


class _Brotli:
    """A stream of br, which is corrupt if anything follows its end."""

    def __init__(self, module: Any) -> None:
        self._stream = module.Decompressor()

    @property
    def is_ended(self) -> bool:
        ended: bool = self._stream.is_finished()
        return ended

    def inflate(self, data: bytes) -> tuple[bytes, bytes]:
        piece: bytes = self._stream.process(data, output_buffer_limit=_STEP_BYTES)
        return piece, b""


def _zstd(_: bytes) -> _Member:
    return _Zstd()


def _gzip(_: bytes) -> _Member:
    return _Zlib(zlib.MAX_WBITS | 16)


def _deflate(data: bytes) -> _Member:
    # Some clients leave out the header of zlib, of whose first byte half is 8.
    has_header = data[0] & 0x0F == zlib.DEFLATED
    return _Zlib(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _codings() -> dict[str, _Coding]:
    """Return the codings by name, those first that clients should prefer."""
    codings = {
        "zstd": _Coding(_zstd, zstd.ZstdError, repeats=True),
        "gzip": _Coding(_gzip, zlib.error, repeats=True),
        "deflate": _Coding(_deflate, zlib.error, repeats=False),
    }
    try:
        module: Any = importlib.import_module("brotli")
        # Releases before 1.2 have no such option: they inflate whatever they get at once.
        module.Decompressor().process(b"", output_buffer_limit=1)
    except (ImportError, TypeError):
        return codings

    def open_brotli(_: bytes) -> _Member:
        return _Brotli(module)

    return codings | {"br": _Coding(open_brotli, module.error, repeats=False)}


_CODINGS = _codings()
