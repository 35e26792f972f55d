"""Records of logged streams, and the protocol of log stores.

A stream has one *epoch*: the run of its one producer.  Of an epoch the store has its reads, which
are numbered from 1 and of which the first is the `Origin`; and one `Ending`, after which nothing is
stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    cast,
)

import msgspec
from msgspec import Meta, Struct, structs

from streamnorm._core.codec.endpoints import BEDROCK
from streamnorm._core.codec.framing import Framing
from streamnorm._core.errors import StoreError
from streamnorm._core.events import USAGE_COUNTS, Usage
from streamnorm._registry import FRAMINGS
from streamnorm.aio import pump

if TYPE_CHECKING:
    from streamnorm._transcoder import WriterOptions

State: TypeAlias = Literal[
    "running", "complete", "failed", "truncated", "cancelled", "expired", "unknown"
]
"""State of a stream.

`running`: its producer has not ended.  `complete`, `failed` and `truncated` are the outcomes of
its message; of a stream whose producer died it is `truncated`.  `cancelled`: by a caller.
`expired`: it was stored, and its time has passed; `unknown`: nothing is known of it.
"""

Cause: TypeAlias = Literal["eof", "timeout", "undecodable", "lost"]
"""How the source of a stream ended.

`eof`: completely.  `timeout`: by silence.  `undecodable`: its content coding was damaged.  `lost`:
in any other way.
"""

Key: TypeAlias = tuple[str, str]
"""Scope and id of a stream."""

Streams: TypeAlias = Mapping[str, Key]
"""Streams by the epochs that they are expected to have."""

NO_READS = 1 << 53
"""A position behind all reads."""

FORMAT = 1
"""Version of what is stored; a store of another one is refused."""

_MAX_COUNT = (1 << 63) - 1

LOST = "the store has lost what was stored of the stream"
_DAMAGED = "the store holds a damaged stream"
# Of a response the decoder reads the framing, and the id of a message that has none.
_HEADERS = frozenset({BEDROCK.request_id_header}).union(
    *(framing.headers for framing in FRAMINGS.values())
)


class Origin(Struct, frozen=True, array_like=True):
    """Origin of a stream: everything but the source's bytes that determines what readers get.

    Attributes:
        dialect: Dialect of the source; None if it is detected.
        server: Name of its server.
        framing: Name of its framing; None for that of the dialect.
        think_tags: Whether `<think>…</think>` is reasoning.
        minted_id: Id of a message that its provider gives none.
        reply: What the request has changed, as JSON; None if nothing.
        status: HTTP status of the response; None if the source is none, as for what follows.
        content_type: The `content-type`.
        error_type: Type of the error that a header states.
        headers: The headers that a stream depends on, by lower-case name.
        to: Dialect that it was asked for in; None if that is for each reader to say.
        options: The options of its writer then, as `pack_options` returned them.
        format: Version of what is stored.
        created: When the source was opened, in seconds since 1970; None of a stream of an older
            release.
    """

    dialect: str | None = None
    server: str | None = None
    framing: str | None = None
    think_tags: bool = False
    minted_id: str = ""
    reply: bytes | None = None
    status: int | None = None
    content_type: str | None = None
    error_type: str | None = None
    headers: dict[str, str] = {}
    to: str | None = None
    options: bytes = b"{}"
    format: int = FORMAT
    created: float | None = None


class Ending(Struct, frozen=True, array_like=True):
    """The end of a stream.

    Attributes:
        state: The state from then on.
        cause: How the source ended.
        reason: What stopped or damaged it, for the reader: a clause without data of the stream;
            "" if nothing is known.
        usage: The usage by then, without the vendor's own fields.
        response: Fields of the response that its last event has in place of the origin's.
    """

    state: State
    cause: Cause
    reason: str = ""
    usage: Usage | None = None
    response: dict[str, Any] = {}


class Record(Struct, frozen=True):
    """A store's record of a stream, without the bytes of the stream.

    Attributes:
        epoch: Id of its epoch.
        fingerprint: Digest of the request that it answers.
        count: Number of reads stored.
        size: Bytes of them.
        is_cancelled: Whether a caller has cancelled it.
        ending: The end; None while it runs.
        lease_s: Seconds until its producer is dead unless it is heard of; negative after that.
        is_expired: Whether only its id is still known.
        linger_s: Seconds without readers after which it is cancelled; None for never.
    """

    epoch: str
    fingerprint: bytes
    count: int
    size: int
    is_cancelled: bool
    ending: bytes | None
    lease_s: float
    is_expired: bool = False
    linger_s: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether the stream has no stored end."""
        return self.ending is None and not self.is_expired


