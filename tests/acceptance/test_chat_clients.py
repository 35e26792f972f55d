"""Chat Completions that we write, as the clients of the field read it.

Every written recording of either dialect and every real Anthropic stream of the corpus
is written as Chat Completions, and each client must arrive at the message that the
projected events add up to.  Where a client refuses, or makes something else of it, that
stands in `ODDITIES` with its reason; the official SDK's raw chunks are read always.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from acceptance import chat_frameworks as frameworks
from acceptance.chat_readers import Read, Said, Served, openai_chunks, openai_helper, said
from support.streams.corpus import corpus, needs_corpus, recordings

from streamnorm import Failed, Opaque, StreamError, Transcoder, Truncated, accumulate, project
from streamnorm._core.losses import ReasoningField
from streamnorm.codec import decoder
from streamnorm.recording import Recording

pytestmark = [
    # What a server adds to a chunk, which the SDK keeps without a type for it.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]

RECORDINGS = recordings("anthropic", "openai_chat")


class Written(NamedTuple):
    """A stream as it was written, and what a client should find.

    Attributes:
        finishes: Why its answers end, one for each.
        audio: Whether it holds audio.
        error: Its failure.
    """

    name: str
    body: bytes
    said: Said
    finishes: tuple[str, ...]
    audio: bool
    error: StreamError | None


def write(
    name: str,
    dialect: str,
    source: bytes,
    server: str | None = None,
    reasoning: ReasoningField = "reasoning_content",
) -> Written:
    transcoder = Transcoder(
        dialect, "openai_chat", verbatim=False, server=server, reasoning=reasoning
    )
    body = b"".join(transcoder.feed(source) + transcoder.close())
    reader = decoder(dialect, server=server)
    events = reader.feed(source) + reader.close()
    last = events[-1]
    projected, _ = project(events, "openai_chat", reasoning=reasoning)
    choices = range(1 + max(getattr(event, "choice", 0) for event in projected))
    answers = [said(accumulate(projected, choice=choice)) for choice in choices]
    return Written(
        name,
        body,
        answers[0],
        tuple(answer.finish for answer in answers),
        any(isinstance(event, Opaque) and event.name == "audio" for event in projected),
        last if isinstance(last, StreamError) else None,
    )


@cache
def written(recording: Recording, reasoning: ReasoningField = "reasoning_content") -> Written:
    assert recording.dialect is not None
    return write(recording.name, recording.dialect, recording.body, recording.server, reasoning)


@cache
def written_corpus(reasoning: ReasoningField = "reasoning_content") -> list[Written]:
    streams = corpus("anthropic")[::2]
    return [write(stream.name, "anthropic", stream.body, None, reasoning) for stream in streams]


# The clients


class Client(NamedTuple):
    """A client of Chat Completions.

    Attributes:
        reader: Returns what reads the stream that is served.
        unread: The fields of `Said` that it does not tell.
        failure: What it raises at an error in the stream.
    """

    name: str
    reader: Callable[[Served], Read]
    unread: tuple[str, ...] = ()
    failure: str = "openai.APIError"


TEXT_AND_CALLS = ("id", "kinds", "reasoning", "refusal", "call_proofs", "sources")
CLIENTS = (
    Client("openai", openai_chunks),
    Client("openai helper", openai_helper, ("kinds",)),
    Client("pydantic-ai", frameworks.pydantic_ai_openai, (), "pydantic_ai.ModelAPIError"),
    Client("openai-agents", frameworks.openai_agents, ("id", "model", "kinds", "finish")),
    Client("langchain", frameworks.langchain, TEXT_AND_CALLS),
    Client("langchain sync", frameworks.langchain_sync, TEXT_AND_CALLS),
)
OPENROUTER = Client(
    # Its text is one part, whatever reasoning stands in between.
    "pydantic-ai openrouter",
    frameworks.pydantic_ai_openrouter,
    ("kinds",),
    "pydantic_ai.ModelAPIError",
)


class Oddity(NamedTuple):
    """What clients do with a stream that other clients read as it is.

    Attributes:
        applies: To which streams.
        outcome: The name of what they raise, or what they make of the message; None
            where it depends on the order of the chunks.
    """

    clients: tuple[str, ...]
    applies: Callable[[Written], bool]
    outcome: str | Callable[[Said], Said] | None


def has_custom_call(stream: Written) -> bool:
    return any(call.kind == "custom" for call in stream.said.calls)


def shows_nothing(stream: Written) -> bool:
    return not (stream.said.text or stream.said.refusal or stream.said.calls)


def ends_by(finish: str) -> Callable[[Written], bool]:
    return lambda stream: finish in stream.finishes


def without_custom_calls(message: Said) -> Said:
    calls = tuple(call for call in message.calls if call.kind != "custom")
    return message._replace(calls=calls)


ODDITIES = {
    "the helper refuses an answer that is cut by length (protocol §5.1)": Oddity(
        ("openai helper",), ends_by("length"), "openai.LengthFinishReasonError"
    ),
    "the helper refuses an answer that was filtered (protocol §5.1)": Oddity(
        ("openai helper",), ends_by("content_filter"), "openai.ContentFilterFinishReasonError"
    ),
    "the helper cannot add up custom calls (protocol §6.2)": Oddity(
        ("openai helper",), has_custom_call, "AttributeError"
    ),
    "LangChain asks every call for its function": Oddity(
        ("langchain", "langchain sync"), has_custom_call, "AttributeError"
    ),
    "pydantic-ai waits for a function's name, and counts the part that never came": Oddity(
        ("pydantic-ai",), has_custom_call, "IndexError"
    ),
    "openai-agents leaves out custom calls": Oddity(
        ("openai-agents",), has_custom_call, without_custom_calls
    ),
    "openai-agents does not support audio": Oddity(
        ("openai-agents",), lambda stream: stream.audio, "agents.AgentsException"
    ),
    "openai-agents refuses an answer cut by length that shows nothing": Oddity(
        ("openai-agents",),
        lambda stream: ends_by("length")(stream) and shows_nothing(stream),
        "agents.ModelBehaviorError",
    ),
    "openai-agents says itself that nothing is left of a filtered answer": Oddity(
        ("openai-agents",),
        lambda stream: ends_by("content_filter")(stream) and shows_nothing(stream),
        lambda message: message._replace(
            refusal="Response withheld by the provider's content filter."
        ),
    ),
    "pydantic-ai takes a refusal for filtered, and has no part for it": Oddity(
        ("pydantic-ai",),
        lambda stream: bool(stream.said.refusal),
        lambda message: message._replace(kinds=(), finish="content_filter"),
    ),
    "these add up the chunks of all choices": Oddity(
        ("pydantic-ai", "langchain", "langchain sync"),
        lambda stream: len(stream.finishes) > 1,
        None,
    ),
}
# All others have a written recording.
ONLY_IN_THE_CORPUS = {"openai-agents refuses an answer cut by length that shows nothing"}


class Running:
    """A client with its event loop."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._served = Served()
        self._read = client.reader(self._served)
        self._runner = asyncio.Runner()

    def read(self, body: bytes) -> Said:
        """Return what the client makes of a stream."""
        self._served.body = body

        async def reading() -> Said:
            return await self._read()

        return self._runner.run(reading())

    def close(self) -> None:
        self._runner.run(self._served.aclose())
        self._runner.close()

    def problem(self, stream: Written) -> str:
        """Return what is wrong with the client's reading; nothing if all is well."""
        name, unread, failure = self.client.name, self.client.unread, self.client.failure
        odd = [oddity for oddity in ODDITIES.values() if name in oddity.clients]
        outcomes = [oddity.outcome for oddity in odd if oddity.applies(stream)]
        refusals = tuple(exception(o) for o in outcomes if isinstance(o, str))
        expected = stream.said
        for outcome in outcomes:
            if callable(outcome):
                expected = outcome(expected)
        try:
            got = self.read(stream.body)
        except refusals:
            return ""
        except Exception as error:  # noqa: BLE001 - whatever a client raises
            if stream.error is None:
                return f"raised {error!r}"
            raised = isinstance(error, exception(failure)) and stream.error.message in str(error)
            return "" if raised else f"raised {error!r}, expected {stream.error}"
        if stream.error is not None or refusals:
            return f"read {got}, expected an error"
        if None in outcomes:
            return "" if got != expected else "read what other clients read"
        wrong = [
            f"{field} {ours!r}, expected {theirs!r}"
            for field, ours, theirs in zip(
                Said._fields, got.without(unread), expected.without(unread), strict=True
            )
            if ours != theirs
        ]
        return "; ".join(wrong)


