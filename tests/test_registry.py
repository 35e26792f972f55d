"""The dialects by name, and which one an unnamed stream speaks."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import DONE, chunk, content, decode, frame

from streamnorm import (
    BlockStart,
    Loss,
    LossyEncoding,
    MessageStart,
    Reasoning,
    StreamError,
    UnknownDialect,
)
from streamnorm._core.codec import Dialect
from streamnorm._registry import _BY_NAME, DIALECTS, checker, stated_framing
from streamnorm.codec import EVENTSTREAM, INVOKE_CHUNKS, Framing, decoder, encoder

TEXT, END = content("hi"), chunk({}, "stop")


def test_dialects_are_keyed_by_their_names() -> None:
    assert list(DIALECTS) == [
        "openai_responses",
        "anthropic",
        "openai_chat",
        "gemini",
        "gemini_interactions",
        "bedrock_converse",
        "ui_message_stream",
        "ag_ui",
    ]
    assert {name: dialect.aliases for name, dialect in DIALECTS.items()} == {
        "anthropic": ("claude",),
        "openai_chat": ("openai", "chat"),
        "openai_responses": ("responses",),
        "gemini": ("google",),
        "gemini_interactions": (),
        "bedrock_converse": ("converse",),
        "ui_message_stream": ("ai_sdk", "vercel"),
        "ag_ui": (),
    }


@pytest.mark.parametrize("name", ["openai_chat", "openai", "chat"])
def test_alias_reads_like_the_name(name: str) -> None:
    reader = decoder(name)
    assert reader.dialect == "openai_chat"
    assert reader.feed(TEXT + END + DONE) == decode(TEXT, END, DONE).events


@pytest.mark.parametrize("name", ["anthropic", "claude"])
def test_alias_of_another_dialect_reads_like_its_name(name: str) -> None:
    assert decoder(name).dialect == "anthropic"
    assert type(checker(name)) is type(checker("anthropic"))


@pytest.mark.parametrize("name", ["openai_chat", "openai", "chat"])
def test_alias_of_another_dialect_writes_like_its_name(name: str) -> None:
    assert encoder(name).ping() == b": ping\n\n"


@pytest.mark.parametrize("name", ["anthropic", "claude"])
def test_alias_writes_like_the_name(name: str) -> None:
    assert encoder(name).ping() == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_unknown_dialect_error_lists_the_known_ones() -> None:
    known = (
        "expected one of openai_responses, responses, anthropic, claude, openai_chat, openai,"
        " chat, gemini, google, gemini_interactions, bedrock_converse, converse,"
        " ui_message_stream, ai_sdk, vercel, ag_ui"
    )
    for make in (decoder, encoder, checker):
        with pytest.raises(UnknownDialect, match=f"^no dialect 'klingon', {known}$"):
            make("klingon")


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> Dialect:
    """A dialect that is known and neither read, written nor checked."""
    dialect = Dialect(
        name="morse", aliases=("dots",), recognises=lambda frame: frame.data.startswith("--")
    )
    monkeypatch.setitem(DIALECTS, "morse", dialect)
    for name in ("morse", "dots"):
        monkeypatch.setitem(_BY_NAME, name, dialect)
    return dialect


@pytest.mark.usefixtures("mute")
def test_missing_codec_error_lists_the_dialects_that_have_it() -> None:
    known = (
        "openai_responses, anthropic, openai_chat, gemini, gemini_interactions, bedrock_converse,"
        " ui_message_stream, ag_ui"
    )
    for make, part in ((decoder, "decoder"), (encoder, "encoder"), (checker, "checker")):
        with pytest.raises(
            UnknownDialect, match=rf"^no {part} of dialect 'morse', expected one of {known}$"
        ):
            make("dots")


@pytest.mark.usefixtures("mute")
def test_stream_of_a_dialect_that_is_not_read_ends_as_malformed() -> None:
    frames = frame("-- --- .-. ... .")
    message = (
        "no decoder of dialect 'morse', expected one of openai_responses, anthropic,"
        " openai_chat, gemini, gemini_interactions, bedrock_converse, ui_message_stream,"
        " ag_ui"
    )
    for body in (frames, frames.rstrip()):
        assert decode(body, dialect=None).events == [StreamError("malformed", message)]


def test_options_reach_the_encoder() -> None:
    heard: list[Loss] = []
    options = {"model": "asked", "strict": True, "on_loss": heard.append}
    writer = encoder("chat", include_usage=False, reasoning=None, extras=True, **options)
    assert b'"asked"' in writer.encode(MessageStart("m", "gpt", {"created": 7, "region": "north"}))
    assert writer.extras
    assert not writer.projector.capabilities.reasoning
    assert writer.projector.capabilities.usage == "never"
    with pytest.raises(LossyEncoding):
        writer.encode(BlockStart(0, Reasoning()))
    assert heard == [Loss("reasoning", "Reasoning", 1, "dropped")]


# botocore 1.44.5 (`service-2.json` of bedrock-runtime): answers of `InvokeModelWithResponseStream`
# have the second header, those of `ConverseStream` have not.
_EVENTSTREAM = "application/vnd.amazon.eventstream"
_INVOKED = {"x-amzn-bedrock-content-type": "application/json"}


@pytest.mark.parametrize(
    ("content_type", "headers", "framing"),
    [
        (_EVENTSTREAM, {}, EVENTSTREAM),
        (f"{_EVENTSTREAM.upper()}; charset=x", {}, EVENTSTREAM),
        (_EVENTSTREAM, _INVOKED, INVOKE_CHUNKS),
        ("text/event-stream", _INVOKED, None),
        ("application/json", _INVOKED, None),
        (None, {}, None),
    ],
)
def test_framing_is_that_of_the_headers(
    content_type: str | None, headers: dict[str, str], framing: Framing | None
) -> None:
    assert stated_framing(content_type, headers) is framing
