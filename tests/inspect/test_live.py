"""A stream while it arrives, on a screen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.openai_chat.chunks import call, calls, chunk, content, reasoning

from streamnorm.inspect import Survey
from streamnorm.inspect.live import Tail, extend_tail, hide_last_word, render_live
from streamnorm.inspect.page import Style, join_spans
from streamnorm.inspect.printable import ASCII, count_columns
from streamnorm.inspect.report import Report
from streamnorm.inspect.summary import Track
from streamnorm.recording.secrets import redact_struct


def tail_of(*reads: bytes) -> Tail:
    run = Survey("openai_chat")
    tail = Tail()
    for data in reads:
        tail = extend_tail(tail, run.feed(data))
    return tail


def screen(report: Report, tail: Tail = Tail(), height: int = 24, width: int = 80) -> list[str]:  # noqa: B008 - frozen
    return join_spans(render_live(report, tail, "a", Style(width=width), height))


@pytest.mark.parametrize(
    ("reads", "tail"),
    [
        ([], Tail()),
        ([content("Hel"), content("lo")], Tail(0, "Hello")),
        ([reasoning("Hm. "), content("Yes")], Tail(1, "Yes")),
        ([chunk({"refusal": "No."})], Tail(0, "No.")),
        ([calls(call(0, "a", "f", '{"x"')), calls(call(0, arguments=":1}"))], Tail(0, '{"x":1}')),
        ([content("a" * 10_000), content("b")], Tail(0, "a" * 9215 + "b")),
    ],
)
def test_tail_is_the_end_of_the_block_that_grew_last(reads: list[bytes], tail: Tail) -> None:
    assert tail_of(*reads) == tail


def test_screen_has_the_bars_and_what_arrives() -> None:
    run = Survey("openai_chat")
    run.feed(content("Hello"))
    size = run.report().bytes
    assert screen(run.report(), Tail(0, "Hello")) == [
        "stream    a",
        f"          {size} bytes, 1 frame, 3 events of openai_chat",
        "blocks    1 in 3 events: █ of the block, ─ of others while it is open, > never",
        "          closed",
        "  #  kind  name  chars  bytes",
        "  0  text            5      5  │               ██████████████████████████████>",
        "block     0: Hello",
        "times     not recorded",
        "usage     input not said, output not said",
    ]


def test_stream_that_has_not_begun_has_no_tail() -> None:
    assert screen(Report())[-3:] == [
        "blocks    none",
        "times     not recorded",
        "usage     input not said, output not said",
    ]


def test_long_tail_is_two_lines_with_its_end() -> None:
    lines = screen(Report(), Tail(3, "old " * 300 + "the end"))
    start = next(n for n, line in enumerate(lines) if line.startswith("block "))
    assert lines[start].startswith("block     3: …")
    assert lines[start + 1].endswith("the end")
    assert lines[start + 2].startswith("times")


def hide(text: str) -> str:
    pieces = [content(text[at : at + 500]) for at in range(0, len(text), 500)]
    return hide_last_word(redact_struct(tail_of(*pieces))).text


def test_long_key_is_hidden_when_its_first_line_is_not_shown() -> None:
    lines = ["q7Rz" * 16] * 98  # a private key of 6,272 characters in base64
    text = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END"])
    for end in range(40, len(text), 397):
        assert "q7Rz" not in hide(text[:end])


def test_key_is_hidden_while_it_arrives() -> None:
    text = "key sk-proj-a1B2c3D4a1B2c3D4 ok"
    shown = {hide(text[:end]) for end in range(len(text) + 1)}
    assert shown == {"", "key ", f"key {'x' * 24} "}
    field = '{"password":"hun!ter2"}'
    shown = {hide(field[:end]) for end in range(len(field) + 1)}
    assert shown == {"", "{", '{"', '{"password"', '{"password":', '{"password":"'} | {
        '{"password":"xxxxxxxx"',
        '{"password":"xxxxxxxx"}',
    }


def test_characters_without_width_do_not_show_more() -> None:
    lines = screen(Report(), Tail(0, "q" + "\u0301" * 2000 + "b"))
    assert "q" not in "".join(lines).replace("sequence", "")


def test_many_blocks_leave_the_last_on_the_screen() -> None:
    tracks = tuple(Track("text", "", "", 0, n, n) for n in range(100))
    lines = screen(Report(events=100, tracks=tracks), Tail(99, "x"), height=20)
    assert len(lines) <= 19
    assert lines[2].startswith("blocks    100 in 100 events")
    rows = [line.split()[0] for line in lines if "│" in line]
    assert rows == [str(n) for n in range(100 - len(rows), 100)]
    assert lines[-3].startswith("block     99: x")


def test_small_screen_is_not_passed() -> None:
    tracks = tuple(Track("text", "", "", 0, n, n) for n in range(9))
    assert len(screen(Report(events=9, tracks=tracks), Tail(8, "x"), height=6)) == 5


@given(st.text(st.characters(exclude_categories=()), max_size=300), st.booleans())
def test_any_tail_is_printable_and_fits(text: str, ascii: bool) -> None:
    style = Style(width=80, glyphs=ASCII) if ascii else Style(width=80)
    report = Report(dialect=text, events=2, tracks=(Track("text", text, "", 0, 0, None),))
    for line in join_spans(render_live(report, Tail(0, text), text, style, 24)):
        assert line.isprintable()
        assert count_columns(line) <= 80
        assert line.isascii() or not ascii
