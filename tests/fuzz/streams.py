"""Streams: whatever bytes arrive, one outcome comes of them, and only what is legal is written.

The bytes give the same events, notes and outcome in any pieces, and the events keep the order that
`validate` checks.  Written in another dialect, what was completed is read as completed there and
passes its strict validator; what was not is no success there either.
"""

from __future__ import annotations

from support.streams.chunkings import cut_at_random
from support.streams.content import PAGES
from support.streams.corpus import recordings
from support.streams.violations import is_excused

from streamnorm import Completed, Event, Note, Outcome, Transcoder
from streamnorm._registry import DIALECTS
from streamnorm.codec import INVOKE_CHUNKS, WS_MESSAGE, Framing, decoder
from streamnorm.validation import validate

MAX_BYTES = 8192
_ONE_IN = 8  # of the recordings that are written for pages

_READ = [name for name, each in DIALECTS.items() if each.decoder is not None]
_WRITTEN = [name for name, each in DIALECTS.items() if each.encoder is not None]
_KINDS: list[tuple[str | None, Framing | None]] = [
    (None, None),
    *((name, None) for name in _READ),
    ("anthropic", INVOKE_CHUNKS),
    ("openai_responses", WS_MESSAGE),
]

# Besides those that real streams have.
_EXCUSED = {
    r"stopReason is end_turn with a toolUse of the client, expected tool_use": (
        "a call whose arguments were cut is not to be executed"
    ),
    r".*(cachedContentTokenCount|tokens_details) (is|has) \d+( tokens)?, expected at most 0": (
        "a count that the source lacks is written as 0, with a loss"
    ),
    r"content_block\.content is .*, expected an object": (
        "a result of the provider's tool goes out as it came"
    ),
}


def samples() -> list[bytes]:
    """Return recordings of each dialect and framing."""
    found = []
    for each in recordings(*_READ, arrays=True, framings=True):
        framing = each.framing if each.framing in (INVOKE_CHUNKS, WS_MESSAGE) else None
        kind = _KINDS.index((each.dialect, framing))
        found.append(bytes([kind, 7, len(found) % len(_WRITTEN)]) + each.body)
    recorded = recordings("anthropic")[::_ONE_IN]
    for page in PAGES:  # which have no recordings
        for each in recorded:
            run = Transcoder("anthropic", page)
            body = b"".join(run.feed(each.body) + run.close())
            found.append(bytes([_KINDS.index((page, None)), 7, len(found) % len(_WRITTEN)]) + body)
    return [data for data in found if len(data) < MAX_BYTES]


def check(data: bytes) -> None:
    """Read and write a stream; the first bytes are its kind, its pieces and the target."""
    if len(data) < 4:
        return
    dialect, framing = _KINDS[data[0] % len(_KINDS)]
    body, target = data[3:], _WRITTEN[data[2] % len(_WRITTEN)]
    events, notes, outcome = _read(dialect, framing, [body])
    pieces = cut_at_random(body, str(data[1]))
    assert _read(dialect, framing, pieces) == (events, notes, outcome), "another reading in pieces"
    assert outcome is not None, "no outcome"
    assert not (found := validate(events)), found[0].message
    run = Transcoder(dialect, target, framing=framing, verbatim=False)
    written = b"".join([part for piece in pieces for part in run.feed(piece)] + run.close())
    is_success = isinstance(run.outcome, Completed)
    assert not is_success or isinstance(outcome, Completed), f"a success in {target} alone"
    if DIALECTS[target].decoder is not None:
        read_again = _read(target, None, [written])[2]
        assert isinstance(read_again, Completed) == is_success, f"read as {read_again} in {target}"
    # Of its own dialect, what is illegal goes out as it came.
    if is_success and (dialect not in (None, target) or not validate(body, target)):
        found = [each.message for each in validate(written, target)]
        wrong = [each for each in found if not is_excused(each, _EXCUSED)]
        assert not wrong, f"{target}: {wrong[0]}"


def _read(
    dialect: str | None, framing: Framing | None, pieces: list[bytes]
) -> tuple[list[Event], tuple[Note, ...], Outcome | None]:
    reader = decoder(dialect, framing=framing)
    events = [event for piece in pieces for event in reader.feed(piece)] + reader.close()
    return events, reader.notes, reader.outcome
