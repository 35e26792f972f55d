"""A report as lines: each field, and that no raw text of the stream is printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamnorm import (
    Abandoned,
    Completed,
    Failed,
    Loss,
    MessageStop,
    Note,
    Outcome,
    StreamError,
    Truncated,
    Usage,
)
from streamnorm.inspect.page import MIN_WIDTH, Style, render
from streamnorm.inspect.printable import ASCII, BOX, BOX_CHARACTERS, count_columns
from streamnorm.inspect.report import Gap, Hold, Report, Timing
from streamnorm.inspect.summary import HEAD_CHARS, Track
from streamnorm.validation import Violation

ESCAPE = "\x1b]0;owned\x07"


def bits(*events: int) -> int:
    return sum(1 << event for event in events)


def call(
    name: str,
    start: int,
    stop: int | None,
    busy: int,
    head: str = "{}",
    id: str = "",
    choice: int = 0,
) -> Track:
    size = len(head)
    return Track("tool call", name, id, choice, start, stop, busy, size, size, head)


def text(head: str, start: int = 1, stop: int | None = 3, choice: int = 0) -> Track:
    size = len(head.encode("utf-8", "surrogatepass"))
    return Track("text", "", "", choice, start, stop, bits(start), len(head), size, head)


def field(report: Report, label: str, width: int = 100) -> list[str]:
    """Return the lines of a field, without label and margin."""
    lines = iter(render(report, "x", Style(width=width)))
    found = [next(line for line in lines if line.startswith(label))]
    for line in lines:
        if not line.startswith(" "):
            break
        found.append(line)
    return [line[10:] for line in found]


OVERLAPPING = Report(
    dialect="openai_chat",
    server="vllm",
    id="m-1",
    model="oss",
    bytes=2345,
    frames=9,
    events=10,
    tracks=(
        call("find", 1, 7, bits(1, 3, 6, 7), '{"a":1}', "call_1"),
        call("open_file", 2, 8, bits(2, 4, 5, 8), "", "call_2"),
    ),
    usage=Usage(1200, 34, cache_read_tokens=1000, reasoning_tokens=0),
    stops=(MessageStop("tool_use", "tool_calls"),),
    outcome=Completed("tool_use", Usage()),
    losses={"anthropic": ()},
)


def test_whole_page() -> None:
    # Of 80 columns the table takes 41 and the edges of the bars two; of the 37 that are
    # left each of ten events has three.
    assert render(OVERLAPPING, "recordings/a.sse", Style(width=80)) == [
        "stream    recordings/a.sse",
        "          2,345 bytes, 9 frames, 10 events",
        "dialect   openai_chat",
        "server    vllm",
        "message   m-1",
        "model     oss",
        "",
        "blocks    2 in 10 events, 2 at once: █ of the block, ─ of others while it is",
        "          open",
        "  #  kind       name       chars  bytes",
        "  0  tool call  find           7      7  │   ███───███──────██████      │",
        "  1  tool call  open_file      0      0  │      ███───██████──────███   │",
        "",
        "content",
        '  0  {"a":1}',
        "     id call_1",
        "  1  (empty)",
        "     id call_2",
        "",
        "times     not recorded",
        "usage     input 1,200 (1,000 from cache), output 34 (0 reasoning)",
        "stop      tool_use (tool_calls)",
        "outcome   completed",
        "losses    anthropic: none",
        "validity  no violations",
        "notes     none",
    ]


def test_page_of_an_empty_report() -> None:
    report = Report(events=1, outcome=Truncated(StreamError("truncated", "ended after 0 frames")))
    assert render(report, "standard input") == [
        "stream    standard input",
        "          0 bytes, 0 frames, 1 event",
        "dialect   not known",
        "server    not said",
        "message   without id",
        "model     not said",
        "",
        "blocks    none",
        "",
        "times     not recorded",
        "usage     input not said, output not said",
        "stop      none",
        "outcome   truncated: ended after 0 frames",
        "validity  no violations",
        "notes     none",
    ]


TIMING = Timing(
    first_byte_ms=300,
    first_event_ms=340,
    first_text_ms=None,
    end_ms=12_345,
    gaps=(Gap(2000, 1), Gap(250, 1200)),
    tokens_per_s=1234.56,
)


def test_times_are_shown_if_they_are_known() -> None:
    assert field(Report(timing=TIMING), "times") == [
        "first bytes after 0.300 s, first event after 0.340 s, end after 12.345 s",
        "1,234.6 output tokens a second of content",
        "longest gaps 2.000 s before frame 1, 0.250 s before frame 1,200",
    ]
    short = structs.replace(TIMING, first_text_ms=500, gaps=(), tokens_per_s=None)
    assert field(Report(timing=short), "times", 110) == [
        "first bytes after 0.300 s, first event after 0.340 s, first text after 0.500 s, "
        "end after 12.345 s"
    ]


def test_legend_of_a_timed_stream_has_its_duration() -> None:
    report = Report(events=4, tracks=(text("a"),), timing=TIMING)
    assert field(report, "blocks")[0] == (
        "1 in 4 events over 12.345 s: █ of the block, ─ no event while it is open"
    )


def test_violations_are_shown_up_to_ten() -> None:
    found = tuple(Violation(n * 500, f"a{n}, expected b") for n in range(12))
    assert field(Report(violations=found[:3]), "validity") == [
        "frame 0: a0, expected b",
        "frame 500: a1, expected b",
        "frame 1,000: a2, expected b",
    ]
    assert field(Report(violations=found), "validity")[9:] == [
        "frame 4,500: a9, expected b",
        "and 2 more",
    ]


def test_stream_that_was_not_validated_has_the_reason() -> None:
    assert field(Report(unchecked="no checker"), "validity") == ["not checked: no checker"]


def test_ascii_page_has_only_ascii() -> None:
    report = Report(
        model="modèle",
        events=4,
        tracks=(text("今日 🙂"), text("a" * 200)),
        losses={"anthropic": (Loss("opaque", "logprobs", 2, "dropped"),)},
    )
    lines = render(report, "übung.sse", Style(width=80, glyphs=ASCII))
    assert all(line.isascii() for line in lines)
    assert lines[0] == r"stream    \xfcbung.sse"
    assert r"  0  \u4eca\u65e5 \U0001f642" in lines
    assert f"  1  {'a' * 72}..." in lines
    assert "losses    anthropic: opaque in logprobs, 2 x dropped" in lines
    assert (
        "blocks    2 in 4 events, 2 at once: # of the block, - of others while it is open" in lines
    )


def test_page_uses_only_the_declared_box_characters() -> None:
    report = Report(
        events=4,
        tracks=(text("a" * 200), text("", stop=None)),
        notes=(Note("gap", "stream"),),
    )
    drawn = {c for line in render(report, "x") for c in line if not c.isascii()}
    call_in_parts = call("f", 1, 2, 0)
    call_in_parts.cuts, call_in_parts.deltas = 0b11, 2
    hold = Hold(block=0, behind=0, deltas=2, chars=2, start=1, stop=2)
    held = Report(events=4, tracks=(call_in_parts,), holds={"gemini": (hold,)})
    drawn |= {c for line in render(held, "x") for c in line if not c.isascii()}
    assert drawn == set(BOX_CHARACTERS)


def test_only_labels_are_bold() -> None:
    plain = render(OVERLAPPING, "x", Style(width=80))
    bold = render(OVERLAPPING, "x", Style(width=80, bold=True))
    assert bold[0] == "\x1b[1mstream\x1b[0m    x"
    assert bold[13] == "\x1b[1mcontent\x1b[0m"
    assert [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in bold] == plain
    assert all(line.count("\x1b") in (0, 2) for line in bold)


def test_legend_explains_blocks_that_never_closed() -> None:
    report = Report(events=2, tracks=(text("a", stop=None),))
    assert field(report, "blocks")[0].endswith("while it is open, > never closed")


# Content


def test_content_of_a_block_is_one_line() -> None:
    report = Report(events=4, tracks=(text("Grüß dich!\n\nfoo\tbar"), text("a" * HEAD_CHARS)))
    lines = render(report, "x", Style(width=80))
    start = lines.index("content")
    assert lines[start + 1 :][:2] == [
        r"  0  Grüß dich!\n\nfoo\tbar",
        "  1  " + "a" * 74 + "…",
    ]


def test_facts_of_a_block_are_below_its_content() -> None:
    track = call("f", 1, None, 0, "[", "call_1")
    track.problem = "no valid JSON object"
    signed = text("a")
    signed.citations, signed.signature_chars, signed.issuer = 2, 1, "google"
    once = text("b")
    once.citations, once.signature_chars = 1, 1200
    lines = render(Report(events=4, tracks=(track, signed, once)), "x")
    start = lines.index("content")
    assert lines[start + 1 :][:6] == [
        "  0  [",
        "     no valid JSON object, never closed, id call_1",
        "  1  a",
        "     2 citations, signature of 1 character, issuer google",
        "  2  b",
        "     1 citation, signature of 1,200 characters",
    ]


# The fields


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (Usage(5, 6), "input 5, output 6"),
        (Usage(5), "input 5, output not said"),
        (Usage(9, 6, 3, 4, 2), "input 9 (3 from cache, 4 to cache), output 6 (2 reasoning)"),
        (Usage(cache_write_tokens=4), "input not said (4 to cache), output not said"),
    ],
)
def test_usage_shows_only_known_counts(usage: Usage, line: str) -> None:
    assert field(Report(usage=usage), "usage") == [line]


@pytest.mark.parametrize(
    ("stop", "line"),
    [
        (MessageStop("end_turn"), "end_turn"),
        (MessageStop("other", "\x1b[31m"), r"other (\x1b[31m)"),
        (MessageStop("stop_sequence", "stop", " END "), "stop_sequence (stop), sequence ' END '"),
    ],
)
def test_stop_shows_the_raw_reason_and_the_sequence(stop: MessageStop, line: str) -> None:
    assert field(Report(stops=(stop,)), "stop") == [line]


def test_stops_of_several_answers_are_distinguished() -> None:
    stops = (MessageStop("end_turn", "stop"), MessageStop("max_tokens", "length", choice=1))
    assert field(Report(stops=stops), "stop") == [
        "choice 0: end_turn (stop)",
        "choice 1: max_tokens (length)",
    ]


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (Completed("end_turn", Usage()), "completed"),
        (
            Completed("end_turn", Usage(), ("no_done", "unterminated")),
            "completed, forgiven: no_done, unterminated",
        ),
        (
            Failed(StreamError("upstream", "Slow down", "rate_limit", 429, True)),
            "failed, the provider reported an error (rate_limit, 429, retryable): Slow down",
        ),
        (
            Failed(StreamError("upstream", "No", "400", 400, False)),
            "failed, the provider reported an error (400): No",
        ),
        (Failed(StreamError("upstream", "No")), "failed, the provider reported an error: No"),
        (
            Failed(StreamError("too_large", "max_event_bytes of 9 passed", "max_event_bytes")),
            "failed, too large: max_event_bytes of 9 passed",
        ),
        (Failed(StreamError("malformed", "bad")), "failed, malformed: bad"),
        (Truncated(StreamError("truncated", "cut")), "truncated: cut"),
        (Truncated(StreamError("stalled", "late")), "stalled: late"),
        (None, "still open"),
        (Abandoned(), "still open"),
    ],
)
def test_outcome_distinguishes_provider_and_connection_failures(
    outcome: Outcome | None, line: str
) -> None:
    assert field(Report(outcome=outcome), "outcome") == [line]


def test_losses_and_notes_are_one_a_line() -> None:
    lost = (Loss("refusal", "block", 1, "written as text"), Loss("opaque", "x", 1200, "dropped"))
    report = Report(
        losses={"anthropic": lost, "openai_chat": ()},
        notes=(Note("minted_id", "tool call", 2), Note("gap", "stream")),
    )
    assert field(report, "losses") == [
        "anthropic: refusal in block, 1 × written as text",
        "anthropic: opaque in x, 1,200 × dropped",
        "openai_chat: none",
    ]
    assert field(report, "notes") == ["minted_id in tool call, 2 ×", "gap in stream, 1 ×"]


def test_long_fields_are_wrapped_and_end_after_a_few_lines() -> None:
    words = Failed(StreamError("malformed", "word " * 10_000))
    lines = field(Report(outcome=words), "outcome", 80)
    assert lines[0] == "failed, malformed: " + " ".join(["word"] * 10)
    assert len(lines) <= 5
    assert lines[-1].endswith("…")
    wide = field(Report(model="今" * 400), "model", 80)
    assert max(map(count_columns, wide)) == 70
    assert wide[-1].endswith("…")


def test_blank_field_has_its_label() -> None:
    assert field(Report(model="   "), "model") == [""]


# Hostile bytes


def hostile(text: str) -> Report:
    """Return a report with a text of the peer wherever there can be one."""
    track = Track(
        *("tool call", text, text, 0, 1, None, 2, 9, 9),
        *(text[:HEAD_CHARS], text, 1, 1, text),
        cuts=0b1101,
    )
    return Report(
        dialect=text,
        server=text,
        id=text,
        model=text,
        events=3,
        tracks=(track,),
        stops=(MessageStop("other", text, text),),
        outcome=Failed(StreamError("upstream", text, text)),
        losses={text: (Loss(text, text, 1, text),)},
        holds={text: (Hold(block=0, behind=3, deltas=1, chars=1, start=1),)},
        notes=(Note(text, text),),
    )


def test_no_field_passes_an_escape_sequence_to_the_terminal() -> None:
    page = "\n".join(render(hostile(ESCAPE), ESCAPE, Style(width=200)))
    assert "\x1b" not in page
    assert "\x07" not in page
    # In the name, 4 of the heading, name, head, facts (3), stop (2), error (2), loss (4), note (2),
    # wait (1).
    assert page.count(r"\x1b]0;owned\x07") == 21


@given(
    st.text(st.characters(exclude_categories=()), max_size=300),
    st.integers(MIN_WIDTH, 200),
    st.booleans(),
)
def test_any_lines_are_printable_and_fit_the_width(text: str, width: int, ascii: bool) -> None:
    for line in render(hostile(text), text, Style(width=width, glyphs=ASCII if ascii else BOX)):
        assert line.isprintable()
        assert count_columns(line) <= width
        assert line.isascii() or not ascii


def test_state_in_a_log_follows_the_outcome() -> None:
    lines = render(Report(state="cancelled"), "a")
    assert lines[lines.index("outcome   still open") + 1] == "state     cancelled"
    assert not any(line.startswith("state") for line in render(Report(), "a"))
