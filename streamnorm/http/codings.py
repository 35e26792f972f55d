"""Content codings of bodies (RFC 9110, section 8.4): zstd, gzip, deflate and br.

    decoder = ContentDecoder(content_codings(header), max_bytes)
    for chunk in chunks:
        for piece in decoder.feed(chunk):
            ...
    decoder.close()

A few bytes may stand for a gigabyte: a body is decoded in steps, and refused as soon as it is
larger than its bound.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from streamnorm._core.errors import RemoteProtocolError

CONTENT_ENCODING = "content-encoding"
"""Header that names the codings of a body."""

_NAMES = ("zstd", "gzip", "deflate", "br")  # in the order in which clients should prefer them
# RFC 9110, section 8.4.1.3.
_ALIASES = {"x-gzip": "gzip"}
# Names that change nothing.  Routes of Next.js, Express and Flask send `none` so that no proxy
# compresses their events (mattrobinsonsre/terrapod#71), others a charset, or a value of
# `content-transfer-encoding`; HTTP clients read such bodies as they are.
_UNCODED = frozenset(
    {"", "identity", "none", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1"}
    | {"7bit", "8bit", "binary"}
)
_STEP_BYTES = 256 * 1024
# Each member of gzip copies the input behind its end.
_SLICE_BYTES = 64 * 1024
# `bgzip` and `pzstd` write some hundreds into 32 MiB; empty ones would cost time alone.
_MAX_MEMBERS = 1024
_WINDOW_LOG = 23  # 8 MiB, which no encoder for HTTP may exceed: RFC 9659

Fault: TypeAlias = Literal["corrupt", "truncated", "trailing", "too_large"]


class CodingError(Exception):
    """A body cannot be decoded.

    Attributes:
        fault: Kind of the fault.  `truncated`: the body ends early; `trailing`: its end is
            followed by bytes that are no further member, or by more members than allowed.
    """

    def __init__(self, message: str, fault: Fault) -> None:
        super().__init__(message)
        self.fault: Fault = fault


def content_codings(header: str) -> list[str]:
    """Return the codings in a `content-encoding`, in the order of their application.

    Names are in lower case and without aliases; `identity` and other names that change nothing,
    such as `none`, are left out.
    """
    names = [name.strip().lower() for name in header.split(",")]
    return [_ALIASES.get(name, name) for name in names if name not in _UNCODED]


def supported_codings() -> tuple[str, ...]:
    """Return the supported codings, in the order of preference.

    Raises:
        ModuleNotFoundError: Before Python 3.14, backports.zstd is not installed; br is optional.
    """
    return tuple(name for name in _NAMES if _coding(name) is not None)


class ContentDecoder:
    """Incremental decoder of a body with one or more codings.

    Args:
        codings: Names of its supported codings, in the order in which they were applied.
        max_bytes: Bound on the decoded body, and on the output of each coding.
    """

    def __init__(self, codings: Sequence[str], max_bytes: int) -> None:
        self._stages = [CodingDecoder(name, max_bytes) for name in reversed(codings)]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded pieces of a chunk of the body.

        A piece may be empty: what one coding returns may be too little for the next.

        Raises:
            CodingError: By a step.
        """
        return _feed(self._stages, data)

    def close(self) -> None:
        """Check that the body is complete.

        Raises:
            CodingError: It ends early.
        """
        for stage in self._stages:
            stage.close()


