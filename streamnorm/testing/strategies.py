"""A hypothesis strategy of the chunks in which bytes may arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamnorm._core.codec.framing import SSE, Framing
from streamnorm.recording.recording import find_cut_points, split_at

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def chunkings(data: bytes, *, framing: Framing = SSE) -> SearchStrategy[list[bytes]]:
    """Return a hypothesis strategy of the chunks in which bytes may arrive.

        @given(chunkings(Recording.load(path).body))
        def test_chunks_do_not_matter(chunks: list[bytes]) -> None: ...

    Each example is the same bytes in one or more non-empty chunks; for no bytes it is an empty
    list.  Every set of cuts is possible; cuts inside a character, between CR and LF or inside
    `data:` are tried more often, and a failure shrinks to the fewest cuts.

    Args:
        data: The bytes.
        framing: How events stand in them, as `Recording.framing`; in an event stream of AWS cuts
            inside lengths and checksums are tried more often.

    Raises:
        ModuleNotFoundError: hypothesis is not installed.
    """
    try:
        from hypothesis import strategies as st
    except ModuleNotFoundError as exc:
        if exc.name != "hypothesis":
            raise
        raise ModuleNotFoundError(
            "chunkings needs hypothesis: pip install hypothesis", name="hypothesis"
        ) from exc
    if not data:
        return st.just([])

    def cut(points: list[int]) -> list[bytes]:
        return split_at(data, [*sorted(points), len(data)])

    if len(data) == 1:
        return st.just([data])
    anywhere = st.integers(1, len(data) - 1)
    strategies = [st.lists(anywhere, unique=True)]
    hostile = find_cut_points(data, "hostile", None, framing)[:-1]
    if hostile:
        strategies.append(st.lists(st.sampled_from(hostile) | anywhere, unique=True))
        strategies.append(st.just(hostile))
    # Few examples of a list are long: chunks of equal size need a strategy of their own.
    sizes = st.integers(1, min(len(data), 64))
    strategies.append(sizes.map(lambda size: list(range(size, len(data), size))))
    return st.one_of(strategies).map(cut)
