"""The diff of two requests."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamnorm.recording.format import RecordedRequest
from streamnorm.recording.matching import diff_requests, measure_similarity


def post(body: Any, url: str = "/v1/x") -> RecordedRequest:
    return RecordedRequest("POST", url, {}, body)


def diff(recorded: Any, asked: Any) -> list[str]:
    return diff_requests(post(asked), post(recorded), "01-x").split("\n")


def test_diff_is_from_the_recorded_request_to_the_new_one() -> None:
    assert diff({"model": "a", "n": [1, {}]}, {"model": "b", "n": [1, {}]}) == [
        "--- recorded: 01-x",
        "+++ asked",
        "@@ -1,6 +1,6 @@",
        " POST /v1/x",
        " {",
        '-  "model": "a",',
        '+  "model": "b",',
        '   "n": [',
        "     1,",
        "     {},",
    ]


def test_same_requests_have_no_diff() -> None:
    assert diff_requests(post({"a": 1}), post({"a": 1}), "01-x") == ""


def test_members_are_in_the_order_of_the_recording() -> None:
    lines = diff({"a": 1, "b": {"c": 1, "d": 2}}, {"new": 0, "b": {"d": 2, "c": 1}, "a": 1})
    assert [line for line in lines[2:] if line[0] in "+-"] == ['+  "new": 0,']


def test_items_of_arrays_are_compared_in_the_order_of_the_recording() -> None:
    lines = diff([{"a": 1, "b": 2}], [{"b": 2, "a": 1}, {"c": 3}])
    assert [line for line in lines[2:] if line[0] in "+-"] == ["+  {", '+    "c": 3,', "+  },"]


def test_removed_items_are_shown_as_removed() -> None:
    lines = diff([{"a": 1}, 2, 3], [{"a": 1}])
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-  2,", "-  3,"]


def test_text_of_several_lines_is_several_lines() -> None:
    lines = diff({"t": 'one\ntwo "2"\nthree'}, {"t": 'one\nzwei "2"\nthree'})
    assert lines[3:] == [
        " POST /v1/x",
        " {",
        '   "t": "one\\n',
        '-    two \\"2\\"\\n',
        '+    zwei \\"2\\"\\n',
        '     three",',
        " },",
    ]


def test_method_and_url_are_compared() -> None:
    lines = diff_requests(post(None, "/v1/x?a=1"), post(None, "/v1/x"), "01-x").split("\n")
    assert lines[3:5] == ["-POST /v1/x", "+POST /v1/x?a=1"]


def test_bodies_that_are_no_json_are_shown() -> None:
    text = RecordedRequest("POST", "/", {}, text="a\nb\x1b")
    kept = RecordedRequest("POST", "/", {}, bytes=12)
    assert diff_requests(kept, text, "n").split("\n")[4:] == ["-a", "-b\\u001b", "+(12 bytes)"]


def test_long_lines_are_cut_around_what_differs() -> None:
    head, tail = "h" * 5_000_000, "t" * 5000
    removed, added = diff(f"{head}ONE{tail}", f"{head}TWO{tail}")[-2:]
    assert "ONE" in removed
    assert "TWO" in added
    assert (len(removed), len(added)) == (203, 203)  # the mark, and what stands for the rest
    assert removed.startswith("-…h")
    assert removed.endswith("t…")


def test_line_of_two_hundred_characters_is_whole() -> None:
    assert diff("a" * 197, "b")[-2] == '-"' + "a" * 197 + '",'
    assert diff("a" * 198, "b")[-2] == '-"' + "a" * 198 + '"…'


def test_diff_has_at_most_sixty_lines() -> None:
    lines = diff(list(range(1000)), list(range(2000, 3000)))
    assert len(lines) == 63  # with the names before, and a line that tells of the rest
    assert re.fullmatch("… [0-9]+ more lines", lines[-1])


def test_lines_that_are_not_compared_are_reported() -> None:
    before = [*[0] * 10, *range(500)]
    after = [*[0] * 10, *range(1, 500), 999]
    assert diff(before, [*before[:-1], 1])[-1] != "… more lines, not compared"
    assert diff(before, after)[-1] == "… more lines, not compared"


def test_four_hundred_lines_from_the_first_difference_are_compared() -> None:
    before = list(range(1000))
    near, far = [-1, *range(1, 300), -2, *range(301, 1000)], [-1, *range(1, 999), -2]
    assert "+  -2," in diff(before, near)
    assert "+  -2," not in diff(before, far)


def test_large_bodies_are_not_compared_in_the_square_of_their_lines() -> None:
    size = 5_000
    before = {"items": [{"same": "same"}] * size}
    after = {"first": 1, "items": [{"same": "same", "n": n} for n in range(size)]}
    assert len(diff(before, after)) <= 63


def test_position_of_a_late_difference_is_reported() -> None:
    before = list(range(1000))
    after = [*before[:900], -1, *before[901:]]
    assert diff(before, after)[2] == "@@ -900,7 +900,7 @@"


def test_lone_surrogates_can_be_printed() -> None:
    text = diff_requests(post("\ud800"), post("a"), "n")
    assert text.encode().endswith(b'+"\\ud800",')


def test_similarity_is_the_share_of_common_lines() -> None:
    one = post({"a": 1, "b": 2})
    assert measure_similarity(one, one) == 1
    assert measure_similarity(one, post({"a": 1, "b": 3})) == pytest.approx(0.8)
    assert measure_similarity(post(1, "/a"), post(2, "/b")) == 0