class ResponseDecoder:
    """Incremental decoder of a provider's response body, as lenient as HTTP clients.

    Bytes behind the end are ignored, and a missing end is left to the reader of the body.  The
    size is not bounded, only that of a piece: the caller decides how much of the body it reads.

    Args:
        header: The response's `content-encoding`.

    Raises:
        RemoteProtocolError: It is neither gzip nor deflate, or more than one coding.
    """

    def __init__(self, header: str) -> None:
        codings = content_codings(header)
        # Only `identity` is asked for; what every client decodes is accepted nevertheless.
        if codings not in (["gzip"], ["deflate"]):
            raise RemoteProtocolError(
                "a content-encoding other than gzip and deflate, expected none"
            )
        self._decoder = CodingDecoder(
            codings[0], ignores_trailing=True, step_bytes=_RESPONSE_STEP_BYTES
        )

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the non-empty decoded pieces of a chunk of the body.

        Raises:
            RemoteProtocolError: By a step: the body is not of its coding.
        """
        try:
            for piece in self._decoder.feed(data):
                if piece:
                    yield piece
        except CodingError as exc:
            raise RemoteProtocolError(
                "a body that is not of its content-encoding, expected one that is"
            ) from exc


# One read of a provider should stay one read of its recording, so pieces are large.
_RESPONSE_STEP_BYTES = 1024 * 1024


class CodingDecoder:
    """Incremental decoder of a body with one coding.

    Args:
        name: Name of the coding.
        max_bytes: Bound on the decoded body.
        max_members: Bound on concatenated members of gzip, or frames of zstd.
        ignores_trailing: Whether bytes behind the first member are ignored.
        step_bytes: Bound on one piece.
    """

    def __init__(
        self,
        name: str,
        max_bytes: int = sys.maxsize,
        *,
        max_members: int = _MAX_MEMBERS,
        ignores_trailing: bool = False,
        step_bytes: int = _STEP_BYTES,
    ) -> None:
        coding = _coding(name)
        if coding is None:
            raise ValueError(f"coding {name!r}, expected one of {', '.join(supported_codings())}")
        self._name = name
        self._coding = coding
        self._max_bytes = max_bytes
        self._max_members = max_members
        self._ignores_trailing = ignores_trailing
        self._step_bytes = step_bytes
        self._slice_bytes = sys.maxsize if ignores_trailing else _SLICE_BYTES
        self._size = 0
        self._size_before = 0  # total output of earlier members
        self._members = 0
        self._member: _Member | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded pieces of a chunk of the body; pieces may be empty."""
        member = self._member
        for start in range(0, len(data), self._slice_bytes):
            rest = data[start : start + self._slice_bytes]
            while True:
                if member is None or (rest and member.is_ended):
                    if member is not None and self._ignores_trailing:
                        return  # zlib would accumulate the bytes
                    member = self._next_member(rest)
                try:
                    piece, rest = member.inflate(rest, self._step_bytes)
                except self._coding.error as exc:
                    raise self._error("corrupt", "a corrupt {} body, expected a valid one") from exc
                self._size += len(piece)
                if self._size > self._max_bytes:
                    found = f"a body that is too large, expected at most {self._max_bytes} bytes"
                    raise CodingError(found, "too_large")
                yield piece
                # A piece of less than a step is all that the input so far decodes to.
                if not rest and (len(piece) < self._step_bytes or member.is_ended):
                    break

    def close(self) -> None:
        """Check that the body is complete."""
        if self._member is None or not self._member.is_ended:
            raise self._error("truncated", "a {} body that ends early, expected its end")

    def _next_member(self, data: bytes) -> _Member:
        if self._members and not self._coding.repeats:
            raise CodingError(f"more than one {self._name} body, expected one", "trailing")
        if self._members >= self._max_members:
            found = f"a {self._name} body of more than {self._max_members} members, expected fewer"
            raise CodingError(found, "trailing")
        self._members += 1
        self._size_before = self._size
        self._member = member = self._coding.open(data)
        return member

    def _error(self, fault: Fault, message: str) -> CodingError:
        """Return the error for a fault in the current member, or in the bytes after a member."""
        is_trailing = self._members > 1 and self._size == self._size_before
        return CodingError(message.format(self._name), "trailing" if is_trailing else fault)


def _feed(stages: Sequence[CodingDecoder], data: bytes) -> Iterator[bytes]:
    if len(stages) == 1:
        return stages[0].feed(data)
    return _feed_all(stages, data)


