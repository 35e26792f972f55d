"""`<think>` tags at the start of a choice."""

from __future__ import annotations

import pytest
from hypothesis import given
from support.draws import Draws, draws
from support.openai_chat.chunks import DONE, call, calls, chunk, content, message

from streamnorm import Block, Reasoning, Text, ToolCall
from streamnorm.codec import decoder
from streamnorm.dialects.openai_chat.content import ThinkTags

END = chunk({}, "stop") + DONE
THOUGHT = Reasoning(("a",))


def blocks(*texts: str) -> tuple[Block, ...]:
    return message(*map(content, texts), END, think_tags=True).blocks


CASES: list[tuple[str, tuple[Block, ...]]] = [
    ("<think>a</think>b", (THOUGHT, Text("b"))),
    ("\n <think>a</think>\n\nb", (THOUGHT, Text("\n\nb"))),
    ("<think></think>b", (Text("b"),)),
    ("<think>a</think>", (THOUGHT,)),
    ("<think>a", (THOUGHT,)),
    ("<think>a</thin", (Reasoning(("a</thin",)),)),
    ("<think>a</thinker></think>b", (Reasoning(("a</thinker>",)), Text("b"))),
    ("<think>a</think>b<think>c</think>", (THOUGHT, Text("b<think>c</think>"))),
    ("b<think>a</think>", (Text("b<think>a</think>"),)),
    ("a</think>b", (Text("a</think>b"),)),
    ("<thinking>a", (Text("<thinking>a"),)),
    ("<thin", (Text("<thin"),)),
    ("  ", (Text("  "),)),
    ("plain", (Text("plain"),)),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_tags_at_the_start_of_a_choice_enclose_reasoning(
    text: str, expected: tuple[Block, ...]
) -> None:
    assert blocks(text) == expected
    assert blocks(*text) == expected


@given(draws(60))
def test_chunking_changes_no_block(d: Draws) -> None:
    parts = ("<think>", "</think>", "<", "</", "think>", "a", " ", "\n")
    text = "".join(d.some(8, lambda: d.pick(parts)))
    assert blocks(*d.cut(text, 8)) == blocks(*([text] if text else []))


def test_only_a_possible_tag_is_held() -> None:
    tags = ThinkTags()
    assert tags.feed(" <th") == []
    assert tags.feed("ink>ab") == [("reasoning", "ab")]
    assert tags.feed("c</th") == [("reasoning", "c")]
    assert tags.feed("x") == [("reasoning", "</thx")]
    assert tags.feed("</think>d") == [("text", "d")]
    assert tags.feed("<think>") == [("text", "<think>")]
    assert tags.close() == []


def test_held_white_space_is_bounded() -> None:
    tags = ThinkTags()
    held = sum(not tags.feed(" ") for _ in range(5000))
    assert held <= 1024
    assert ThinkTags().feed(" " * 2000 + "<think>a") == [("text", " " * 2000 + "<think>a")]


def test_each_choice_has_tags_of_its_own() -> None:
    frames = (content("<think>a"), content("b", choice=1), content("</think>c"))
    ends = (chunk({}, "stop"), chunk({}, "stop", 1), DONE)
    assert message(*frames, *ends, think_tags=True).blocks == (THOUGHT, Text("c"))
    assert message(*frames, *ends, think_tags=True, choice=1).blocks == (Text("b"),)


def test_partial_tag_is_released_at_the_end() -> None:
    frames = (content("<think>a</t"), calls(call(0, "x", "f", "{}")), END)
    assert message(*frames, think_tags=True).blocks == (
        *(THOUGHT, ToolCall("x", "f", "{}"), Reasoning(("</t",))),
    )


def test_text_after_the_tags_is_not_held() -> None:
    reader = decoder("openai_chat", think_tags=True)
    reader.feed(content("<think>a</think>b"))
    assert [event.text for event in reader.feed(content("c")) if hasattr(event, "text")] == ["c"]


def test_tags_are_text_without_the_option() -> None:
    assert message(content("<think>a</think>b"), END).blocks == (Text("<think>a</think>b"),)
