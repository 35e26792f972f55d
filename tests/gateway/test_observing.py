"""Observers see each request, and break none."""

from __future__ import annotations

import logging
import sys

import httpx
import pytest
from support.gateway_servers import gateway_config, served_gateway

from streamnorm.gateway.observing import Observers
from streamnorm.gateway.records import CallRecord
from streamnorm.testing import FakeProvider

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
SAID = "what the client said"


class Broken:
    """An observer that always fails."""

    def begin(self, call: CallRecord) -> None:
        raise ValueError(SAID)

    def end(self, call: CallRecord) -> None:
        raise KeyError(SAID)


class Recorder:
    def __init__(self) -> None:
        self.begun: list[CallRecord] = []
        self.ended: list[CallRecord] = []

    def begin(self, call: CallRecord) -> None:
        self.begun.append(call)

    def end(self, call: CallRecord) -> None:
        self.ended.append(call)


@pytest.mark.anyio
async def test_broken_observer_breaks_no_request_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder()
    async with (
        served_gateway(
            FakeProvider(["Hi.", "Hi."]).app(), observers=(Broken(), recorder)
        ) as gateway,
        httpx.AsyncClient() as client,
    ):
        for _ in range(2):
            response = await client.post(f"{gateway.url}/v1/chat/completions", json=REQUEST)
            assert response.status_code == 200
    assert len(recorder.begun) == len(recorder.ended) == 2
    errors = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert errors == ["observer Broken failed with ValueError; its further failures are not logged"]


def test_without_prometheus_client_there_are_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "streamnorm.gateway.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert Observers(gateway_config("http://127.0.0.1:1")).metrics is None


def test_without_opentelemetry_a_request_is_observed_nevertheless(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "streamnorm.gateway.telemetry", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    caplog.set_level(logging.INFO, "streamnorm.gateway")
    observers = Observers(gateway_config("http://127.0.0.1:1"))
    call = CallRecord(client="anthropic", operation="message", started_at=1.0)
    observers.begin(call)
    observers.end(call)
    assert [one.levelname for one in caplog.records] == ["INFO"]