def _feed_all(stages: Sequence[CodingDecoder], data: bytes) -> Iterator[bytes]:
    for piece in stages[0].feed(data):
        yield from _feed(stages[1:], piece)


# The codings


class _Member(Protocol):
    """Protocol of decoders of one complete unit of a coding: a gzip member or a zstd frame."""

    @property
    def is_ended(self) -> bool: ...

    def inflate(self, data: bytes, max_bytes: int) -> tuple[bytes, bytes]:
        """Return at most `max_bytes` of output, and the input that was not read.

        Called again with the rest while there is one, or the output is as long as the bound.
        """
        ...


class _Coding(NamedTuple):
    """A content coding.

    Attributes:
        open: Returns a member that begins with given data, which is not empty.
        error: Exception that a corrupt member raises.
        repeats: Whether a body may have several members.
    """

    open: Callable[[bytes], _Member]
    error: type[Exception]
    repeats: bool


def _coding(name: str) -> _Coding | None:
    """Return a coding by name; None if it is unknown or its package is missing."""
    match name:
        case "gzip":
            # RFC 1952, section 2.2: a file is a series of members.
            return _Coding(_gzip, zlib.error, repeats=True)
        case "deflate":
            return _Coding(_deflate, zlib.error, repeats=False)
        case "zstd":
            # RFC 8878, section 3: frames may follow one another.
            return _zstd()
        case "br":
            return _brotli()
        case _:
            return None


class _Zlib:
    """A gzip or deflate stream."""

    def __init__(self, window_bits: int) -> None:
        self._stream = zlib.decompressobj(window_bits)

    @property
    def is_ended(self) -> bool:
        return self._stream.eof

    def inflate(self, data: bytes, max_bytes: int) -> tuple[bytes, bytes]:
        stream = self._stream
        piece = stream.decompress(data, max_bytes)
        return piece, stream.unused_data if stream.eof else stream.unconsumed_tail


def _gzip(_: bytes) -> _Member:
    return _Zlib(zlib.MAX_WBITS | 16)


def _deflate(data: bytes) -> _Member:
    # Some clients and servers leave out the header of zlib.  The low half of its first byte is 8
    # (RFC 1950, section 2.2); a raw stream never begins so.
    has_header = data[0] & 0x0F == zlib.DEFLATED
    return _Zlib(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _zstd() -> _Coding:
    if sys.version_info >= (3, 14):  # pragma: no cover - one of both
        from compression import zstd
    else:  # pragma: no cover
        import backports.zstd as zstd
    options = {int(zstd.DecompressionParameter.window_log_max): _WINDOW_LOG}

    def open_frame(_: bytes) -> _Member:
        return _Zstd(zstd.ZstdDecompressor(options=options))

    return _Coding(open_frame, zstd.ZstdError, repeats=True)


class _Zstd:
    """A zstd frame."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def is_ended(self) -> bool:
        ended: bool = self._stream.eof
        return ended

    def inflate(self, data: bytes, max_bytes: int) -> tuple[bytes, bytes]:
        piece: bytes = self._stream.decompress(data, max_bytes)
        return piece, self._stream.unused_data


def _brotli() -> _Coding | None:
    try:
        module: Any = importlib.import_module("brotli")
        # Releases before 1.2 have no such option: they inflate whatever they get at once.
        module.Decompressor().process(b"", output_buffer_limit=1)
    except (ImportError, TypeError):
        return None

    def open_stream(_: bytes) -> _Member:
        return _Brotli(module.Decompressor())

    return _Coding(open_stream, module.error, repeats=False)


class _Brotli:
    """A br stream, after which no bytes may follow."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def is_ended(self) -> bool:
        ended: bool = self._stream.is_finished()
        return ended

    def inflate(self, data: bytes, max_bytes: int) -> tuple[bytes, bytes]:
        piece: bytes = self._stream.process(data, output_buffer_limit=max_bytes)
        return piece, b""
