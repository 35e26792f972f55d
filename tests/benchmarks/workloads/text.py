"""Text and tool arguments for the measured streams, divided into tokens."""

from __future__ import annotations

import json
import random
import re
from itertools import cycle, islice

__all__ = ["argument_pieces", "cut_anywhere", "dumps", "text_pieces", "tool_arguments"]

_PROSE = """\
The harbour of Saint-Malo fills and empties twice a day. At spring tide the difference is over \
**twelve metres**, so the locks only open for a few hours:

1. *Écluse du Naye* – from two hours before high water
2. *Bas-Sablons* – as long as the sill ("le seuil") is covered

Ask for the "annuaire des marées"; the café on the quay sells it, and the 東京 edition of the \
guide has it too 🌊. A rough estimate is good enough for planning:

```python
def depth(hours: float) -> float:
\treturn 6.5 + 6 * math.cos(hours / 12.4 * 2 * math.pi)  # metres, "more or less"
```

With a draught of 1.80 m you want at least 2.30 m over the sill, größere Yachten entsprechend \
mehr. Don't rely on it in a north-westerly: waves of 1–2 m are common, and the pilots' path \
C:\\charts\\2024 is out of date.

"""

# An approximation of byte-pair tokens: an escape of JSON, letters with the space before them,
# at most three digits, punctuation, white space.
_TOKEN = re.compile(r"\\.| ?[^\W\d_]{1,6}|\d{1,3}| ?[^\w\s\\]{1,3}|\s+|.", re.DOTALL)


def dumps(value: object, separators: tuple[str, str] = (",", ":")) -> bytes:
    """Return JSON as vendors write it: compact UTF-8 without escapes."""
    return json.dumps(value, separators=separators, ensure_ascii=False).encode()


def text_pieces(count: int, *, least: int = 1, most: int = 1, seed: str = "text") -> list[str]:
    """Return text in a number of pieces of `least` to `most` tokens."""
    rng = random.Random(seed)  # noqa: S311 - a seed is the point
    tokens = cycle(_TOKEN.findall(_PROSE))
    return ["".join(islice(tokens, rng.randint(least, most))) for _ in range(count)]


def tool_arguments(chars: int, number: int = 0) -> str:
    """Return arguments of a call with at least `chars` characters.

    Every second call is indented, so that white space stands between its members.
    """
    stop = {
        "name": 'Café "Zur Linde"',
        "address": "12 Rue de l'Église\n35400 Saint-Malo",
        "open": True,
        "rating": 4.5,
        "tags": ["coffee", "größer", "late"],
    }
    stops = [{"stop": place, **stop} for place in range(chars // len(dumps(stop)) + 1)]
    indented = number % 2 == 1
    return json.dumps(
        {"city": "San Francisco", "country": "US", "call": number, "metric": True, "stops": stops},
        separators=(",", ": ") if indented else (",", ":"),
        indent=1 if indented else None,
        ensure_ascii=False,
    )


def argument_pieces(count: int, number: int = 0) -> list[str]:
    """Return arguments of a call in tokens, at least `count`: `{"`, `city`, `":"`, ` Franci`."""
    pieces: list[str] = []
    chars = count
    while len(pieces) < count:
        pieces = _TOKEN.findall(tool_arguments(chars, number))
        chars += count // 10 + 1
    return pieces


def cut_anywhere(text: str, *, least: int, most: int, seed: str) -> list[str]:
    """Return a text in pieces of `least` to `most` characters."""
    rng = random.Random(seed)  # noqa: S311 - a seed is the point
    pieces, start = [], 0
    while start < len(text):
        end = start + rng.randint(least, most)
        pieces.append(text[start:end])
        start = end
    return pieces
