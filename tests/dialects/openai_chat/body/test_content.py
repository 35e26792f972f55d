"""Content of messages: a string or parts, read and written."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.sdk_types import problems
from support.openai_chat.requests import asked, message, read_message, write

from streamnorm import (
    Audio,
    CacheMark,
    DecodeError,
    Document,
    EncodeError,
    Image,
    InputBlock,
    OpaqueBlock,
    Refusal,
    Text,
    Video,
)
from streamnorm._core.losses import Losses

PNG = "data:image/png;base64,aGk="
PDF = "data:application/pdf;base64,aGk="

BOTH_WAYS: dict[str, tuple[dict[str, Any], InputBlock]] = {
    "text with a mark": (
        {"type": "text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}},
        Text("Hi", cache=CacheMark()),
    ),
    "text with a mark of a lifetime": (
        {
            "type": "text",
            "text": "Hi",
            "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"},
        },
        Text("Hi", cache=CacheMark("12h")),
    ),
    "image by URL": (
        {"type": "image_url", "image_url": {"url": "https://a.example/a.png"}},
        Image(url="https://a.example/a.png"),
    ),
    "image with detail": (
        {"type": "image_url", "image_url": {"url": PNG, "detail": "original"}},
        Image("image/png", "aGk=", detail="original"),
    ),
    "sound": (
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        Audio("audio/wav", "aGk="),
    ),
    "other sound": (
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        Audio("audio/mp3", "aGk="),
    ),
    "document": (
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
        Document("application/pdf", "aGk=", title="a.pdf"),
    ),
    "document without a name": (
        {"type": "file", "file": {"filename": "untitled.pdf", "file_data": PDF}},
        Document("application/pdf", "aGk="),
    ),
    "uploaded document": (
        {"type": "file", "file": {"file_id": "file-1"}},
        Document(file_id="file-1", issuer="openai"),
    ),
    "uploaded document with a name": (
        {"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}},
        Document(file_id="file-1", title="a.pdf", issuer="openai"),
    ),
}


@pytest.mark.parametrize(("part", "block"), BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_parts_are_read_and_written(part: dict[str, Any], block: InputBlock) -> None:
    assert read_message({"role": "user", "content": [part]}).blocks == (block,)
    body = write(asked(message("user", block)))
    assert body["messages"] == [{"role": "user", "content": [part]}]
    assert problems("openai_chat", body) == []


SERVERS: dict[str, tuple[Any, InputBlock]] = {
    "text alone": ("Hi", Text("Hi")),
    "mark of OpenRouter": (
        {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        Text("Hi", cache=CacheMark("1h")),
    ),
    "URL alone": ({"type": "image_url", "image_url": PNG}, Image("image/png", "aGk=")),
    "image without a media type": (
        {"type": "image_url", "image_url": {"url": "data:;base64,aGk="}},
        Image(None, "aGk="),
    ),
    "image that is no Base64": (
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg/>"}},
        Image(url="data:image/svg+xml,<svg/>"),
    ),
    "image without a comma": (
        {"type": "image_url", "image_url": {"url": "DATA:image/png;base64"}},
        Image(url="DATA:image/png;base64"),
    ),
    "sound alone": ({"type": "input_audio", "input_audio": "aGk="}, Audio("audio/wav", "aGk=")),
    "sound as a data URL": (
        {"type": "input_audio", "input_audio": {"data": "data:;base64,aGk=", "format": "mp3"}},
        Audio("audio/mp3", "aGk="),
    ),
    "sound as a data URL with a type": (
        {"type": "input_audio", "input_audio": {"data": "data:audio/ogg;base64,aGk="}},
        Audio("audio/ogg", "aGk="),
    ),
    "document by URL": (
        {"type": "file", "file": {"file_data": "https://a.example/a.pdf"}},
        Document(url="https://a.example/a.pdf"),
    ),
    "document of Base64 alone": (
        {"type": "file", "file": {"file_data": "aGk="}},
        Document("application/pdf", "aGk="),
    ),
    "document of text": (
        {"type": "file", "file": {"file_data": "data:text/plain;base64,SGkg4oKs"}},
        Document("text/plain", "Hi €"),
    ),
}


@pytest.mark.parametrize(("part", "block"), SERVERS.values(), ids=SERVERS)
def test_parts_of_servers_are_read(part: Any, block: InputBlock) -> None:
    assert read_message({"role": "user", "content": [part]}).blocks == (block,)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "video_url", "video_url": {"url": "https://a.example/a.mp4"}},
        {"type": "file", "file": {"filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": "data:text/plain;base64,gA=="}},
    ],
)
def test_a_part_without_a_block_of_its_own_is_opaque(part: dict[str, Any]) -> None:
    read = read_message({"role": "user", "content": [part, {"type": "text", "text": "?"}]})
    (opaque, _) = read.blocks
    assert isinstance(opaque, OpaqueBlock)
    assert (opaque.dialect, opaque.kind) == ("openai_chat", part["type"])
    (written,) = write(asked(read))["messages"]
    assert written["content"][0] == part


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "Hi", "citations": None, "x": 1},
        {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "scope": "x"}},
        {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": 5}},
        {"type": "text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "implicit"}},
        {"type": "text", "text": "Hi", "prompt_cache_breakpoint": True},
        {"type": "image_url", "image_url": {"url": PNG, "detail": None, "fps": 2}, "x": None},
        {"type": "input_audio", "input_audio": {"data": "a", "format": "wav", "x": 1}},
        {"type": "file", "file": {"file_id": "f", "x": 1}},
    ],
)
def test_other_fields_of_a_part_are_kept(part: dict[str, Any]) -> None:
    read = read_message({"role": "user", "content": [part]})
    assert "openai_chat" in (read.blocks[0].extra or {})
    assert write(asked(read))["messages"] == [{"role": "user", "content": [part]}]


def test_a_second_mark_is_kept_beside_the_first() -> None:
    first, second = {"mode": "explicit"}, {"type": "ephemeral"}
    part = {
        "type": "text",
        "text": "Hi",
        "prompt_cache_breakpoint": first,
        "cache_control": second,
    }
    read = read_message({"role": "user", "content": [part]})
    extra = {"openai_chat": {"cache_control": second}}
    assert read.blocks == (Text("Hi", cache=CacheMark(), extra=extra),)


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (5, "content"),
        ({"type": "text"}, "content"),
        ([5], "content[0]"),
        ([{"text": "Hi"}], "content[0].type"),
        ([{"type": "text"}], "content[0].text"),
        ([{"type": "text", "text": 5}], "content[0].text"),
        ([{"type": "refusal"}], "content[0].refusal"),
        ([{"type": "image_url"}], "content[0].image_url"),
        ([{"type": "image_url", "image_url": {}}], "content[0].image_url.url"),
        (
            [{"type": "image_url", "image_url": {"url": "u", "detail": 1}}],
            "content[0].image_url.detail",
        ),
        ([{"type": "input_audio"}], "content[0].input_audio"),
        ([{"type": "input_audio", "input_audio": {}}], "content[0].input_audio.data"),
        ([{"type": "file"}], "content[0].file"),
        (["Hi", {"type": "file", "file": {"file_data": 1}}], "content[1].file.file_data"),
    ],
)
def test_parts_of_wrong_types_are_refused_with_their_path(content: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_message({"role": "user", "content": content})
    assert caught.value.path == f"$.messages[0].{path}"


WRITTEN: dict[str, tuple[InputBlock, dict[str, Any]]] = {
    "image without a media type": (
        Image(None, "aGk="),
        {"type": "image_url", "image_url": {"url": PNG}},
    ),
    "uploaded image": (
        Image(file_id="file-1", issuer="openai"),
        {"type": "file", "file": {"file_id": "file-1"}},
    ),
    "text document": (
        Document("text/plain", "Hi €", title="a.txt"),
        {
            "type": "file",
            "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,SGkg4oKs"},
        },
    ),
    "document without a name": (
        Document("application/x", "aGk="),
        {
            "type": "file",
            "file": {"filename": "untitled.bin", "file_data": "data:application/x;base64,aGk="},
        },
    ),
    "document by URL": (
        Document(url="https://a.example/a.pdf"),
        {
            "type": "file",
            "file": {"filename": "untitled.pdf", "file_data": "https://a.example/a.pdf"},
        },
    ),
    "sound by another name": (
        Audio("audio/x-wav", "aGk="),
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
    ),
}


@pytest.mark.parametrize(("block", "part"), WRITTEN.values(), ids=WRITTEN)
def test_blocks_of_other_dialects_are_written(block: InputBlock, part: dict[str, Any]) -> None:
    body = write(asked(message("user", block)))
    assert body["messages"] == [{"role": "user", "content": [part]}]
    assert problems("openai_chat", body) == []


def test_an_uploaded_image_is_one_of_all_files() -> None:
    losses = Losses()
    write(asked(message("user", Image(file_id="file-1", issuer="openai"))), losses)
    assert [loss.feature for loss in losses.list()] == ["image_as_file"]


def test_one_text_is_a_string_and_several_are_parts() -> None:
    body = write(asked(message("user", Text("A")), message("user", Text("A"), Text("B"))))
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert [value["content"] for value in body["messages"]] == ["A", parts]


@pytest.mark.parametrize("sound", [Audio("audio/ogg", "aGk="), Audio(url="https://a.example/a")])
def test_sound_of_other_formats_is_lost(sound: Audio) -> None:
    request = asked(message("user", sound, Text("?")), message("user", sound))
    losses = Losses()
    body = write(request, losses)
    contents = [value["content"] for value in body["messages"]]
    assert contents == [[{"type": "text", "text": "?"}], ""]
    (loss,) = losses.list()
    assert (loss.feature, loss.where, loss.count) == ("audio_dropped", "messages", 2)


def test_sound_is_a_data_url_where_a_server_wants_it() -> None:
    body = write(asked(message("user", Audio("audio/mp3", "aGk="))), audio_data_urls=True)
    (part,) = body["messages"][0]["content"]
    assert part["input_audio"] == {"data": "data:audio/mp3;base64,aGk=", "format": "mp3"}


def test_a_block_that_has_no_part_is_an_error() -> None:
    with pytest.raises(EncodeError, match=r"messages\[1\]: Video in a message, expected text"):
        write(asked(message("user", Text("?")), message("user", Video(url="u"))))


def test_a_refusal_of_a_user_is_written_as_it_was() -> None:
    part = {"type": "refusal", "refusal": "No."}
    read = read_message({"role": "user", "content": [part]})
    assert read.blocks == (Refusal("No."),)
    assert write(asked(read))["messages"] == [{"role": "user", "content": [part]}]