class Chunk(NamedTuple):
    """Bytes of consecutive reads of a source, stored together.

    Attributes:
        first: Number of the first.
        reads: Their bytes.
        gaps_ms: Milliseconds before each of them, since the one before; before the first bytes,
            since the source was opened.
    """

    first: int
    reads: list[bytes]
    gaps_ms: list[Annotated[int, Meta(ge=0)]]

    @property
    def last(self) -> int:
        """Number of the last read; without reads, the number before `first`."""
        return self.first + len(self.reads) - 1


class Append(NamedTuple):
    """One append to a stream: the next chunk, and the end if the stream has ended.

    Attributes:
        scope: The scope.
        id: The id.
        epoch: The epoch.
        chunk: The reads.
        lease_s: Seconds from now on without news after which the producer counts as dead.
        ending: The end; None while the stream runs.
    """

    scope: str
    id: str
    epoch: str
    chunk: Chunk
    lease_s: float
    ending: bytes | None = None


class Reading(NamedTuple):
    """A stream's record and the chunks after a position."""

    record: Record
    chunks: list[Chunk]


class LogStore(Protocol):
    """Protocol of the stores of logged streams.

    Each method is one atomic step, also among processes; `aappend` is one for each stream.  Time is
    the store's own.  All raise `StoreError` if the store fails.
    """

    async def aclaim(
        self, scope: str, id: str, record: Record, *, replaces: bool | str = False
    ) -> tuple[Record, bool]:
        """Claim an id for a new stream; return the id's record, and whether the claim succeeded.

        A claim that comes again, since the answer to the first was lost, is new again.

        Args:
            scope: The scope.
            id: The id.
            record: The epoch.
            replaces: Whether it takes the place of one that has ended, or that answers another
                request; or the epoch of the only one that it replaces, which must have ended.
        """
        ...

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        """Store the appends of several streams, each independently, and renew their leases.

        An append that comes again, since the answer to the first was lost, changes nothing.

        Args:
            appends: At most one of each stream.

        Returns:
            For each, whether the epoch is that of the id and had not ended, otherwise nothing is
            stored; or why it failed, as where the store has lost the stream or reads before these.

        Raises:
            StoreError: The store failed.
        """
        ...

    async def aend(self, scope: str, id: str, epoch: str, ending: bytes) -> bool:
        """End a stream whose producer's lease has lapsed; return whether this call ended it."""
        ...

    async def afree(self, scope: str, id: str, epoch: str) -> None:
        """Release the id of a stream of which nothing is stored yet."""
        ...

    async def acancel(self, scope: str, id: str) -> bool:
        """Request the producer to stop; return whether the stream was running."""
        ...

    async def acancelled(self) -> set[str]:
        """Return the epochs (ids of producers' runs) of the running streams that were cancelled."""
        ...

    async def afollow(self, followed: Streams, produced: Streams) -> set[str]:
        """Record which streams have readers; return the ids of producers' runs without a reader.

        Nobody follows an epoch that was not noted for its `linger_s`, from its start on.

        Args:
            followed: The streams that are followed in a process.
            produced: Those that it produces.
        """
        ...

    async def aread(
        self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
    ) -> Reading | None:
        """Return a stream's record and the chunks after a position; None if the id is unknown.

        Args:
            scope: The scope.
            id: The id.
            after: Number of the last read that is known.
            max_bytes: Bytes to return, approximately; at least one chunk is, if there is one.
            wait_s: Seconds to wait for news of a running stream if there is nothing.
        """
        ...

    async def aclose(self) -> None:
        """Close the store."""
        ...


_ENCODER = msgspec.msgpack.Encoder()
_ORIGINS: msgspec.msgpack.Decoder[Origin] = msgspec.msgpack.Decoder(Origin)
_ENDINGS: msgspec.msgpack.Decoder[Ending] = msgspec.msgpack.Decoder(Ending)
_CHUNKS: msgspec.msgpack.Decoder[list[Chunk]] = msgspec.msgpack.Decoder(list[Chunk])
_ARRAY = b"\xdd"  # with four bytes for its length


def add_head(origin: Origin, response: pump.Head) -> Origin:
    """Return an origin with the stored parts of its response's head."""
    found = response.headers
    return structs.replace(
        origin,
        status=response.status,
        content_type=response.content_type and _encodable(response.content_type),
        error_type=response.error_type and _encodable(response.error_type),
        headers={name: _encodable(str(found[name])) for name in _HEADERS if name in found},
    )


def _encodable(text: str) -> str:
    # HTTP clients give a byte that is no UTF-8 as half a surrogate pair, as aiohttp does.
    return text.encode("utf-8", "replace").decode()


