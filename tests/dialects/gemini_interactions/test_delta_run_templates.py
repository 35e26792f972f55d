"""Templates of deltas that differ in their text alone, and in the id of their event."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest
from support.gemini_interactions.frames import CREATED, completed, event, start, stop
from support.gemini_interactions.frames import delta as any_delta
from support.kernels import COMPILED, kernel_of
from support.streams.delta_runs import read_chunks, ways_of_reading

from streamnorm import (
    Citation,
    CitationDelta,
    Completed,
    Failed,
    JSONDelta,
    Limits,
    ReasoningDelta,
    StreamError,
    TextDelta,
)
from streamnorm._core.text import MAX_FRESH
from streamnorm.codec import Decoder, decoder
from streamnorm.dialects.gemini_interactions.decode import InteractionsRun

OWN = "gemini_interactions"
MIB = 1024 * 1024
read = partial(read_chunks, OWN)


def call(index: int) -> bytes:
    return start(index, "function_call", id=f"c{index}", name="f", arguments={})


TEXT = start(0, "model_output")
OPENING = {"text": TEXT, "thought": start(0, "thought"), "arguments": call(0)}
BEFORE = {"text": '"text":', "thought": '"content":{"text":', "arguments": '"arguments":'}
BEHIND = {
    "text": '"type":"text"',
    "thought": '"type":"text"},"type":"thought_summary"',
    "arguments": '"type":"arguments_delta"',
}
MAKE = {"text": TextDelta, "thought": ReasoningDelta, "arguments": JSONDelta}
each_kind = pytest.mark.parametrize("kind", OPENING)


def delta(kind: str, text: str, id: str | None = None, index: int = 0) -> bytes:
    """Return a delta as the API writes it; its id stands where a recording has it."""
    identified = "" if id is None else f'"event_id":{json.dumps(id)},'
    inner = f"{BEFORE[kind]}{json.dumps(text)},{BEHIND[kind]}"
    payload = f'{{"index":{index},"delta":{{{inner}}},{identified}"event_type":"step.delta"}}'
    return f"event: step.delta\ndata: {payload}\n\n".encode()


def fresh_of(reader: Decoder) -> list[str] | None:
    """Return the list for fragments of the only step whose deltas are expected."""
    run = reader.run
    assert isinstance(run, InteractionsRun)
    (expected,) = run._expected.values()
    return expected.fresh


def ways(*chunks: bytes) -> str:
    """Return how each chunk after the opening is read."""
    return ways_of_reading(OWN, CREATED + chunks[0], *chunks[1:])


@pytest.fixture(params=[COMPILED, None], ids=["kernel", "twin"])
def reads_ids(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have events with ids compared, by the kernel if it is compiled, or by its twin."""
    monkeypatch.setattr(InteractionsRun, "compares_ids", True)
    with kernel_of(request.param):
        yield


@each_kind
def test_template_is_learned_from_the_second_delta(kind: str) -> None:
    texts = ["[", "1", ",", 'é"\n', "", "x" * 300, "]"]
    deltas = [delta(kind, text) for text in texts]
    assert ways(OPENING[kind], *deltas) == "dlttttt"
    reading = read(CREATED, OPENING[kind], *deltas)
    assert reading.on_run[2:] == [0, 1, 1, 1, 1, 1, 1]
    assert [given[-1:] for given in reading.events[2:]] == [
        [MAKE[kind](0, text)] if text else [] for text in texts
    ]


@pytest.mark.usefixtures("reads_ids")
@each_kind
def test_id_differs_in_each_event(kind: str) -> None:
    deltas = [delta(kind, text, f"v1_{text}-=") for text in "abcde"]
    assert ways(OPENING[kind], *deltas) == "dlttt"
    reading = read(CREATED, OPENING[kind], *deltas)
    assert [given[-1:] for given in reading.events[2:]] == [[MAKE[kind](0, c)] for c in "abcde"]


