"""The metrics of a gateway, as Prometheus reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families
from support.gateway.servers import RunningGateway, gateway_config, served_gateway

from streamnorm._core.events import Completed, Usage
from streamnorm.gateway import ModelConfig
from streamnorm.gateway.metrics import METRICS, Metrics, _forget_dead_workers
from streamnorm.gateway.observing import CallRecord
from streamnorm.testing import FakeProvider, faults

REQUEST = {
    "model": "claude-x",
    "max_tokens": 9,
    "stream": True,
    "messages": [{"role": "user", "content": "Hello"}],
}
MODELS = [ModelConfig(match="claude-*", to=["local"]), ModelConfig(match="*", to=["local"])]


def samples(text: str) -> dict[str, float]:
    """Return the samples of an exposition, without those of the buckets."""
    return {
        sample.name + str(dict(sorted(sample.labels.items())) or ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }


async def scraped(gateway: RunningGateway, client: httpx.AsyncClient) -> dict[str, float]:
    response = await client.get(f"{gateway.url}/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    return samples(response.text)


def requests_of(
    outcome: str, reason: str = "", *, client: str = "anthropic", model: str = "claude-*"
) -> str:
    labels = {"client": client, "model": model, "outcome": outcome, "reason": reason}
    labels["upstream"] = "local"
    return f"streamnorm_requests_total{labels}"


@pytest.mark.anyio
async def test_completed_stream_is_counted() -> None:
    async with (
        served_gateway(FakeProvider("It snows.").app(), models=MODELS) as gateway,
        httpx.AsyncClient() as client,
    ):
        await client.post(f"{gateway.url}/v1/messages", json=REQUEST)
        found = await scraped(gateway, client)
    labels = {"model": "claude-*", "upstream": "local"}
    assert found[requests_of("completed")] == 1
    assert found["streamnorm_open_streams"] == 0
    assert found[f"streamnorm_time_to_first_event_seconds_count{labels}"] == 1
    assert found[f"streamnorm_request_seconds_count{labels}"] == 1
    assert found["streamnorm_tokens_total{'kind': 'input'}"] > 0
    assert found["streamnorm_tokens_total{'kind': 'output'}"] > 0


@pytest.mark.anyio
async def test_cut_stream_is_counted_as_truncated() -> None:
    """Also where the bytes pass unchanged, which show no end."""
    provider = FakeProvider("It snows today.", faults=[faults.cut(event=3)])
    async with (
        served_gateway(provider.app(), models=MODELS) as gateway,
        httpx.AsyncClient() as client,
    ):
        url = f"{gateway.url}/v1/chat/completions"
        await client.post(url, json={**REQUEST, "model": "qwen3"})
        found = await scraped(gateway, client)
    assert found[requests_of("truncated", "reset", client="openai_chat", model="*")] == 1


@pytest.mark.anyio
async def test_open_streams_are_those_that_are_being_answered() -> None:
    provider = FakeProvider("It snows today.", faults=[faults.stall(event=3)])
    async with (
        served_gateway(provider.app()) as gateway,
        httpx.AsyncClient() as client,
        client.stream("POST", f"{gateway.url}/v1/messages", json=REQUEST) as response,
    ):
        await anext(response.aiter_bytes())
        assert (await scraped(gateway, client))["streamnorm_open_streams"] == 1


@pytest.mark.anyio
async def test_hostile_headers_and_queries_are_not_read() -> None:
    async with served_gateway(FakeProvider([]).app()) as gateway, httpx.AsyncClient() as client:
        url = f"{gateway.url}/metrics?name[]=%ff&{'a=b&' * 200}"
        headers = [(b"accept", b"\xff"), (b"accept-encoding", b"gzip;q=\xff")]
        response = await client.get(url, headers=headers)
    assert response.status_code == 200
    assert samples(response.text)["streamnorm_open_streams"] == 0


def call(model: str) -> CallRecord:
    usage = Usage(20, 7, 5, 2, 3)
    return CallRecord(
        client="anthropic",
        operation="stream",
        model=model,
        upstream="local",
        started_at=0.0,
        first_event_s=0.5,
        seconds=2.0,
        status=200,
        outcome=Completed("end_turn", usage),
        usage=usage,
        losses={"reasoning": 2},
    )


def exposition(metrics: Metrics) -> dict[str, float]:
    return samples(metrics.text().decode())


def test_tokens_and_losses_are_counted_by_kind() -> None:
    metrics = Metrics(gateway_config("http://127.0.0.1:1"))
    for _ in range(2):
        metrics.begin(call("m"))
        metrics.end(call("m"))
    found = exposition(metrics)
    tokens = {"input": 40, "output": 14, "cache_read": 10, "cache_write": 4, "reasoning": 6}
    for kind, count in tokens.items():
        assert found[f"streamnorm_tokens_total{ {'kind': kind} }"] == count
    assert found["streamnorm_losses_total{'feature': 'reasoning'}"] == 4
    labels = {"model": "other", "upstream": "local"}
    assert found[f"streamnorm_request_seconds_sum{labels}"] == 4.0


def test_features_that_clients_make_up_are_bounded() -> None:
    metrics = Metrics(gateway_config("http://127.0.0.1:1"))
    for number in range(1000):
        metrics.begin(call("m"))
        metrics.end(structs.replace(call("m"), losses={f"field_{number}": 1}))
    found = exposition(metrics)
    lost = [key for key in found if key.startswith("streamnorm_losses_total")]
    assert len(lost) == 257
    assert found["streamnorm_losses_total{'feature': 'other'}"] == 744


@pytest.mark.anyio
async def test_field_that_a_client_makes_up_does_not_break_the_metrics() -> None:
    body = json.dumps({**REQUEST, "sk-1234": 1, "\ud800": 1}).encode()
    async with (
        served_gateway(FakeProvider("It snows.").app()) as gateway,
        httpx.AsyncClient() as client,
    ):
        headers = {"content-type": "application/json"}
        await client.post(f"{gateway.url}/v1/messages", content=body, headers=headers)
        found = await scraped(gateway, client)
    lost = [key for key in found if key.startswith("streamnorm_losses_total")]
    assert not any("sk-1234" in key for key in lost)


def test_models_that_the_configuration_does_not_name_are_one_series() -> None:
    metrics = Metrics(gateway_config("http://127.0.0.1:1", models=MODELS[:1]))
    for number in range(50):
        for model in (f"claude-{number}", f"made-up-{number}"):
            metrics.begin(call(model))
            metrics.end(call(model))
    found = exposition(metrics)
    models = {key: value for key, value in found.items() if key.startswith("streamnorm_requests")}
    assert models == {requests_of("completed"): 50, requests_of("completed", model="other"): 50}


def test_each_gateway_has_its_own_numbers() -> None:
    first, second = (Metrics(gateway_config("http://127.0.0.1:1")) for _ in range(2))
    first.begin(call("m"))
    first.end(call("m"))
    assert requests_of("completed", model="other") in exposition(first)
    assert requests_of("completed", model="other") not in exposition(second)


def test_every_metric_is_described() -> None:
    metrics = Metrics(gateway_config("http://127.0.0.1:1"))
    metrics.begin(call("m"))
    metrics.end(call("m"))
    found = exposition(metrics)
    for name, (_, labels) in METRICS.items():
        sample = next(key for key in found if key.startswith(name))
        assert sorted(labels) == [label for label in sorted(labels) if f"'{label}'" in sample]


PROGRAM = """
import os
from streamnorm.gateway import Config, UpstreamConfig
from streamnorm.gateway.metrics import Metrics
from streamnorm.gateway.observing import CallRecord

