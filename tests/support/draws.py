"""Random draws from bytes, which hypothesis generates fast and shrinks well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from hypothesis import settings
from hypothesis import strategies as st

__all__ = ["Draws", "draws", "with_half_the_examples"]

P = ParamSpec("P")
T = TypeVar("T")


class Draws:
    """A source of random draws; when the bytes are used up, each draw is its first option."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = iter(data)

    def __repr__(self) -> str:
        return f"Draws({self.data!r})"

    def below(self, bound: int) -> int:
        """Return a number from 0 to `bound` - 1."""
        return next(self._left, 0) % bound

    def flag(self, odds: int = 2) -> bool:
        """Return True with a probability of 1 in `odds`."""
        return self.below(odds) == odds - 1

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def some(self, most: int, make: Callable[[], T], least: int = 0) -> list[T]:
        """Return `least` to `most` values."""
        return [make() for _ in range(least + self.below(most - least + 1))]

    def text(self, least: int = 1, most: int = 6, alphabet: str = 'ab \n"\\{}é😀\u2028') -> str:
        """Return a text of `least` to `most` characters."""
        return "".join(self.some(most, lambda: self.pick(alphabet), least))

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """Return the values in random order."""
        left = list(values)
        return [left.pop(self.below(len(left))) for _ in range(len(left))]

    def cut(self, text: str, most: int) -> list[str]:
        """Return a text in at most `most` non-empty pieces."""
        ends = sorted({self.below(len(text) + 1) for _ in range(self.below(most))} - {0, len(text)})
        starts = [0, *ends]
        return [text[a:b] for a, b in zip(starts, [*ends, len(text)], strict=True) if text[a:b]]


def with_half_the_examples(test: Callable[P, None]) -> Callable[P, None]:
    """Halve the examples of a test that runs for each dialect."""
    return settings(max_examples=max(1, settings().max_examples // 2))(test)


def draws(size: int = 250) -> st.SearchStrategy[Draws]:
    """Return a strategy of draws from `size` bytes or more."""
    return st.binary(min_size=size, max_size=2 * size).map(Draws)
