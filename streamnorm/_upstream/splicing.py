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
    """Return a body as JSON, its unchanged parts byte for byte.

    White space between the parts of what is changed is lost.

    Args:
        data: The JSON that the client sent.
        before: What it was decoded to.
        after: The body to send, in which unchanged values are the same objects.
    """
    if list(before) == list(after) and all(after[name] is before[name] for name in before):
        return data
    try:
        return msgspec.json.encode(_spliced_fields(_FIELDS.decode(data), before, after))
    except FAST_ERRORS:  # half of a character, or a number that no double is near to
        return dumps(after)


def _spliced(written: Raw, before: object, after: object) -> Raw:
    """Return a value as JSON; what it has of a former value stays as that was written."""
    if after is before:
        return written
    if is_object(after) and is_object(before):
        fields = _FIELDS.decode(written)
        return Raw(msgspec.json.encode(_spliced_fields(fields, before, after)))
    if is_array(after) and is_array(before):
        return Raw(msgspec.json.encode(_spliced_items(_ITEMS.decode(written), before, after)))
    # A number that is equal may be of another type.
    return written if type(after) is type(before) and after == before else Raw(dumps(after))


def _spliced_fields(
    written: dict[str, Raw], before: dict[str, Any], after: dict[str, Any]
) -> dict[str, Raw]:
    return {
        name: _spliced(written[name], before[name], value)
        if name in written and name in before
        else Raw(dumps(value))
        for name, value in after.items()
    }


def _spliced_items(written: list[Raw], before: list[Any], after: list[Any]) -> list[Raw]:
    """Return the items of an array: objects and arrays that stay, and others as those before.

    Of the objects that are gone, the first stands for the first that is new, and so on.  Whether
    it does decides only which spelling equal values have.
    """
    # Equal texts may be one object, and stand for another spelling.
    raws = {id(item): raw for item, raw in zip(before, written, strict=True) if _is_holder(item)}
    staying = {id(item) for item in after}
    gone = iter([item for item in before if _is_holder(item) and id(item) not in staying])
    items: list[Raw] = []
    for item in after:
        raw = raws.get(id(item)) if _is_holder(item) else None
        if raw is None and _is_holder(item) and (former := next(gone, None)) is not None:
            raw = _spliced(raws[id(former)], former, item)
        items.append(Raw(dumps(item)) if raw is None else raw)
    return items


def _is_holder(item: object) -> bool:
    return is_object(item) or is_array(item)