def bound_usage(usage: Usage) -> Usage:
    """Return a usage without vendor fields, with counts in the store's range.

    MessagePack has 64 bits for a number; a count may be the sum of several that have as many.
    """
    counts: dict[str, Any] = {
        name: max(-_MAX_COUNT, min(count, _MAX_COUNT))
        for name in USAGE_COUNTS
        if (count := getattr(usage, name)) is not None
    }
    return Usage(**counts)


class SourceOptions(TypedDict, total=False):
    """Options for reading a source; see `events`."""

    server: str | None
    think_tags: bool
    framing: Framing


def read_options(origin: Origin) -> SourceOptions:
    """Return the decoder options of a stream's source.

    Raises:
        StoreError: The store has a stream of a framing that does not exist.
    """
    options: SourceOptions = {"server": origin.server, "think_tags": origin.think_tags}
    if origin.framing is not None:
        options["framing"] = _framing_of(origin.framing)
    return options


def pack_options(options: Mapping[str, object]) -> bytes:
    """Return writer options as bytes, equal in all processes.

    Args:
        options: Those of `WriterOptions`, without functions.
    """
    named = dict(options)
    framing = options.get("to_framing")
    if isinstance(framing, Framing):
        named["to_framing"] = framing.name
    return msgspec.json.encode(named, order="sorted")


def writer_options(origin: Origin) -> WriterOptions:
    """Return the writer options of a stream's original request.

    Raises:
        StoreError: The store has a stream of a framing that does not exist.
    """
    options = cast("WriterOptions", msgspec.json.decode(origin.options))
    if (framing := msgspec.json.decode(origin.options).get("to_framing")) is not None:
        options["to_framing"] = _framing_of(framing)
    return options


def _framing_of(name: str) -> Framing:
    if name not in FRAMINGS:
        raise StoreError("the store has a stream of an unknown framing")
    return FRAMINGS[name]


def accepts(record: Record, append: Append) -> bool:
    """Return whether a stream accepts an append: it runs, or this append has ended it.

    Raises:
        StoreError: Reads before those of the chunk are lost.
    """
    if record.epoch != append.epoch or record.is_expired:
        return False
    if record.ending is not None:
        return (record.count, record.ending) == (append.chunk.last, append.ending)
    if record.count not in (append.chunk.first - 1, append.chunk.last):
        raise StoreError(LOST)
    return True


def gives_way(known: Record, claimed: Record, *, replaces: bool | str) -> bool:
    """Return whether the stream that claims an id replaces the known stream of the id.

    Args:
        known: The epoch.
        claimed: The other one.
        replaces: As for `LogStore.aclaim`.
    """
    if known.is_expired or known.epoch == claimed.epoch:
        return known.is_expired
    if replaces is True and known.fingerprint != claimed.fingerprint:
        return True
    return known.ending is not None and replaces in (True, known.epoch)


def check_format(found: int) -> None:
    """Check the version of a store's format.

    Raises:
        StoreError: It is that of another release.
    """
    if found != FORMAT:
        raise StoreError(f"the store has streams of format {found}, expected {FORMAT}")


def pack(value: Origin | Ending | Chunk) -> bytes:
    """Return a value as bytes for the store."""
    return _ENCODER.encode(value)


def unpack_origin(data: object) -> Origin:
    """Return an origin from the store's bytes.

    Raises:
        StoreError: It is none, or one of another release.
    """
    origin: Origin = _unpack(_ORIGINS, data)
    check_format(origin.format)
    return origin


def unpack_ending(data: object) -> Ending:
    """Return an end from the store's bytes.

    Raises:
        StoreError: It is none.
    """
    ending: Ending = _unpack(_ENDINGS, data)
    return ending


def unpack_chunks(count: int, *data: object) -> list[Chunk]:
    """Return chunks from the store's bytes.

    Args:
        count: Number of chunks.
        data: The encoded chunks, concatenated and split at any bytes.

    Raises:
        StoreError: They are none.
    """
    # As one value: a reader that is behind reads hundreds of chunks, most of a single read.
    head = _ARRAY + count.to_bytes(4, "big")
    chunks: list[Chunk] = _unpack(_CHUNKS, b"".join((head, *map(bytes_of, data))))
    for _, reads, gaps_ms in chunks:
        if len(reads) != len(gaps_ms):
            raise StoreError(_DAMAGED)
    return chunks


def bytes_of(data: object) -> bytes:
    """Check that a stored value is bytes, and return the bytes.

    Raises:
        StoreError: It is anything else.
    """
    if not isinstance(data, bytes):
        raise StoreError(f"the store holds {type(data).__name__}, expected bytes")
    return data


def _unpack(decoder: msgspec.msgpack.Decoder[Any], data: object) -> Any:
    try:
        return decoder.decode(bytes_of(data))
    except msgspec.MsgspecError as exc:
        raise StoreError(_DAMAGED) from exc
