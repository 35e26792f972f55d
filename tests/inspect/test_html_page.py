"""The page of a stream: its data, and that nothing in it is executed or loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import re

from support.cli.html_pages import Page
from support.cli.inspect_command import ATTACK, END
from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame, reasoning
from support.operation_counts import lines

from streamnorm.inspect import Survey
from streamnorm.inspect.html_page import PageWriter

MARKUP = "</script><!--<script><img src=//evil.example onerror=alert(1)>&amp;"
OVERLAP = (
    calls(call(0, "a", "f", "{")),
    calls(call(1, "b", "g", '{"x"')),
    calls(call(0, arguments="}")),
    calls(call(1, arguments=":1}")),
    chunk({}, "tool_calls") + DONE,
)


def write_page(
    *reads: bytes, name: str = "a.sse", target: str | None = None, gap_ms: int | None = None
) -> Page:
    written: list[bytes] = []
    targets = [] if target is None else [target]
    survey = Survey(targets=targets, timed=gap_ms is not None)
    writer = PageWriter(written.append, name, target)
    for data in reads:
        writer.add(survey.feed(data, gap_ms or 0))
    writer.add(survey.close())
    writer.finish(survey.report())
    return Page(b"".join(written))


def data_of(raw: bytes) -> str:
    """Return the data of the frames of `support.openai_chat.chunks`."""
    return raw.decode().removeprefix("data: ").removesuffix("\n\n")


def test_rows_are_frames_with_their_events() -> None:
    first, second, last = content("It"), content(" snows."), chunk({}, "stop")
    page = write_page(first, second + last + DONE, gap_ms=250)
    started = [
        ["message_start", None, None, '{"id":"chatcmpl-1","model":"gpt"}'],
        ["block_start", 0, None, '{"block":{"type":"text"}}'],
        ["text_delta", 0, "It", None],
    ]
    # A message of Chat Completions may get usage behind its finish reason: it ends with [DONE].
    ended = [
        ["block_stop", 0, None, None],
        ["message_stop", None, None, '{"reason":"end_turn","raw_reason":"stop"}'],
    ]
    assert page.chunks == [
        [
            [250, "message", data_of(first), started, []],
            [500, "message", data_of(second), [["text_delta", 0, " snows.", None]], []],
            [500, "message", data_of(last), [], []],
            [500, "message", "[DONE]", ended, []],
        ]
    ]
    stream = page.stream
    assert stream["chunks"] == [[0, 0, 250]]
    assert (stream["frames"], stream["timed"], stream["length"]) == (4, True, 501)
    (block,) = stream["blocks"]
    assert (block["kind"], block["head"], block["start_ms"]) == ("text", "It snows.", 250)
    # Milliseconds 250 and 500.
    assert int(block["busy"], 16) == 1 << 250 | 1 << 500
    assert ["outcome", ["completed"], False] in stream["facts"]
    assert (stream["gaps"], stream["holds"]) == ([[250, 1]], [])
    # The chunks of these tests have no field `object`.
    assert stream["violations"][0] == [0, "object is missing, expected chat.completion.chunk"]


def test_frames_of_the_target_stand_beside_the_frame_that_released_them() -> None:
    page = write_page(*OVERLAP, target="anthropic")
    (rows,) = page.chunks
    names = [[name for name, _ in written] for *_, written in rows]
    # The second call waits for the end of the first.  A call starts with an empty delta.
    start, delta, stop = "content_block_start", "content_block_delta", "content_block_stop"
    assert names == [
        ["message_start", start, delta, delta],
        [],
        [delta],
        [],
        [],
        [stop, start, delta, delta, stop, "message_delta", "message_stop"],
    ]
    assert json.loads(rows[5][4][3][1])["delta"]["partial_json"] == '{"x":1}'
    stream = page.stream
    assert stream["target"] == "anthropic"
    (hold,) = stream["holds"]
    assert (hold["block"], hold["behind"], hold["deltas"], hold["chars"]) == (1, 0, 2, 7)


def test_stream_in_the_dialect_of_the_target_has_one_side() -> None:
    page = write_page(*OVERLAP, target="openai_chat")
    assert page.stream["target"] is None
    assert [row[4] for row in page.chunks[0]] == [[]] * 6


def test_nothing_of_the_stream_is_markup() -> None:
    tool = calls(call(0, MARKUP, MARKUP, json.dumps({MARKUP: ATTACK})))
    broken = frame({"choices": MARKUP}) + frame({"error": {"message": MARKUP}})
    page = write_page(tool, content(MARKUP), broken, name=MARKUP)
    harmless = write_page(content("a"), END)
    shape = [(tag, sorted(given)) for tag, given, _ in page.elements]
    assert shape == [(tag, sorted(given)) for tag, given, _ in harmless.elements]
    assert page.texts("title") == page.texts("h1") == [MARKUP]
    assert page.stream["blocks"][0]["name"] == MARKUP
    assert [label for label, _, is_bad in page.stream["facts"] if is_bad] == ["outcome"]


def test_policy_allows_the_script_and_the_style_alone() -> None:
    page = write_page(content("a"), END)
    (policy,) = [
        given["content"] for _, given, _ in page.elements if given.get("http-equiv") is not None
    ]
    scripts = [
        text for tag, given, text in page.elements if tag == "script" and "type" not in given
    ]
    hashes = [
        base64.b64encode(hashlib.sha256("".join(text).encode()).digest()).decode()
        for text in (*scripts, page.texts("style"))
    ]
    assert len(hashes) == 2
    assert policy == (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'"
    )


def test_page_names_nothing_to_load_and_handles_no_event_in_markup() -> None:
    page = write_page(content("a"), END)
    for tag, given, _ in page.elements:
        assert not [name for name in given if name.startswith("on") or name in ("src", "style")]
        assert given.get("href", "data:,") == "data:,", tag
    (style,) = page.texts("style")
    assert not re.search(r"url\(|@import", style)


def test_long_stream_is_cut_into_chunks_as_it_is_read() -> None:
    written: list[bytes] = []
    survey = Survey()
    writer = PageWriter(written.append, "a.sse")
    for at in range(2500):
        writer.add(survey.feed(content(f"{at} "), 1))
    # The head and two chunks of 1,024 frames.
    assert len(written) == 3
    writer.add(survey.feed(END))
    writer.add(survey.close())
    writer.finish(survey.report())
    page = Page(b"".join(written))
    assert [len(rows) for rows in page.chunks] == [1024, 1024, 454]
    # Each frame has one event; the first has two more, start of message and block.
    assert page.stream["chunks"] == [[0, 0, None], [1024, 1026, None], [2048, 2050, None]]


def test_chunk_of_large_frames_has_fewer() -> None:
    large = [content("x" * 200_000) for _ in range(3)]
    page = write_page(*large, END)
    assert [len(rows) for rows in page.chunks] == [2, 3]


def test_chunk_waits_for_the_frame_behind_it() -> None:
    # 262,144 characters of data fill a chunk, but the last frame may get further events.
    rest = 256 * 1024 - len(data_of(content("")))
    for size, chunks in ((rest, 1), (rest - 1, 0)):
        written: list[bytes] = []
        survey = Survey()
        writer = PageWriter(written.append, "a.sse")
        writer.add(survey.feed(content("x" * size)))
        assert len(written) == 1
        writer.add(survey.feed(content("y")))
        assert len(written) == 1 + chunks


def test_steps_are_linear_in_the_frames_of_a_chunk() -> None:
    def steps(count: int) -> int:
        survey = Survey()
        reads = [survey.feed(content("a")) for _ in range(count)]

        def write() -> None:
            writer = PageWriter(len, "a.sse")
            for read in reads:
                writer.add(read)

        return lines(write)

    assert steps(800) < 2.2 * steps(400)


def test_error_outside_any_frame_is_a_row() -> None:
    page = write_page(b'{"error": {"message": "No such model."}}')
    assert page.chunks == [
        [
            [
                None,
                "message",
                "",
                [["stream_error", None, None, '{"kind":"upstream","message":"No such model."}']],
                [],
            ]
        ]
    ]


def test_texts_are_scrubbed_of_secrets() -> None:
    written: list[bytes] = []
    survey = Survey(targets=["anthropic"])
    writer = PageWriter(
        written.append, "a.sse", "anthropic", lambda text: text.replace("key", "xxx")
    )
    writer.add(survey.feed(content("a key") + calls(call(0, "key", "f", "{}")) + END))
    writer.add(survey.close())
    writer.finish(survey.report())
    (rows,) = Page(b"".join(written)).chunks
    assert "key" not in str(rows)
    assert (rows[0][3][2][2], str(rows).count("a xxx")) == ("a xxx", 3)


def test_page_of_a_stream_that_has_not_begun() -> None:
    written: list[bytes] = []
    writer = PageWriter(written.append, "a.sse")
    writer.finish(Survey().report())
    page = Page(b"".join(written))
    assert (page.chunks, page.stream["frames"], page.stream["length"]) == ([], 0, 1)


def test_text_of_each_kind_of_delta_is_a_field_of_its_own() -> None:
    page = write_page(reasoning("Hm"), calls(call(0, "a", "f", "{}")), END)
    texts = [(name, text) for row in page.chunks[0] for name, _, text, _ in row[3] if text]
    assert texts == [("reasoning_delta", "Hm"), ("json_delta", "{}")]


def test_name_that_is_no_utf_8_is_shown() -> None:
    page = write_page(content("a"), END, name="\udcff.sse")
    assert page.texts("h1") == [r"\udcff.sse"]
