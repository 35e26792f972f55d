"""What a client may ask of a transport that no provider can answer: the SDK's own exception."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from acceptance.transcoding_clients import SDKS
from google import genai
from google.genai import errors

pytestmark = pytest.mark.slow

BASE_URL = "https://provider.test"
OTHER = {name: "gemini" if name != "gemini" else "anthropic" for name in SDKS}


def client_of(dialect: str) -> Any:
    """Return the SDK of a dialect on a provider that nothing may reach."""
    sdk = SDKS[dialect]

    def answer(_: object) -> Any:
        pytest.fail("sent")

    transport = sdk.transports.TranscodingTransport(
        sdk.http.MockTransport(answer), client=dialect, upstream=OTHER[dialect], base_url=BASE_URL
    )
    return sdk.client(sdk.http.Client(transport=transport))


# OpenAI


def upload(client: openai.OpenAI) -> object:
    return client.files.create(file=b"abc", purpose="batch")


def embed(client: openai.OpenAI) -> object:
    return client.embeddings.create(model="m", input="Hi.")


def chat(client: openai.OpenAI) -> object:
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi."}])


def post(path: str, body: Any = None, **options: Any) -> Callable[[openai.OpenAI], object]:
    return lambda client: client.post(path, cast_to=object, body=body, **options)


OPENAI: dict[str, tuple[Callable[[openai.OpenAI], object], int, str]] = {
    "a file": (upload, 404, "a path of no known endpoint"),
    "another path": (embed, 404, "a path of no known endpoint, expected one of openai_responses"),
    "another dialect's path": (chat, 404, "a path of openai_chat, expected one of"),
    "another dialect's body": (
        post("/responses", {"model": "m", "input": [{"role": "user", "content": [{"text": 5}]}]}),
        400,
        "input",
    ),
    "no JSON": (post("/responses", content=b"{"), 400, "JSON"),
    "form data": (
        post(
            "/responses",
            {"a": "b"},
            options={"headers": {"content-type": "application/x-www-form-urlencoded"}},
        ),
        415,
        "content-type: another than JSON",
    ),
    "compressed data": (
        post("/responses", {}, options={"headers": {"content-encoding": "gzip"}}),
        415,
        "a compressed body",
    ),
    "no model": (post("/responses", {"input": "Hi."}), 400, "model"),
    "a path in place of a model": (
        post("/responses", {"model": "models/../../x", "input": "Hi."}),
        400,
        "dot segments",
    ),
    "a request to compact": (
        post("/responses/compact", {"model": "m", "input": "Hi."}),
        404,
        "only the vendor's own server",
    ),
}


@pytest.mark.parametrize(("ask", "status_code", "words"), OPENAI.values(), ids=OPENAI)
def test_openai_raises_its_exception(
    ask: Callable[[openai.OpenAI], object], status_code: int, words: str
) -> None:
    with client_of("openai_responses") as client, pytest.raises(openai.APIStatusError) as raised:
        ask(client)
    assert raised.value.status_code == status_code
    assert words in str(raised.value)


CHAT: dict[str, tuple[Callable[[openai.OpenAI], object], int, str]] = {
    "a file": (upload, 404, "a path of no known endpoint"),
    "another dialect's path": (
        lambda client: client.responses.create(model="m", input="Hi."),
        404,
        "a path of openai_responses, expected one of openai_chat",
    ),
    "another dialect's body": (
        post("/chat/completions", {"model": "m", "contents": []}),
        400,
        "messages",
    ),
    "no JSON": (post("/chat/completions", content=b"["), 400, "JSON"),
    "no object": (post("/chat/completions", []), 400, "object"),
}


@pytest.mark.parametrize(("ask", "status_code", "words"), CHAT.values(), ids=CHAT)
def test_openai_raises_its_exception_for_chat(
    ask: Callable[[openai.OpenAI], object], status_code: int, words: str
) -> None:
    with client_of("openai_chat") as client, pytest.raises(openai.APIStatusError) as raised:
        ask(client)
    assert raised.value.status_code == status_code
    assert words in str(raised.value)


# Anthropic

ANTHROPIC: dict[str, tuple[Callable[[anthropic.Anthropic], object], int, str]] = {
    "a file": (
        lambda client: client.beta.files.upload(file=("a.txt", b"abc", "text/plain")),
        404,
        "a path of no known endpoint",
    ),
    "a batch": (
        lambda client: client.messages.batches.create(requests=[]),
        404,
        "a path of no known endpoint, expected one of anthropic",
    ),
    "another dialect's path": (
        post("/v1/chat/completions", {"model": "m"}),
        404,
        "a path of openai_chat, expected one of anthropic",
    ),
    "another dialect's body": (
        post("/v1/messages", {"model": "m", "max_tokens": 9, "input": "Hi."}),
        400,
        "messages",
    ),
    "no JSON": (post("/v1/messages", content=b"{"), 400, "JSON"),
    "no JSON to count": (post("/v1/messages/count_tokens", content=b"{"), 400, "JSON"),
    "another method": (
        lambda client: client.get("/v1/messages", cast_to=object),
        404,
        "another method",
    ),
}


@pytest.mark.parametrize(("ask", "status_code", "words"), ANTHROPIC.values(), ids=ANTHROPIC)
def test_anthropic_raises_its_exception(
    ask: Callable[[anthropic.Anthropic], object], status_code: int, words: str
) -> None:
    with client_of("anthropic") as client, pytest.raises(anthropic.APIStatusError) as raised:
        ask(client)
    assert raised.value.status_code == status_code
    assert words in str(raised.value)


# Gemini

GEMINI: dict[str, tuple[Callable[[genai.Client], object], int, str]] = {
    "a file": (
        lambda client: client.files.upload(
            file=io.BytesIO(b"abc"), config={"mime_type": "text/plain"}
        ),
        404,
        "a path of no known endpoint",
    ),
    "an embedding": (
        lambda client: client.models.embed_content(model="m", contents="Hi."),
        404,
        "a path of no known endpoint",
    ),
    "a cache": (
        lambda client: client.caches.create(model="m", config={"contents": "Hi."}),
        404,
        "a path of no known endpoint, expected one of gemini",
    ),
}


@pytest.mark.parametrize(("ask", "status_code", "words"), GEMINI.values(), ids=GEMINI)
def test_gemini_raises_its_exception(
    ask: Callable[[genai.Client], object], status_code: int, words: str
) -> None:
    with pytest.raises(errors.APIError) as raised:
        ask(client_of("gemini"))
    assert raised.value.code == status_code
    assert words in str(raised.value)