def exception(name: str) -> type[Exception]:
    module, _, name = name.rpartition(".")
    found: type[Exception] = getattr(importlib.import_module(module or "builtins"), name)
    return found


@pytest.fixture(scope="module")
def _alone() -> Iterator[None]:
    """Let nothing leave the process: neither requests nor traces of them."""

    def connect(*_: Any) -> None:
        left.append("connect")
        raise OSError

    left: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2"):
            patch.setenv(name, "false")
        patch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
            patch.delenv(name, raising=False)
        patch.setattr(socket.socket, "connect", connect)
        yield
    assert left == []


@pytest.fixture(scope="module")
def clients(_alone: None) -> Iterator[dict[str, Running]]:
    """Run one of each client."""
    running = {client.name: Running(client) for client in (*CLIENTS, OPENROUTER)}
    yield running
    for client in running.values():
        client.close()


each_client = pytest.mark.parametrize("name", [client.name for client in CLIENTS])


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda r: f"{r.dialect}/{r.name}")
def test_clients_read_what_a_recording_says(
    clients: dict[str, Running], recording: Recording
) -> None:
    stream = written(recording)
    problems = {client.name: clients[client.name].problem(stream) for client in CLIENTS}
    assert found(problems) == {}


@needs_corpus
@each_client
def test_client_reads_what_real_anthropic_streams_say(
    clients: dict[str, Running], name: str
) -> None:
    problems = {stream.name: clients[name].problem(stream) for stream in written_corpus()}
    assert found(problems) == {}


