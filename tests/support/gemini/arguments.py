"""Random `partialArgs` of Gemini, and the expected JSON text."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

from msgspec import Struct

from streamnorm._core.json import is_array, is_object
from support.draws import Draws

__all__ = ["Piece", "partial_arguments"]

_Item: TypeAlias = tuple[str, str | None, Any]
"""A value of an object or a list: its path, its key in an object, and itself."""


class Piece(Struct):
    """An entry of `partialArgs`: a value, or a fragment of a string.

    Attributes:
        entry: The entry as sent.
        text: The arguments up to it.
        whole: All arguments.
    """

    entry: dict[str, Any]
    text: str = ""
    whole: str = ""


def partial_arguments(d: Draws) -> list[Piece]:
    """Return `partialArgs` entries of random arguments, in text order."""
    values = {f"{d.text(0, 2)}{n}": _value(d, 2) for n in range(d.below(4))}
    text: list[str] = []
    pieces: list[Piece] = []
    _write(d, values, "$", text, pieces)
    whole = "".join(text)
    assert whole == json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    for piece in pieces:
        piece.whole = whole
    return pieces


def _value(d: Draws, depth: int) -> Any:
    options: list[Any] = [d.text(0, 6), 1, 2.5, True, None]
    if depth:
        inner = [_value(d, depth - 1) for _ in range(d.below(3))]
        options += [inner, {f"k{number}": value for number, value in enumerate(inner)}]
    return d.pick(options)


def _write(d: Draws, value: Any, path: str, text: list[str], pieces: list[Piece]) -> None:
    """Append the text and the entries of a value."""
    if is_object(value):
        members: list[_Item] = [(path + _step(d, key), key, item) for key, item in value.items()]
        _write_all(d, "{}", members, text, pieces, path)
    elif is_array(value):
        items: list[_Item] = [(f"{path}[{number}]", None, v) for number, v in enumerate(value)]
        _write_all(d, "[]", items, text, pieces, f"{path}[]")
    elif isinstance(value, str):
        _write_string(d, value, path, text, pieces)
    else:
        text.append(json.dumps(value))
        told = {"nullValue": "NULL_VALUE"} if value is None else {}
        kind = "boolValue" if isinstance(value, bool) else "numberValue"
        entry = {"jsonPath": path, **(told or {kind: value})}
        pieces.append(Piece(entry, "".join(text)))


def _write_all(
    d: Draws,
    brackets: str,
    items: list[_Item],
    text: list[str],
    pieces: list[Piece],
    empty: str,
) -> None:
    """Append the text and the entries of an object or list."""
    text.append(brackets[0])
    if not items and empty != "$":
        pieces.append(Piece({"jsonPath": empty}, "".join(text)))
    for number, (path, key, value) in enumerate(items):
        text.append("," if number else "")
        if key is not None:
            text.append(json.dumps(key, ensure_ascii=False) + ":")
        _write(d, value, path, text, pieces)
    text.append(brackets[1])


def _write_string(d: Draws, value: str, path: str, text: list[str], pieces: list[Piece]) -> None:
    written = json.dumps(value, ensure_ascii=False)
    cuts = d.cut(value, 4) or [""]
    for number, cut in enumerate(cuts):
        goes_on = number < len(cuts) - 1
        entry = {"jsonPath": path, "stringValue": cut}
        pieces.append(Piece({**entry, "willContinue": True} if goes_on else entry))
        shown = json.dumps("".join(cuts[: number + 1]), ensure_ascii=False)
        pieces[-1].text = "".join(text) + (shown[:-1] if goes_on else shown)
    text.append(written)


def _step(d: Draws, key: str) -> str:
    if re.fullmatch(r"[^.\[\]]+", key) and d.flag():
        return f".{key}"
    quote = d.pick(("'", '"'))
    escaped = key.replace("\\", "\\\\").replace(quote, f"\\{quote}")
    return f"[{quote}{escaped}{quote}]"
