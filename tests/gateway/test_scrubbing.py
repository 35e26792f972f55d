"""The key of an upstream in the upstream's own answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gateway.servers import served
from support.gateway.upstreams import ANSWER, Head, Records, StepUpstream, asked
from support.openai_chat.chunks import chunk

from streamnorm._upstream.requests import Upstream
from streamnorm.gateway import Config, Gateway, UpstreamConfig
from streamnorm.gateway.scrubbing import KeyMask, UpstreamKey

KEY = "sk-1234/567890ab"
X = "x" * len(KEY)
FIELDS: dict[str, Any] = {"object": "chat.completion.chunk", "created": 1}
# How a server may write the key in JSON.
SPELLINGS = {
    "plain": KEY,
    "slash": KEY.replace("/", "\\/"),
    "some": KEY.replace("s", "\\u0073").replace("/", "\\u002f"),
    "upper": KEY.replace("k", "\\u006B").replace("/", "\\u002F"),
    "all": "".join(f"\\u{ord(char):04x}" for char in KEY),
}
spelt = pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)


def key_of(headers: dict[str, str]) -> UpstreamKey | None:
    known = Upstream(dialect="openai_chat", base_url="https://provider.test/v1", headers=headers)
    return UpstreamKey.of(known)


def masked(*pieces: bytes) -> bytes:
    mask = KeyMask(UpstreamKey(KEY))
    return b"".join([*map(mask.feed, pieces), mask.close()])


@pytest.mark.parametrize("headers", [{"authorization": f"Bearer {KEY}"}, {"api-key": KEY}])
def test_key_of_each_header_is_replaced_by_as_many_letters(headers: dict[str, str]) -> None:
    key = key_of(headers)
    assert key is not None
    assert key.replace(f'{{"a":"{KEY}","b":"{KEY}."}}'.encode()) == (
        f'{{"a":"{X}","b":"{X}."}}'.encode()
    )
    assert KEY not in repr(key)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer -"}, {"x-team": KEY}])
def test_placeholder_or_another_header_is_no_key(headers: dict[str, str]) -> None:
    assert key_of(headers) is None


@spelt
def test_key_is_replaced_wherever_a_read_ends(spelling: str) -> None:
    text = f'data: {{"a":"no {spelling}, sk-12 \\u0073k","b":"sk-1"}}'.encode()
    expected = text.replace(spelling.encode(), b"x" * len(spelling))
    for end in range(len(text) + 1):
        assert masked(text[:end], text[end:]) == expected
    assert masked(*(text[at : at + 1] for at in range(len(text)))) == expected


@pytest.mark.parametrize(
    "text", ["s", "sk-1234/567890a", "sk-1234/567890aB", "SK-1234/567890AB", "\\u0073", "\\", "ssk"]
)
def test_text_that_only_begins_like_the_key_stays(text: str) -> None:
    data = text.encode()
    for end in range(len(data) + 1):
        assert masked(data[:end], data[end:]) == data


def test_end_of_an_event_is_never_held() -> None:
    mask = KeyMask(UpstreamKey(KEY))
    for event in (b": sk-12\n\n", b"data: \\u0073\n"):
        assert mask.feed(event) == event


def test_no_more_than_the_longest_spelling_is_held() -> None:
    mask = KeyMask(UpstreamKey(KEY))
    fed = (b"s" * 10 + b"\\u0073" * 3) * 500
    sent = mask.feed(fed)
    assert len(fed) - len(sent) <= 6 * len(KEY)
    assert sent + mask.close() == fed


async def gateway_answer(
    client: str, steps: list[Any], *, stream: bool = True
) -> tuple[Any, Records]:
    records = Records()
    async with served(StepUpstream(steps)) as url:
        known = UpstreamConfig(dialect="openai_chat", base_url=url, key="env:KEY")
        app = Gateway(Config(upstreams={"a": known}), environ={"KEY": KEY}, observers=(records,))
        async with served(app) as gateway_url:
            return await asked(gateway_url, client, stream=stream), records


CLIENTS = pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses"])


@pytest.mark.anyio
@CLIENTS
@spelt
async def test_client_and_observers_are_not_told_the_key(client: str, spelling: str) -> None:
    refusal: list[Any] = [
        Head(401, {"content-type": "application/json"}),
        b'{"error":{"message":"Incorrect API key: ' + spelling.encode() + b'"}}',
    ]
    response, records = await gateway_answer(client, refusal)
    assert response.status_code == 401
    message = response.json()["error"]["message"]
    assert message == f"Incorrect API key: {'x' * len(spelling)}"
    assert KEY not in repr(records.ended)


@pytest.mark.anyio
@CLIENTS
@spelt
async def test_key_in_mid_stream_is_masked(client: str, spelling: str) -> None:
    """In an error event, and in text, also where a read ends within it."""
    text = chunk({"content": "your key"}, **FIELDS).replace(b"your key", spelling.encode())
    error = f'data: {{"error":{{"message":"no {spelling}","type":"server_error"}}}}\n\n'.encode()
    cut = text.index(spelling.encode()) + len(spelling) // 2
    steps = [ANSWER[0], text[:cut], 0.02, text[cut:], error]
    response, records = await gateway_answer(client, steps)
    assert response.status_code == 200
    for line in response.text.splitlines():
        if line.startswith("data: {"):
            assert KEY not in json.dumps(json.loads(line[6:]))
    assert KEY not in response.text
    assert spelling not in response.text
    assert "xxxxxxxx" in response.text
    assert KEY not in repr(records.ended)


@pytest.mark.anyio
@CLIENTS
@pytest.mark.parametrize("name", ["x-request-id", "retry-after", "x-ratelimit-remaining-requests"])
@pytest.mark.parametrize("status", [200, 429])
async def test_key_in_a_header_is_masked(client: str, name: str, status: int) -> None:
    head = Head(status, {"content-type": "application/json", name: f"a-{KEY}"})
    message = {"role": "assistant", "content": "a"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    answer = {**body, "choices": [choice]} if status == 200 else {"error": {"message": "slow down"}}
    response, _ = await gateway_answer(client, [head, json.dumps(answer).encode()], stream=False)
    assert response.status_code == status
    assert KEY not in str(response.headers)
    assert f"a-{X}" in response.headers.values()
