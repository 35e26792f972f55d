"""Observers see each request, and break none."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.gateway.observers import RecordingObserver
from support.gateway.servers import gateway_config, served_gateway

from streamnorm.gateway.observing import CallRecord, JSONFormatter, Observers
from streamnorm.testing import FakeProvider

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
SAID = "what the client said"


class Broken:
    """An observer that always fails."""

    def begin(self, call: CallRecord) -> None:
        raise ValueError(SAID)

    def end(self, call: CallRecord) -> None:
        raise KeyError(SAID)


@pytest.mark.anyio
async def test_broken_observer_breaks_no_request_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = RecordingObserver()
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


@pytest.mark.anyio
@pytest.mark.parametrize("stream", [False, True])
async def test_no_secret_reaches_log_metrics_or_spans(
    stream: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the client sends, and the upstream repeats in its answer and in its error."""
    secrets = ["in-a-key", "in-a-query", "in-a-prompt", "in-an-answer", "in-a-code", "in-an-error"]
    error = {"error": {"message": "in-an-error in-a-key", "code": "in-a-code", "type": "in-a-code"}}
    answers: list[Any] = [error, "in-an-answer"]

    async def upstream(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        answer = answers.pop(0)
        if isinstance(answer, str):
            await FakeProvider(answer).app()(scope, receive, send)
            return
        kind = [(b"content-type", b"application/json"), (b"x-request-id", b"in-an-error")]
        await send({"type": "http.response.start", "status": 400, "headers": kind})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace.get_tracer", provider.get_tracer)
    caplog.set_level(logging.DEBUG)
    body = {**REQUEST, "stream": stream, "messages": [{"role": "user", "content": "in-a-prompt"}]}
    async with (
        served_gateway(upstream, options={"key": "client"}) as gateway,
        httpx.AsyncClient() as client,
    ):
        for _ in range(2):
            url = f"{gateway.url}/v1/chat/completions?key=in-a-query"
            response = await client.post(url, json=body, headers={"authorization": "in-a-key"})
            assert response.text
        metrics = (await client.get(f"{gateway.url}/metrics")).text
    assert answers == []
    formatter = JSONFormatter()
    lines = [formatter.format(one) for one in caplog.records if one.name.startswith("streamnorm")]
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert (len(lines), len(spans)) == (2, 2)
    seen = "\n".join([*lines, *spans, metrics])
    assert [secret for secret in [*secrets, gateway.upstream_url] if secret in seen] == []


def test_without_prometheus_client_there_are_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "streamnorm.gateway.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert Observers(gateway_config("http://127.0.0.1:1")).metrics is None


@pytest.mark.anyio
async def test_without_opentelemetry_a_request_is_observed_nevertheless(
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
