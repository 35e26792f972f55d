"""Files of a request: media types, Google's own URIs, and types that are guessed."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini.bodies import Written, blocks_of, contents_of, request_of

from streamnorm import Audio, Document, Image, OpaqueBlock, Video
from streamnorm._core.blocks import InputBlock

URL = "https://a.org/b"
MEDIUM = {"level": "MEDIA_RESOLUTION_MEDIUM"}
FILE = "https://generativelanguage.googleapis.com/v1beta/files/1"


def inline(media_type: str, data: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media_type, "data": data}}


def stored(media_type: str, uri: str) -> dict[str, Any]:
    return {"fileData": {"mimeType": media_type, "fileUri": uri}}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (inline("image/png", "iVBORw0="), Image("image/png", "iVBORw0=")),
        (inline("application/pdf", "JVBERg=="), Document("application/pdf", "JVBERg==")),
        (inline("text/plain", "w7w="), Document("text/plain", "ü")),
        (inline("audio/wav", "UklGRg=="), Audio("audio/wav", "UklGRg==")),
        (inline("video/mp4", "AAAA"), Video("video/mp4", "AAAA")),
        (stored("image/png", URL), Image("image/png", url=URL)),
        (stored("image/png", FILE), Image("image/png", file_id=FILE, issuer="google")),
        (
            {**inline("image/png", "AAAA"), "thoughtSignature": "c2ln"},
            Image("image/png", "AAAA", signature="c2ln", issuer="google"),
        ),
        (
            {**stored("image/png", FILE), "thoughtSignature": "c2ln"},
            Image("image/png", file_id=FILE, signature="c2ln", issuer="google"),
        ),
        (stored("text/plain", URL), Document("text/plain", url=URL)),
        (
            stored("application/pdf", "gs://b/c.pdf"),
            Document("application/pdf", file_id="gs://b/c.pdf", issuer="google"),
        ),
        (stored("audio/wav", FILE), Audio("audio/wav", url=FILE)),
        (stored("video/mp4", URL), Video("video/mp4", url=URL)),
        (
            {**inline("image/png", "AAAA"), "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}},
            Image("image/png", "AAAA", detail="low"),
        ),
        (
            {
                **stored("image/png", URL),
                "mediaResolution": {"level": "MEDIA_RESOLUTION_ULTRA_HIGH"},
            },
            Image("image/png", url=URL, detail="original"),
        ),
        (
            {
                **inline("image/png", "AAAA"),
                "mediaResolution": {"level": "MEDIA_RESOLUTION_MEDIUM"},
            },
            Image(
                "image/png",
                "AAAA",
                extra={"gemini": {"mediaResolution": MEDIUM}},
            ),
        ),
        (
            {**stored("video/mp4", URL), "videoMetadata": {"fps": 1.0}},
            Video("video/mp4", url=URL, extra={"gemini": {"videoMetadata": {"fps": 1.0}}}),
        ),
        (
            {"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": "a"}},
            Image("image/png", "AAAA", extra={"gemini": {"inlineData.displayName": "a"}}),
        ),
        (
            {"fileData": {"fileUri": "https://youtu.be/1"}},
            Video(None, url="https://youtu.be/1"),
        ),
    ],
    ids=repr,
)
def test_a_file_is_one_block_in_both_directions(part: dict[str, Any], block: InputBlock) -> None:
    assert blocks_of(part) == (block,)
    assert contents_of(block) == [part]


def test_foreign_signature_of_an_image_is_not_sent() -> None:
    """Google reads signatures of its own alone, and the file keeps its issuer."""
    foreign = {"thoughtSignature": "c24xLnZlcnRleC5zLjE="}
    assert blocks_of({**stored("image/png", FILE), **foreign}) == (
        Image("image/png", file_id=FILE, issuer="google", extra={"gemini": foreign}),
    )
    written = Written(request_of(Image("image/png", "AAAA", signature="s", issuer="vertex")))
    assert written.lost == {"signature_dropped": 1}
    assert written.body["contents"][0]["parts"] == [inline("image/png", "AAAA")]


def test_base64_of_the_sdk_is_made_the_common_one() -> None:
    """Its models write the alphabet of URLs, and JSON of protocol buffers needs no padding."""
    part = {"inline_data": {"mime_type": "image/png", "data": "-_-_-w"}}
    assert blocks_of(part) == (Image("image/png", "+/+/+w=="),)


@pytest.mark.parametrize(
    "part",
    [
        {"inlineData": {"data": "AAAA"}},
        {"inlineData": {"mimeType": "image/png"}},
        {"inlineData": {"mimeType": "text/plain", "data": "/w=="}},
        {"inlineData": {"mimeType": "text/plain", "data": "?"}},
        {"fileData": {"mimeType": "image/png"}},
        {"fileData": {"mimeType": 1, "fileUri": URL}},
    ],
    ids=repr,
)
def test_a_file_without_a_block_is_opaque(part: dict[str, Any]) -> None:
    part = {**part, "partMetadata": {"a": 1}}
    (block,) = blocks_of(part)
    assert isinstance(block, OpaqueBlock)
    written = Written(request_of(block), typed=False)
    assert written.body["contents"][0]["parts"] == [part]


@pytest.mark.parametrize(
    ("uri", "block"),
    [
        ("https://a.org/b.PNG?x=1", Image(None, url="https://a.org/b.PNG?x=1")),
        ("https://a.org/b.mp3#x", Audio(None, url="https://a.org/b.mp3#x")),
        ("https://a.org/b.unknown", Document(None, url="https://a.org/b.unknown")),
        ("https://a.org/b", Document(None, url="https://a.org/b")),
    ],
)
def test_a_file_without_a_type_is_told_by_its_suffix(uri: str, block: InputBlock) -> None:
    assert blocks_of({"fileData": {"fileUri": uri}}) == (block,)


@pytest.mark.parametrize(
    ("block", "guessed"),
    [
        (Image(url="https://a.org/b.png"), "image/png"),
        (Image(url="https://a.org/b.webp?size=1"), "image/webp"),
        (Image(url="https://a.org/b"), "image/jpeg"),
        (Image(url="https://a.org/b.pdf"), "image/jpeg"),
        (Document(url="https://a.org/b.txt"), "text/plain"),
        (Document(url="https://a.org/b"), "application/pdf"),
        (Audio(url="https://a.org/b.flac"), "audio/flac"),
        (Video(url="https://a.org"), "video/mp4"),
    ],
    ids=repr,
)
def test_the_type_of_a_url_is_guessed(block: InputBlock, guessed: str) -> None:
    written = Written(request_of(block))
    assert written.lost == {"media_type_guessed": 1}
    assert written.body["contents"][0]["parts"][0]["fileData"]["mimeType"] == guessed


def test_data_without_a_type_has_that_of_its_kind() -> None:
    assert contents_of(Image(data="AAAA")) == [inline("image/jpeg", "AAAA")]
    assert contents_of(Audio("audio/wav")) == [inline("audio/wav", "")]


def test_the_title_of_a_document_has_no_field() -> None:
    written = Written(request_of(Document("text/plain", "a", title="b")))
    assert written.lost == {"title": 1}
    assert written.body["contents"][0]["parts"] == [inline("text/plain", "YQ==")]


@pytest.mark.parametrize("resolution", [1, {}, {"level": 1}, {"level": "A", "numTokens": 1}])
def test_an_unknown_resolution_stays(resolution: Any) -> None:
    part = {**inline("image/png", "AAAA"), "mediaResolution": resolution}
    extra = {"gemini": {"mediaResolution": resolution}}
    assert blocks_of(part) == (Image("image/png", "AAAA", extra=extra),)
