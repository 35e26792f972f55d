"""Templates of deltas that differ in their text alone, and in spaces behind it."""

from __future__ import annotations

from functools import partial

import pytest
from support.anthropic.frames import block, event, start, stop
from support.anthropic.frames import delta as any_delta
from support.streams.delta_runs import read_chunks, ways_of_reading

from streamnorm import Failed, TextDelta

read = partial(read_chunks, "anthropic")


def ways(*chunks: bytes) -> str:
    """Return how each chunk of a stream after its start and that of its first block is read."""
    return ways_of_reading("anthropic", start() + chunks[0], *chunks[1:])


PING = event("ping")
KINDS = {
    "text": (block(0, "text", text=""), '"type":"text_delta","text":'),
    "thinking": (block(0, "thinking", thinking=""), '"type":"thinking_delta","thinking":'),
    "input": (
        block(0, "tool_use", id="c", name="f"),
        '"type":"input_json_delta","partial_json":',
    ),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def delta(kind: str, text: str, pad: int = 0, index: int = 0) -> bytes:
    """Return a delta as the API writes it, padded with spaces."""
    head = f'{{"type":"content_block_delta","index":{index},"delta":{{{KINDS[kind][1]}"{text}"'
    return f"event: content_block_delta\ndata: {head}}}{' ' * pad}}}\n\n".encode()


@each_kind
def test_template_is_learned_from_the_first_delta_of_the_run(kind: str) -> None:
    deltas = [delta(kind, text, pad) for pad, text in enumerate(["[", "1", ",", "2", "", "]"])]
    # The first may repeat what stood in the start of its block.
    assert ways(KINDS[kind][0], *deltas) == "dltttt"
    assert read(start(), KINDS[kind][0], *deltas).on_run[3:] == [1] * 5


@each_kind
@pytest.mark.parametrize("between", [PING, block(1, "text", text="")], ids=["ping", "start"])
def test_other_event_ends_the_template(kind: str, between: bytes) -> None:
    deltas = [delta(kind, text) for text in ("[", "1", ",", "2")]
    chunks = [KINDS[kind][0], *deltas, between, *deltas]
    assert ways(*chunks)[-4:] == "lttt"
    read(start(), *chunks)


@pytest.mark.parametrize(
    ("part", "replacement"),
    [
        (b'"~"}  }', b'"~"} \t}'),
        (b'"~"}  }', b'"~"}ab}'),
        (b'"~"}  }', b'"~"}  '),
        (b'"~"}  }', b'"~"  }'),
        (b'"~"}  }', b'"~"}  }}'),
        (b'"~"}  }', b'"~"},"x":{"y":"z"}  }'),
        (b'"~"}  }', b'"~","text":"x"}  }'),
        (b'"~"', b'"~\\"'),
        (b'"~"', b'"~"x"'),
        (b'"~"', b'"\\ud83d"'),
        (b'"~"', b"null"),
        (b'"index":0', b'"index":1'),
        (b'"index":0', b'"index":7'),
        (b"data: ", b"data:"),
        (b"data: ", b"id: 5\ndata: "),
    ],
)
def test_delta_that_does_not_fit_the_template_reads_as_in_full(
    part: bytes, replacement: bytes
) -> None:
    odd = delta("text", "~", 2).replace(part, replacement)
    assert odd != delta("text", "~", 2)
    deltas = [delta("text", text) for text in "abc"]
    read(start(), KINDS["text"][0], *deltas, odd, *deltas)


def test_delta_that_fits_is_refused_when_its_block_has_stopped() -> None:
    deltas = [delta("text", text) for text in "abc"]
    reading = read(start(), KINDS["text"][0], *deltas, stop(0), deltas[0])
    assert isinstance(reading.decoder.outcome, Failed)


def test_thinking_that_is_signed_has_no_template() -> None:
    deltas = [delta("thinking", text) for text in "abc"]
    read(
        start(),
        KINDS["thinking"][0],
        *deltas,
        any_delta(0, "signature_delta", signature="s"),
        *deltas,
    )


def test_templates_of_interleaved_blocks_extend_their_own_block() -> None:
    other = block(1, "text", text="")
    turns = [delta("text", text, index=index) for text in "abcd" for index in (0, 1)]
    reading = read(start(), KINDS["text"][0], other, *turns)
    events = [event for events in reading.events[5:] for event in events]
    assert events == [TextDelta(index, text) for text in "bcd" for index in (0, 1)]


def test_each_block_learns_few_templates() -> None:
    """A server whose deltas all differ costs no more than decoding them."""
    deltas = [delta("text", "x").replace(b'"index"', b'"odd":%d,"index"' % n) for n in range(20)]
    block_again = block(1, "text", text="")
    others = [each.replace(b'"index":0', b'"index":1') for each in deltas]
    expected = "d" + "l" * 8 + "d" * 11
    assert ways(KINDS["text"][0], *deltas) == expected
    assert ways(KINDS["text"][0], *deltas, stop(0), block_again, *others)[-20:] == expected