@pytest.mark.usefixtures("reads_ids")
def test_stream_can_be_resumed_after_each_event_with_an_id() -> None:
    """An event without an id, or with an empty one, leaves the id of the event before."""
    reader = decoder(OWN)
    reader.feed(CREATED + TEXT)
    for id, expected in (
        ("e1", "e1"),
        ("e2", "e2"),
        ("e3", "e3"),
        (None, "e3"),
        ("", "e3"),
        ("e4", "e4"),
        ("e 5", "e 5"),
        ("é", "é"),
        ("e6", "e6"),
        ("e7", "e7"),
    ):
        (text,) = reader.feed(delta("text", "a", id))[-1:]
        assert text == TextDelta(0, "a")
        assert reader.resume_token == {"event_id": expected}
    reader.feed(event("interaction.status_update", status="in_progress", event_id="e8"))
    assert reader.resume_token == {"event_id": "e8"}


@pytest.mark.usefixtures("reads_ids")
def test_cut_stream_carries_the_id_of_the_last_delta() -> None:
    reader = decoder(OWN)
    chunks = [delta("text", "a", f"e{number}") for number in range(4)]
    reader.feed(b"".join([CREATED, TEXT, *chunks]))
    reader.feed(delta("text", "a", "e4")[:40])
    (error,) = reader.close()
    assert isinstance(error, StreamError)
    assert (error.kind, error.extra) == ("truncated", {"event_id": "e3"})


@pytest.mark.usefixtures("reads_ids")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"event_id":"e', b'"event_id" : "e'),
        (b'"event_id":"e', b'"event_id":"a","event_id":"e'),
        (b'"event_id":"e', b'"event\\u005fid":"e'),
        (b'"event_id":"e', b'"event_id":"\\u0065'),
        (b"e_", b""),
    ],
)
def test_id_in_another_spelling_reads_as_in_full(old: bytes, new: bytes) -> None:
    chunks = [delta("text", "a", f"e_{n}").replace(old, new) for n in range(5)]
    reading = read(CREATED, TEXT, *chunks)
    assert reading.events[3:] == [[TextDelta(0, "a")]] * 4
    id = "4" if old == b"e_" else "e_4"
    assert reading.decoder.resume_token == {"event_id": id}


@pytest.mark.usefixtures("reads_ids")
def test_text_that_is_the_id_of_its_event_teaches_no_template() -> None:
    deltas = [delta("text", "e1", "e1"), delta("text", "e2", "e2"), delta("text", "e3", "e3")]
    assert ways(TEXT, *deltas) == "dll"
    reading = read(CREATED, TEXT, *deltas)
    assert reading.decoder.resume_token == {"event_id": "e3"}


@pytest.mark.usefixtures("reads_ids")
def test_ids_before_the_text_are_decoded() -> None:
    chunks: list[bytes] = []
    for number in range(12):
        plain = delta("text", "a")
        chunks.append(plain.replace(b'"index"', b'"event_id":"e%d","index"' % number))
    assert ways(TEXT, *chunks) == "d" + "l" * 8 + "ddd"
    assert read(CREATED, TEXT, *chunks).decoder.resume_token == {"event_id": "e11"}


def test_ids_are_decoded_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InteractionsRun, "compares_ids", False)
    with kernel_of(None):
        deltas = [delta("text", "a", id) for id in ("e1", "e2", "e3", None, None)]
        assert ways(TEXT, *deltas) == "dddlt"


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(any_delta(0, "text", text="\ud83d"), id="half a character"),
        pytest.param(any_delta(0, "thought_signature", signature="QQ=="), id="signature"),
        pytest.param(any_delta(0, "image", data="QQ==", mime_type="image/png"), id="image"),
        pytest.param(call(1), id="start"),
        pytest.param(event("interaction.status_update", status="in_progress"), id="status"),
        pytest.param(event("interaction.status_update", status="completed"), id="end"),
    ],
)
def test_event_that_may_change_a_block_ends_its_template(between: bytes) -> None:
    deltas = [delta("text", text) for text in "abcd"]
    letters = ways(TEXT, *deltas, between, *deltas)
    assert letters[:4] == "dltt"
    assert letters[-4] == "d"
    read(CREATED, TEXT, *deltas, between, *deltas)