@each_client
def test_client_never_takes_for_whole_what_was_cut(clients: dict[str, Running], name: str) -> None:
    """Half of every third recording, then the connection breaks."""
    problems = {stream.name: clients[name].problem(stream) for stream in map(cut, RECORDINGS[::3])}
    assert found(problems) == {}


def test_frame_that_is_no_chunk_breaks_no_client(clients: dict[str, Running]) -> None:
    """The SDK itself breaks at this source: it takes every frame for JSON."""
    source = (
        b"event: heartbeat\ndata: still here\n\n"
        b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"Aye."}}]}\n\n'
        b"event: heartbeat\ndata: still here\n\n"
        b'data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    stream = write("heartbeat", "openai_chat", source)
    assert stream.said.text == "Aye."
    assert found({name: client.problem(stream) for name, client in clients.items()}) == {}


def found(problems: dict[str, str]) -> dict[str, str]:
    return {name: problem for name, problem in problems.items() if problem}


def cut(recording: Recording) -> Written:
    transcoder = Transcoder(
        recording.dialect, "openai_chat", verbatim=False, server=recording.server
    )
    out = transcoder.feed(recording.body[: len(recording.body) // 2])
    body = b"".join(out + transcoder.abort(ConnectionResetError()))
    assert isinstance(transcoder.outcome, Failed | Truncated)
    return written(recording)._replace(body=body, error=transcoder.outcome.error)


# Reasoning with its signatures, where a client knows the field


@pytest.mark.parametrize("recording", recordings("anthropic"), ids=str)
def test_signatures_reach_clients_of_reasoning_details(
    clients: dict[str, Running], recording: Recording
) -> None:
    stream = written(recording, "reasoning_details")
    names = ("openai", "openai helper", OPENROUTER.name)
    assert found({name: clients[name].problem(stream) for name in names}) == {}


@needs_corpus
def test_signatures_of_real_streams_reach_a_client_of_reasoning_details(
    clients: dict[str, Running],
) -> None:
    streams = written_corpus("reasoning_details")
    assert any(stream.said.proofs for stream in streams)
    client = clients[OPENROUTER.name]
    assert found({stream.name: client.problem(stream) for stream in streams}) == {}


def test_every_oddity_is_in_use() -> None:
    streams = [*map(written, RECORDINGS), *written_corpus()]
    used = {
        reason
        for reason, oddity in ODDITIES.items()
        if any(oddity.applies(stream) and stream.error is None for stream in streams)
    }
    assert used == set(ODDITIES) - (set() if corpus("anthropic") else ONLY_IN_THE_CORPUS)
