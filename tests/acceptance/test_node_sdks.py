"""What we encode is what the official SDKs for Node and the AI SDK read.

Every written recording and a sample of the corpus is transcoded to each dialect and given
to them, and each must arrive at the message that the projected events add up to.  Where one
refuses, or makes something else of it, that stands in `ODDITIES` with its reason; written
anew for its own dialect, a stream may also be refused if the provider's bytes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import pytest
from acceptance import node_words as words
from acceptance.node_sdks import Heard, ask, missing
from support.bedrock_converse.streams import corpus_messages
from support.streams.corpus import corpus, needs_corpus, recordings

from streamnorm import Event, Message, StreamError, Transcoder, accumulate, project
from streamnorm.codec import decoder

pytestmark = [pytest.mark.outside, pytest.mark.skipif(bool(missing()), reason=missing())]

DIALECTS = (
    "anthropic",
    "openai_chat",
    "openai_responses",
    "gemini",
    "gemini_interactions",
    "bedrock_converse",
)


class Source(NamedTuple):
    """A stream as a provider sent it."""

    name: str
    dialect: str
    body: bytes
    server: str | None = None


class Written(NamedTuple):
    """A stream as it was written for a client, and what it should find.

    Attributes:
        choices: How many answers there are.
        error: Its failure.
    """

    source: Source
    target: str
    body: bytes
    message: Message
    choices: int
    error: StreamError | None


@cache
def written_recordings() -> tuple[Source, ...]:
    return tuple(
        Source(f"{dialect}/{r.name}", dialect, r.body, r.server)
        for dialect in DIALECTS
        for r in recordings(dialect)
    )


@cache
def real_streams() -> tuple[Source, ...]:
    """Return a sample of the corpus."""
    *lines, converse = DIALECTS
    sources = [
        Source(f"{dialect}/{s.name}", dialect, s.body)
        for dialect in lines
        for s in corpus(dialect)[::15]
    ]
    whole = [each for each in corpus_messages() if not each.row["violations"]]
    return (*sources, *(Source(each.name, converse, each.body) for each in whole[::5]))


@cache
def write(source: Source, target: str) -> Written:
    transcoder = Transcoder(source.dialect, target, server=source.server, verbatim=False)
    body = b"".join(transcoder.feed(source.body) + transcoder.close())
    reader = decoder(source.dialect, server=source.server)
    return expect(source, target, body, reader.feed(source.body) + reader.close())


def write_cut(source: Source, target: str) -> Written:
    """Return the first half of a stream, behind which the connection broke."""
    half, cause = source.body[: len(source.body) // 2], ConnectionResetError()
    transcoder = Transcoder(source.dialect, target, server=source.server, verbatim=False)
    body = b"".join(transcoder.feed(half) + transcoder.abort(cause))
    reader = decoder(source.dialect, server=source.server)
    return expect(source, target, body, reader.feed(half) + reader.abort(cause))


def expect(source: Source, target: str, body: bytes, events: list[Event]) -> Written:
    projected, _ = project(events, target, extras=source.dialect == target)
    last = projected[-1]
    choices = 1 + max(getattr(event, "choice", 0) for event in projected)
    error = last if isinstance(last, StreamError) else None
    return Written(source, target, body, accumulate(projected), choices, error)


# The clients


class Client(NamedTuple):
    """A way of an SDK to read a stream.

    Attributes:
        script: The script that has it.
        reader: Its name there.
        dialect: What it reads.
        words: Returns what it should make of a message.
        unread: What it does not tell.
    """

    script: str
    reader: str
    dialect: str
    words: Callable[[Message], words.Words]
    unread: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.script} {self.reader}"


CLIENTS = (
    Client("openai", "chat", "openai_chat", words.chat),
    Client("openai", "chat helper", "openai_chat", words.chat_helper),
    Client("openai", "responses", "openai_responses", words.responses, ("id",)),
    Client("openai", "responses helper", "openai_responses", words.responses, ("id",)),
    Client("anthropic", "messages", "anthropic", words.messages),
    Client("anthropic", "messages helper", "anthropic", words.messages),
    Client("ai", "chat", "openai_chat", words.ai_chat),
    Client("ai", "responses", "openai_responses", words.ai_responses, ("id", "sources")),
    Client("ai", "messages", "anthropic", words.ai_messages, ("sources",)),
    Client("ai", "gemini", "gemini", words.ai_gemini, ("model", "sources")),
)


class Oddity(NamedTuple):
    """What a client does with a stream that others read as it is.

    Attributes:
        applies: To which streams.
        refusal: What it may raise.
        otherwise: What it tells otherwise where it does not.
    """

    client: str
    applies: Callable[[Written], bool]
    refusal: str = ""
    otherwise: tuple[str, ...] = ()


def has_custom_call(stream: Written) -> bool:
    return any(call.kind == "custom" for call in stream.message.tool_calls)


def has_broken_arguments(stream: Written) -> bool:
    blocks = words.messages(stream.message)["blocks"]
    return any(isinstance(block.get("input"), str) for block in blocks)


def has_no_id(stream: Written) -> bool:
    return not stream.message.id


def has_two_choices(stream: Written) -> bool:
    return stream.choices > 1


def has_two_parts_in_a_message(stream: Written) -> bool:
    return b'"content_index":1' in stream.body


def has_compaction(stream: Written) -> bool:
    return _has_kind(stream, "compaction")


def has_a_tool_of_openai(stream: Written) -> bool:
    return _has_kind(stream, "apply_patch_call", "local_shell_call", "shell_call")


def _has_kind(stream: Written, *kinds: str) -> bool:
    return any(getattr(block, "kind", None) in kinds for block in stream.message.blocks)


ODDITIES = {
    "the helper asks every call for its function": Oddity(
        "openai chat helper", has_custom_call, "TypeError: Cannot read properties of undefined"
    ),
    # An id that is made up must be no other message's, and nothing here knows the others.
    "the helper takes no tokens from a chunk without an id": Oddity(
        "openai chat helper", has_no_id, otherwise=("usage",)
    ),
    "the helper reads as much of broken arguments as it can": Oddity(
        "anthropic messages helper", has_broken_arguments, "AnthropicError: ", ("blocks",)
    ),
    "the provider knows calls of functions alone": Oddity(
        "ai chat", has_custom_call, "AI_TypeValidationError: "
    ),
    "the provider adds up the chunks of all choices": Oddity(
        "ai chat", has_two_choices, otherwise=("blocks", "finish")
    ),
    "the provider takes tools that OpenAI brings for the client's": Oddity(
        "ai responses", has_a_tool_of_openai, otherwise=("blocks", "finish")
    ),
    "the provider takes the parts of a message for one text": Oddity(
        "ai responses", has_two_parts_in_a_message, otherwise=("blocks",)
    ),
    "the provider takes a compaction for text, and counts its tokens": Oddity(
        "ai messages", has_compaction, otherwise=("blocks", "finish", "usage")
    ),
}


# What they make of the streams


def asked(client: Client, streams: Sequence[Written]) -> list[Heard]:
    """Return what a client makes of each stream."""
    return ask(client.script, client.reader, (job(stream, stream.body) for stream in streams))


@cache
def recordings_as_read_by(client: Client) -> list[tuple[Written, Heard]]:
    """Return every written recording, and what a client makes of it."""
    streams = [write(source, client.dialect) for source in written_recordings()]
    return list(zip(streams, asked(client, streams), strict=True))


def job(stream: Written, body: bytes) -> dict[str, object]:
    """Return what a script is asked: some bytes, and the tools that they may call."""
    tools = [call.name for call in stream.message.tool_calls]
    return {"body": body.decode("utf-8", "replace"), "tools": tools}


def problems(client: Client, told: Iterable[tuple[Written, Heard]]) -> dict[str, str]:
    """Return what is wrong with what a client makes of each stream.

    What it refuses of its own dialect it may, if it cannot read the provider's bytes either.
    """
    found = [(stream, problem(client, stream, heard)) for stream, heard in told]
    wrong = {stream.source.name: why for stream, why in found if why}
    refused = [
        stream
        for stream, why in found
        if why.startswith("raised") and stream.source.dialect == stream.target
    ]
    jobs = (job(stream, stream.source.body) for stream in refused)
    for stream, heard in zip(refused, ask(client.script, client.reader, jobs), strict=True):
        if problem(client, stream, heard):
            del wrong[stream.source.name]
    return wrong


def problem(client: Client, stream: Written, heard: Heard, but: Oddity | None = None) -> str:
    """Return what is wrong with what a client makes of a stream; nothing if all is well.

    Args:
        but: An oddity that is none of its.
    """
    odd = [o for o in ODDITIES.values() if o.client == str(client) and o.applies(stream)]
    odd = [oddity for oddity in odd if oddity != but]
    raised = heard.get("error")
    if raised is not None:
        messages = [oddity.refusal for oddity in odd if oddity.refusal]
        messages += [stream.error.message] if stream.error else []
        fits = any(message in raised for message in messages)
        return "" if fits else f"raised {raised}, expected {stream.error}"
    if stream.error is not None:
        # What is wrong with a call, Gemini tells by the finish alone.
        failed = client.dialect == "gemini" and heard["finish"] in ("error", "other")
        return "" if failed else f"read {heard}, expected {stream.error}"
    unread = {*client.unread, *(field for oddity in odd for field in oddity.otherwise)}
    expected, got = words.tidied(client.words(stream.message)), words.tidied(heard)
    return "; ".join(
        f"{field} {got.get(field)!r}, expected {expected[field]!r}"
        for field in expected
        if field not in unread and got.get(field) != expected[field]
    )


each_client = pytest.mark.parametrize("client", CLIENTS, ids=str)


@each_client
def test_sdk_reads_what_recordings_say(client: Client) -> None:
    assert problems(client, recordings_as_read_by(client)) == {}


@needs_corpus
@each_client
def test_sdk_reads_what_real_streams_say(client: Client) -> None:
    streams = [write(source, client.dialect) for source in real_streams()]
    assert problems(client, zip(streams, asked(client, streams), strict=True)) == {}


@each_client
def test_sdk_never_takes_for_whole_what_was_cut(client: Client) -> None:
    """Half of every third recording, then the connection breaks."""
    streams = [write_cut(source, client.dialect) for source in written_recordings()[::3]]
    assert all(stream.error is not None for stream in streams)
    assert problems(client, zip(streams, asked(client, streams), strict=True)) == {}


def test_every_oddity_is_in_use() -> None:
    clients = {str(client): client for client in CLIENTS}
    used = {
        reason
        for reason, oddity in ODDITIES.items()
        for stream, heard in recordings_as_read_by(clients[oddity.client])
        if stream.error is None and problem(clients[oddity.client], stream, heard, but=oddity)
    }
    assert used == set(ODDITIES)