def test_usage_amid_a_text_leaves_its_template() -> None:
    counts = {"total_input_tokens": 1}
    counted = event(
        "step.delta",
        index=0,
        delta={"text": "c", "type": "text"},
        metadata={"usage": counts},
    )
    deltas = [delta("text", text) for text in "abc"]
    assert ways(TEXT, *deltas, counted, *deltas) == "dltdttt"
    read(CREATED, TEXT, *deltas, counted, *deltas)


def test_delta_of_a_stopped_step_is_refused() -> None:
    deltas = [delta("text", text) for text in "abc"]
    reading = read(CREATED, TEXT, *deltas, stop(0), deltas[0])
    assert isinstance(reading.decoder.outcome, Failed)


def test_deltas_of_interleaved_calls_extend_their_own_call() -> None:
    turns = [delta("arguments", text, index=n) for text in "[12]" for n in (0, 1)]
    assert ways(call(0) + call(1), *turns) == "ddlltttt"
    reading = read(CREATED, call(0), call(1), *turns)
    assert [given[-1] for given in reading.events[3:]] == [
        JSONDelta(n, text) for text in "[12]" for n in (0, 1)
    ]


def test_other_delta_type_has_templates_of_its_own() -> None:
    texts = [delta("text", text) for text in "abc"]
    arguments = [delta("arguments", text, index=1) for text in ("{", '"a":1', "}")]
    assert ways(TEXT + call(1), *texts, *arguments, *texts)[:6] == "dltdlt"
    read(CREATED, TEXT, call(1), *texts, *arguments, *texts)


def test_each_block_learns_few_templates() -> None:
    """A server whose deltas all differ costs no more than decoding them."""

    def spelled(index: int) -> list[bytes]:
        plain = delta("text", "x", index=index)
        return [plain.replace(b'"index"', b" " * n + b'"index"') for n in range(1, 21)]

    expected = "d" + "l" * 8 + "d" * 11
    chunks = [*spelled(0), stop(0), start(1, "model_output"), *spelled(1)]
    assert ways(TEXT, *chunks)[:20] == expected
    assert ways(TEXT, *chunks)[-20:] == expected


def test_block_that_is_interrupted_learns_no_more_templates() -> None:
    status = event("interaction.status_update", status="in_progress")
    odd = [delta("text", "x").replace(b'"index"', b" " * n + b'"index"') for n in range(1, 21)]
    chunks = [chunk for each in odd for chunk in (status, each, each)]
    assert ways(TEXT, *chunks)[2::3] == "l" * 8 + "d" * 12


@pytest.mark.parametrize(
    ("part", "replacement"),
    [
        (b'"~"', b'"~\\"'),
        (b'"~"', b'"~"x"'),
        (b'"~"', b'"~","text":"x"'),
        (b'"~"', b'"\\ud83d"'),
        (b'"~"', b"null"),
        (b'"~"', b'"~","annotations":[]'),
        (b'"index":0', b'"index":1'),
        (b'"index":0', b'"index":null'),
        (b'"type":"text"', b'"type":"thought_summary"'),
        (b'"event_type"', b'"event_id":5,"event_type"'),
        (b'"event_type"', b'"usage":{"total_tokens":3},"event_type"'),
        (b'.delta"}', b'.delta"}}'),
        (b'.delta"}', b'.stop"}'),
        (b"data: ", b"data:"),
        (b"data: ", b"id: 5\ndata: "),
        (b"step.delta\n", b"step.stop\n"),
    ],
)
def test_delta_that_does_not_fit_the_template_reads_as_in_full(
    part: bytes, replacement: bytes
) -> None:
    odd = delta("text", "~").replace(part, replacement)
    assert odd != delta("text", "~")
    deltas = [delta("text", text) for text in "abc"]
    read(CREATED, TEXT, *deltas, odd, *deltas)


