"""The bytes of a changed body: what is unchanged stays as the client wrote it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from streamnorm._core.json import FAST_ERRORS, dumps, is_array, is_object

__all__ = ["splice"]

_FIELDS: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])


def splice(data: bytes, before: dict[str, Any], after: dict[str, Any]) -> bytes:
    """Return a body as JSON, its unchanged fields byte for byte.

    White space between the fields is lost where one of them is changed.

    Args:
        data: The JSON that the client sent.
        before: What it was decoded to.
        after: The body to send, in which unchanged values are the same objects.
    """
    if list(before) == list(after) and all(after[name] is before[name] for name in before):
        return data
    try:
        fields = _FIELDS.decode(data)
    except FAST_ERRORS:  # half of a character, or a number that no double is near to
        return dumps(after)
    spliced: dict[str, Raw] = {}
    for name, value in after.items():
        written, old = fields.get(name), before.get(name)
        if written is not None and value is old:
            spliced[name] = written
        elif written is not None and is_array(value) and is_array(old):
            spliced[name] = _spliced_items(written, old, value)
        else:
            spliced[name] = Raw(dumps(value))
    return msgspec.json.encode(spliced)


def _spliced_items(written: Raw, before: list[Any], after: list[Any]) -> Raw:
    """Return an array with its unchanged objects and arrays as they were written."""
    # Equal texts may be one object, and stand for another spelling.
    raws = {
        id(item): raw
        for item, raw in zip(before, _ITEMS.decode(written), strict=True)
        if is_object(item) or is_array(item)
    }
    items = [raws.get(id(item)) or Raw(dumps(item)) for item in after]
    return Raw(msgspec.json.encode(items))
