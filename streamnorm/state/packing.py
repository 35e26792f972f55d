"""The content of a response as one value of a store outside the process.

MessagePack; ids are bytes, since a client may send half of a surrogate pair in one.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streamnorm._core.errors import StoreError
from streamnorm.state.stored import Item, StoredResponse

__all__ = ["id_of", "key_of", "pack", "unpack"]

_Items = list[tuple[bytes, bytes]]


class _Content(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The content of a stored response: all but its id and that of the response it continues."""

    body: bytes
    input: _Items
    output: _Items


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Content] = msgspec.msgpack.Decoder(_Content)


def key_of(id: str) -> bytes:
    """Return an id or a scope as bytes."""
    return id.encode("utf-8", "surrogatepass")


def id_of(key: object) -> str:
    """Return the id that bytes of a store are.

    Raises:
        StoreError: They are none.
    """
    if not isinstance(key, bytes):
        raise StoreError(f"the store holds {type(key).__name__} as an id, expected bytes")
    try:
        return key.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as exc:
        raise StoreError("the store holds an id that is no UTF-8") from exc


def pack(response: StoredResponse) -> bytes:
    """Return the content of a response."""
    return _ENCODER.encode(
        _Content(response.body, _packed(response.input), _packed(response.output))
    )


def unpack(id: str, previous: str | None, content: object) -> StoredResponse:
    """Return a response made of its content.

    Args:
        id: Its id.
        previous: Id of the response that it continues.
        content: What `pack` returned.

    Raises:
        StoreError: It is not what `pack` returns.
    """
    if not isinstance(content, bytes):
        raise StoreError(f"the store holds {type(content).__name__} as a response, expected bytes")
    try:
        unpacked = _DECODER.decode(content)
    except msgspec.MsgspecError as exc:
        raise StoreError("the store holds a damaged response") from exc
    items = _unpacked(unpacked.input), _unpacked(unpacked.output)
    return StoredResponse(id, previous, unpacked.body, *items)


def _packed(items: tuple[Item, ...]) -> _Items:
    return [(key_of(item.id), item.json) for item in items]


def _unpacked(items: _Items) -> tuple[Item, ...]:
    return tuple([Item(id_of(key), json) for key, json in items])
