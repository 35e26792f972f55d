"""Content parts."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_responses.requests import read_items, write_items

from streamnorm import DecodeError
from streamnorm._core.blocks import (
    Audio,
    CacheMark,
    Citation,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.request import InputMessage
from streamnorm._core.losses import Loss, Losses

OWN = "openai_responses"
PNG = "data:image/png;base64,iVBORw0="
PDF = "data:application/pdf;base64,JVBERi0xLjc="

# Parts that are read as a block, and written as the same part.
PARTS: dict[str, tuple[dict[str, Any], InputBlock]] = {
    "text": ({"type": "input_text", "text": "a"}, Text("a")),
    "mark": (
        {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
        Text("a", cache=CacheMark()),
    ),
    "mark with a lifetime": (
        {
            "type": "input_text",
            "text": "a",
            "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"},
        },
        Text("a", cache=CacheMark("12h")),
    ),
    "mark in another mode": (
        {"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "lazy"}},
        Text("a", extra={OWN: {"prompt_cache_breakpoint": {"mode": "lazy"}}}),
    ),
    "mark with a lifetime that is no text": (
        {
            "type": "input_text",
            "text": "a",
            "prompt_cache_breakpoint": {"mode": "explicit", "ttl": 5},
        },
        Text("a", extra={OWN: {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": 5}}}),
    ),
    "unknown field": (
        {"type": "input_text", "text": "a", "x": None},
        Text("a", extra={OWN: {"x": None}}),
    ),
    "inline image": (
        {"type": "input_image", "image_url": PNG, "detail": "low"},
        Image("image/png", "iVBORw0=", detail="low"),
    ),
    "image by URL": (
        {"type": "input_image", "image_url": "https://a/b.png", "detail": "auto"},
        Image(url="https://a/b.png", detail="auto"),
    ),
    "data URL without Base64": (
        {"type": "input_image", "image_url": "data:image/svg+xml,<svg/>", "detail": "auto"},
        Image(url="data:image/svg+xml,<svg/>", detail="auto"),
    ),
    "uploaded image": (
        {
            "type": "input_image",
            "file_id": "file_1",
            "detail": "high",
            "prompt_cache_breakpoint": {"mode": "explicit"},
        },
        Image(file_id="file_1", detail="high", issuer="openai", cache=CacheMark()),
    ),
    "PDF": (
        {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
        Document("application/pdf", "JVBERi0xLjc=", title="a.pdf"),
    ),
    "text file": (
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,w6Q="},
        Document("text/plain", "ä", title="a.txt"),
    ),
    "file by URL": (
        {"type": "input_file", "file_url": "https://a/b.pdf", "detail": "low"},
        Document(url="https://a/b.pdf", extra={OWN: {"detail": "low"}}),
    ),
    "uploaded file": (
        {"type": "input_file", "file_id": "file_1"},
        Document(file_id="file_1", issuer="openai"),
    ),
    "audio": (
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        OpaqueBlock(
            OWN,
            "input_audio",
            '{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}',
        ),
    ),
    "image without content": (
        {"type": "input_image", "detail": "auto"},
        OpaqueBlock(OWN, "input_image", '{"type":"input_image","detail":"auto"}'),
    ),
    "file without content": (
        {"type": "input_file", "filename": "a"},
        OpaqueBlock(OWN, "input_file", '{"type":"input_file","filename":"a"}'),
    ),
    "file that is no Base64 of a known type": (
        {"type": "input_file", "file_data": "AAAA"},
        OpaqueBlock(OWN, "input_file", '{"type":"input_file","file_data":"AAAA"}'),
    ),
    "text file that is no text": (
        {"type": "input_file", "file_data": "data:text/plain;base64,/w=="},
        OpaqueBlock(
            OWN, "input_file", '{"type":"input_file","file_data":"data:text/plain;base64,/w=="}'
        ),
    ),
}


@pytest.mark.parametrize(("part", "block"), PARTS.values(), ids=PARTS)
def test_part_is_a_block_and_back(part: dict[str, Any], block: InputBlock) -> None:
    # A second block, since a text alone is written as a string.
    content = [part, {"type": "input_text", "text": "b"}]
    (message,) = read_items({"role": "user", "content": content})
    assert message.blocks == (block, Text("b"))
    assert write_items(message) == [{"role": "user", "content": content}]


@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
def test_text_is_read_under_each_of_its_names(kind: str) -> None:
    """Some clients write the parts of answers, and those of Chat Completions, as input."""
    (message,) = read_items({"role": "user", "content": [{"type": kind, "text": "a"}]})
    assert message == InputMessage("user", (Text("a"),))


def test_refusal_in_a_message_of_the_user_is_a_refusal() -> None:
    (message,) = read_items({"role": "user", "content": [{"type": "refusal", "refusal": "no"}]})
    assert message.blocks == (Refusal("no"),)


def test_pdf_without_a_data_url_is_a_pdf() -> None:
    part = {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0xLjc="}
    (message,) = read_items({"role": "user", "content": [part]})
    assert message.blocks == (Document("application/pdf", "JVBERi0xLjc=", title="a.pdf"),)


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (Document("application/pdf", "JVBERi0="), "untitled.pdf"),
        (Document(None, "JVBERi0="), "untitled.pdf"),
        (Document("text/csv", "a,b"), "untitled.bin"),
    ],
)
def test_file_content_has_a_name(document: Document, name: str) -> None:
    ((item,),) = [write_items(InputMessage("user", (document,)))]
    (part,) = item["content"]
    assert part["filename"] == name


def test_image_of_unknown_type_is_written_as_png() -> None:
    (item,) = write_items(InputMessage("user", (Image(data="iVBORw0="),)))
    assert item["content"] == [{"type": "input_image", "image_url": PNG, "detail": "auto"}]


@pytest.mark.parametrize(
    ("kind", "detail"), [("function", {}), ("custom", {"detail": "auto"})], ids=str
)
def test_images_in_results_need_a_detail_in_custom_results_alone(
    kind: Any, detail: dict[str, str]
) -> None:
    result = ToolResult("c", (Image("image/png", "iVBORw0="),))
    items = write_items(
        InputMessage("assistant", (ToolCall("c", "f", "{}", kind),)),
        InputMessage("user", (result,)),
    )
    assert items[1]["output"] == [{"type": "input_image", "image_url": PNG, **detail}]


def test_parts_that_do_not_exist_are_losses() -> None:
    losses = Losses()
    foreign = OpaqueBlock("anthropic", "x", "{}")
    blocks = (Text("a"), Audio("audio/wav", "AA=="), Video("video/mp4", "AA=="), foreign)
    result = ToolResult("c", (Text("b"), Audio("audio/wav", "AA==")))
    items = write_items(
        InputMessage("user", blocks), InputMessage("user", (result,)), losses=losses
    )
    text = [{"type": "input_text", "text": "a"}]
    assert items[0] == {"role": "user", "content": text}
    assert items[1]["output"] == [{"type": "input_text", "text": "b"}]
    assert losses.list() == (
        Loss("audio_dropped", "messages", 1, "no content part has it"),
        Loss("video_dropped", "messages", 1, "no content part has it"),
        Loss("OpaqueBlock", "messages", 1, "no content part has it"),
        Loss("audio_dropped", "tool result", 1, "no content part has it"),
    )


def test_annotations_are_citations() -> None:
    annotation = {
        "type": "url_citation",
        "url": "https://a",
        "title": "A",
        "start_index": 0,
        "end_index": 1,
    }
    part = {"type": "output_text", "text": "a", "annotations": [annotation], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    (message,) = read_items({**item, "content": [part]})
    (text,) = message.blocks
    assert isinstance(text, Text)
    assert text.citations == (Citation("url_citation", "https://a", "A", start=0, end=1),)
    del part["logprobs"]
    assert write_items(message) == [{**item, "content": [part]}]


@pytest.mark.parametrize(
    ("content", "path", "problem"),
    [
        (5, "$.input[0].content", "an integer, expected an array"),
        (["a"], "$.input[0].content[0]", "a string of 1 characters, expected an object"),
        ([{"text": "a"}], "$.input[0].content[0].type", "missing, expected a string"),
        ([{"type": []}], "$.input[0].content[0].type", "an array, expected a string"),
        ([{"type": "input_text"}], "$.input[0].content[0].text", "missing, expected a string"),
        (
            [{"type": "input_image", "image_url": {"url": "a"}}],
            "$.input[0].content[0].image_url",
            "an object, expected a string",
        ),
        (
            [{"type": "output_text", "text": "a", "annotations": 1}],
            "$.input[0].content[0].annotations",
            "an integer, expected an array",
        ),
    ],
)
def test_other_content_is_refused_with_its_path(content: Any, path: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_items({"role": "user", "content": content})
    assert (caught.value.path, caught.value.args[0]) == (path, problem)
