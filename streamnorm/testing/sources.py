"""Test helpers: recordings as sources, chunkings, and assertions."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from streamnorm._core.blocks import Block, ServerToolCall, Text, ToolCall
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.events import Event, Usage
from streamnorm._core.messages import Message
from streamnorm.recording.format import Playback
from streamnorm.recording.player import Pace, PlaybackReset, PlaybackTimeout, Player
from streamnorm.recording.recording import Rechunk, Recording, find_cut_points, split_at
from streamnorm.validation import validate

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# The format of `ids.mint_id`.
_MINTED = re.compile(r"call_[0-9a-f]{24}")


class ReplaySource(Player):
    """Bytes of a recorded response, iterated once by `async for` or `for`.

    It ends as the recording does.  `streamnorm.events` reads its status and headers like those
    of a response, so that a recorded error response is the provider's error.  Made by `replay`.

    Attributes:
        status_code: HTTP status.
        headers: Headers by lower-case name.
        closed: Whether its reader has closed it.

    Raises:
        ConnectionResetError: The recorded connection broke; raised instead of the end.
        TimeoutError: The recorded server was silent; raised instead of the end.
        LocalProtocolError: It was read after it was closed.
    """

    def __init__(self, playback: Playback, pace: Pace) -> None:
        self.status_code = playback.status
        self.headers = playback.headers
        self.closed = False
        super().__init__(playback, pace)

    async def __anext__(self) -> bytes:
        self._check_open()
        try:
            return await super().__anext__()
        except (PlaybackReset, PlaybackTimeout) as exc:
            raise _convert_error(exc) from exc

    def __next__(self) -> bytes:
        self._check_open()
        try:
            return super().__next__()
        except (PlaybackReset, PlaybackTimeout) as exc:
            raise _convert_error(exc) from exc

    async def aclose(self) -> None:
        """Close the source; further calls do nothing."""
        self.closed = True

    def close(self) -> None:
        """Close the source; further calls do nothing."""
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise LocalProtocolError("read of a source that was closed, expected none")


def _convert_error(exc: PlaybackReset | PlaybackTimeout) -> OSError:
    kind = ConnectionResetError if isinstance(exc, PlaybackReset) else TimeoutError
    return kind(str(exc))


def replay(
    path: str | Path,
    *,
    speed: float = 0,
    max_gap_s: float | None = None,
    rechunk: Rechunk = "recorded",
    faults: Sequence[Callable[[Playback], Playback]] = (),
) -> ReplaySource:
    """Return the bytes of a recording in their recorded chunks.

        async for event in streamnorm.events(replay("recordings/answer.sse")):
            ...

    Args:
        path: `NAME.sse`, or another file of the recording.
        speed: Factor over the recorded speed; 0 plays without waiting.
        max_gap_s: Longest gap between two chunks, in recorded seconds; None for no bound.
        rechunk: How to cut the bytes, as for `Recording.chunks`.
        faults: Faults of `streamnorm.testing.faults`, applied in order.

    Raises:
        RecordingError: The recording cannot be read.
        ValueError: An argument has an invalid value.
    """
    pace = Pace(speed, max_gap_s)
    playback = Recording.load(path).playback(rechunk)
    for fault in faults:
        playback = fault(playback)
    return ReplaySource(playback, pace)


def assert_grammatical(events: Iterable[Event]) -> None:
    """Assert that a stream's events follow the event grammar.

    Raises:
        AssertionError: They do not; it lists every violation.
    """
    __tracebackhide__ = True
    violations = validate(list(events))
    if violations:
        listed = "\n".join(f"  event {v.position}: {v.message}" for v in violations)
        raise AssertionError(f"events against the grammar:\n{listed}")


def assert_same_message(got: Message, expected: Message) -> None:
    """Assert that two messages have equal content.

    Compared are blocks and stop reason, and usage and stop sequence where both messages have
    them.  An id minted by streamnorm equals any id; empty arguments equal an empty object.
    Not compared are the message's id and model, the vendor's stop reason and the vendor's
    other fields.

    Raises:
        AssertionError: They differ; it shows a diff from `expected` to `got`.
    """
    __tracebackhide__ = True
    ours, theirs = _reduce(got, expected), _reduce(expected, got)
    if ours == theirs:
        return
    diff = difflib.unified_diff(
        _write_lines(theirs), _write_lines(ours), fromfile="expected", tofile="got", lineterm=""
    )
    raise AssertionError("messages differ:\n" + "\n".join(diff))


def _reduce(message: Message, other: Message) -> Message:
    """Return a message with only the fields that can be compared with `other`."""
    both = message.stop_sequence is not None and other.stop_sequence is not None
    counterparts = [*other.blocks, *[None] * len(message.blocks)]
    return Message(
        blocks=tuple(map(_reduce_block, message.blocks, counterparts)),
        stop_reason=message.stop_reason,
        stop_sequence=message.stop_sequence if both else None,
        usage=_reduce_usage(message.usage, other.usage),
    )


def _reduce_block(block: Block, other: Block | None) -> Block:
    match block:
        case Text(citations=citations):
            plain = tuple(structs.replace(source, extra=None) for source in citations)
            return structs.replace(block, citations=plain)
        case ToolCall(id, arguments=arguments, kind=kind):
            if isinstance(other, ToolCall) and any(map(_MINTED.fullmatch, (id, other.id))):
                id = "(minted)"
            if kind == "function":
                arguments = arguments or "{}"
            return structs.replace(block, id=id, arguments=arguments)
        case ServerToolCall(arguments=""):
            return structs.replace(block, arguments="{}")
        case _:
            return block


def _reduce_usage(usage: Usage, other: Usage) -> Usage:
    unknown = [name for name, count in structs.asdict(other).items() if count is None]
    return structs.replace(usage, **dict.fromkeys([*unknown, "extra"]))


def _write_lines(message: Message) -> list[str]:
    """Return a message as lines of JSON, with multi-line strings split."""
    text = msgspec.json.format(msgspec.json.encode(message), indent=2).decode()
    return [
        part
        for line in text.split("\n")
        for part in re.sub(r"(?<!\\)((?:\\\\)*\\n)", r"\1\n    ", line).split("\n")
    ]


def chunkings(data: bytes, *, framing: Framing = SSE) -> SearchStrategy[list[bytes]]:
    """Return a hypothesis strategy for dividing bytes into chunks.

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