@pytest.mark.parametrize("count", [MAX_FRESH - 1, MAX_FRESH, 3 * MAX_FRESH + 5])
def test_text_is_the_one_that_the_last_event_repeats(count: int) -> None:
    chunks = [CREATED, TEXT, *[delta("text", "é1")] * count, stop(0)]
    for repeated, outcome in ((count, Completed), (count - 1, Failed)):
        content = [{"type": "text", "text": "é1" * repeated}]
        last = completed(steps=[{"type": "model_output", "content": content}])
        assert isinstance(read(*chunks, last).decoder.outcome, outcome)


@pytest.mark.parametrize("count", [3, MAX_FRESH + 5])
def test_arguments_are_those_that_the_last_event_repeats(count: int) -> None:
    fragment = {"type": "arguments_delta", "arguments": "2,"}
    counted = event(
        "step.delta", index=0, delta=fragment, metadata={"usage": {"total_input_tokens": 1}}
    )
    before = [delta("arguments", text) for text in ("[", *["1,"] * count)]
    chunks = [CREATED, call(0), *before, counted, *[delta("arguments", "3,")] * 2]
    chunks += [delta("arguments", "4]"), stop(0)]
    known = {"type": "function_call", "id": "c0", "name": "f"}
    for repeated, outcome in ((count, Completed), (count - 1, Failed)):
        last = completed(steps=[{**known, "arguments": [*[1] * repeated, 2, 3, 3, 4]}])
        assert isinstance(read(*chunks, last).decoder.outcome, outcome)


def test_citation_has_the_characters_of_the_texts_before() -> None:
    annotation = {"type": "url_citation", "url": "u", "start_index": 2, "end_index": 8}
    cited = any_delta(0, "text_annotation_delta", annotations=[annotation])
    reading = read(CREATED, TEXT, *[delta("text", "é")] * 6, cited)
    assert reading.events[-1] == [CitationDelta(0, Citation("web", "u", start=1, end=4))]


@pytest.mark.parametrize("size", [200, 300], ids=["batched", "long"])
def test_arguments_beyond_the_bound_end_the_stream_at_the_same_event(size: int) -> None:
    """Fragments are counted in batches until the bound is near, then one by one."""
    limits = Limits(max_accumulated_bytes=MIB + 40_000)
    count = limits.max_accumulated_bytes // size
    chunks = [delta("arguments", "1" * size)] * (count + 5)
    reading = read(CREATED, call(0), *chunks, limits=limits)
    ends = [given[-1] if given else None for given in reading.events]
    errors = [at for at, last in enumerate(ends) if isinstance(last, StreamError)]
    assert len(errors) == 1
    # The call's start is counted, too, with less than three fragments.
    assert count - 3 <= errors[0] - 2 <= count


def test_arguments_near_the_bound_are_counted_one_by_one() -> None:
    limits = Limits(max_accumulated_bytes=MIB + 10_000)
    chunks = [delta("arguments", "1" * 200) for _ in range(3 * MAX_FRESH)]
    reader = decoder(OWN, limits=limits)
    reader.feed(b"".join([CREATED, call(0), *chunks]))
    assert fresh_of(reader) == [""] * MAX_FRESH
    reader.feed(b"".join([stop(0), call(1), *[delta("arguments", "1", index=1)] * 3]))
    assert fresh_of(reader) is None


def test_fragments_that_wait_to_be_counted_are_few() -> None:
    reader = decoder(OWN)
    reader.feed(CREATED + call(0) + delta("arguments", "1"))
    longest = 0
    for _ in range(3 * MAX_FRESH):
        reader.feed(delta("arguments", "1"))
        longest = max(longest, len(fresh_of(reader) or ()))
    assert longest == MAX_FRESH