upstream = UpstreamConfig(dialect="anthropic", base_url="http://127.0.0.1:1")
metrics = Metrics(Config(upstreams={"local": upstream}))
call = CallRecord(client="anthropic", operation="message", started_at=0.0, status=404)
# Each worker has files of its own.
worker = os.fork()
for _ in range(3):
    metrics.begin(call)
    metrics.end(call)

if worker == 0:
    os._exit(0)
os.waitpid(worker, 0)
print(metrics.text().decode())
"""


def test_workers_answer_with_the_numbers_of_all(tmp_path: Path) -> None:
    env = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.stderr == ""
    found = samples(done.stdout)
    labels = {"client": "anthropic", "model": "other", "outcome": "refused"}
    labels |= {"reason": "", "upstream": ""}
    assert found[f"streamnorm_requests_total{labels}"] == 6
    assert found["streamnorm_open_streams"] == 0


DYING_WORKER = (
    PROGRAM.partition("# Each worker")[0]
    + """
import signal

for kill in (True, False):
    worker = os.fork()
    if worker == 0:
        metrics.begin(call)
        metrics.begin(call)
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
    if kill:
        os.waitpid(worker, 0)
while metrics.text().count(b"streamnorm_open_streams 2.0") == 0:
    pass
os.kill(worker, signal.SIGKILL)
os.waitpid(worker, 0)
metrics.begin(call)
print(metrics.text().decode())
"""
)


def test_requests_of_a_worker_that_died_are_not_open(tmp_path: Path) -> None:
    """Those of a living one are; it had both to end, and no process counts them down."""
    env = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", DYING_WORKER], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.stderr == ""
    assert samples(done.stdout)["streamnorm_open_streams"] == 1


def test_a_worker_that_is_just_starting_counts_nothing_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """prometheus-client makes a file first, and gives it its header after that."""
    (tmp_path / "counter_1.db").touch()
    (tmp_path / "gauge_livesum_1.db").touch()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    assert Metrics(gateway_config("http://127.0.0.1:1")).text() == b""


def test_counts_of_a_worker_that_died_stay(tmp_path: Path) -> None:
    """4194305 is one more than the largest number of a process."""
    for name in ("gauge_livesum_0x.db", "gauge_livesum_4194305.db", "counter_4194305.db"):
        (tmp_path / name).touch()
    _forget_dead_workers(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {
        "gauge_livesum_0x.db",
        "counter_4194305.db",
    }
