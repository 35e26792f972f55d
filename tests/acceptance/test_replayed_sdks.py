"""The official SDKs read the same from a recording as from the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from acceptance.replayed_clients import CLIENTS, Client
from support.http.families import recorded_in

from streamnorm._core.errors import UnrecordedRequest
from streamnorm.recording import Recording, faults
from streamnorm.recording.recording import find_cut_points, split_at

# openai leaves its generators and its client's to the garbage collector, which trio tells.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")

each_client = pytest.mark.parametrize("client", CLIENTS, ids=str)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the SDKs try again without a pause."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.0)
    monkeypatch.setattr("anthropic._base_client.INITIAL_RETRY_DELAY", 0.0)


def reads_of(client: Client) -> list[bytes]:
    return split_at(client.body, find_cut_points(client.body, "random:7", None))


def record(client: Client, directory: Path) -> Any:
    """Let an SDK ask a server, and record what it says; return what the SDK made of it."""
    inner = client.family.answering(client.family.body(reads_of(client)))
    transport = client.family.transports.RecordingTransport(inner, directory)
    answer = client.ask(transport)
    assert client.word in str(answer)
    assert transport.failures == ()
    return answer


async def record_async(client: Client, directory: Path) -> Any:
    inner = client.family.answering(client.family.async_body(reads_of(client)))
    transport = client.family.transports.RecordingTransport(inner, directory)
    answer = await client.ask_async(transport)
    assert client.word in str(answer)
    assert transport.failures == ()
    return answer


def replay(client: Client, path: Path, *spoilt: Any) -> Any:
    return client.family.transports.ReplayTransport(path, faults=spoilt)


def body_of(directory: Path) -> Recording:
    (recording,) = recorded_in(directory)
    return recording


@each_client
def test_sdk_reads_the_same_from_a_recording(client: Client, tmp_path: Path) -> None:
    answer = record(client, tmp_path)

    recording = body_of(tmp_path)
    assert recording.chunks() == reads_of(client)
    # Without asyncio openai reads nothing behind [DONE].
    leaves = client.path.endswith("/chat/completions")
    assert recording.response.end == ("aborted" if leaves else "eof")
    assert recording.request is not None
    assert recording.request.url.partition("?")[0].endswith(client.path)

    transport = replay(client, tmp_path)
    assert client.ask(transport) == answer
    assert transport.unplayed == ()


@pytest.mark.anyio
@each_client
async def test_asynchronous_sdk_reads_the_same_from_a_recording(
    client: Client, tmp_path: Path
) -> None:
    answer = await record_async(client, tmp_path)
    assert body_of(tmp_path).chunks() == reads_of(client)
    transport = replay(client, tmp_path)
    assert await client.ask_async(transport) == answer
    assert transport.unplayed == ()


@pytest.mark.anyio
@each_client
async def test_sdk_sees_a_connection_that_breaks(client: Client, tmp_path: Path) -> None:
    record(client, tmp_path)
    spoilt = faults.cut(byte=len(client.body) // 2)
    with pytest.raises(client.cut):
        client.ask(replay(client, tmp_path, spoilt))
    with pytest.raises(client.cut):
        await client.ask_async(replay(client, tmp_path, spoilt))


@pytest.mark.anyio
@each_client
async def test_sdk_gives_up_where_nothing_comes(client: Client, tmp_path: Path) -> None:
    record(client, tmp_path)
    spoilt = faults.stall(event=1)
    with pytest.raises(client.stalled):
        client.ask(replay(client, tmp_path, spoilt))
    with pytest.raises(client.stalled):
        await client.ask_async(replay(client, tmp_path, spoilt))


@pytest.mark.anyio
@each_client
async def test_sdk_tries_again_where_the_server_is_overloaded(
    client: Client, tmp_path: Path
) -> None:
    answer = record(client, tmp_path)
    spoilt = faults.http(529, times=1)
    for asynchronous in (False, True):
        transport = replay(client, tmp_path, spoilt)
        if asynchronous:
            assert await client.ask_async(transport) == answer
        else:
            assert client.ask(transport) == answer
        assert transport.unplayed == ()


@each_client
def test_sdk_that_asks_otherwise_is_told_so(client: Client, tmp_path: Path) -> None:
    record(client, tmp_path)
    transport = replay(client, tmp_path)
    client.ask(transport)
    with pytest.raises(
        (openai.APIConnectionError, anthropic.APIConnectionError, UnrecordedRequest)
    ) as raised:
        client.ask(transport)
    causes: list[BaseException | None] = [raised.value, raised.value.__cause__]
    assert any(isinstance(cause, UnrecordedRequest) for cause in causes)
