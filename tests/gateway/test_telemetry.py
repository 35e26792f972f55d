"""One OpenTelemetry span a request, by the names of the semantic conventions."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support.gateway.servers import gateway_config, served_gateway

from streamnorm._core.events import Completed, Usage
from streamnorm.gateway import Config, UpstreamConfig, telemetry
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.telemetry import Telemetry
from streamnorm.testing import FakeProvider, faults

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
REQUEST = {
    "model": "claude-x",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hello"}],
}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Return the exporter of a tracer provider that stands for the process's."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry.trace, "get_tracer", provider.get_tracer)
    yield exporter
    provider.shutdown()


async def asked(
    body: dict[str, object],
    *fault: faults.Fault,
    headers: dict[str, str] | None = None,
) -> None:
    provider = FakeProvider("It snows today.", faults=fault)
    async with (
        served_gateway(provider.app()) as gateway,
        httpx.AsyncClient() as client,
    ):
        await client.post(f"{gateway.url}/v1/messages", json=body, headers=headers)


def only_span(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, dict[str, object]]:
    (span,) = exporter.get_finished_spans()
    return span, dict(span.attributes or {})


@pytest.mark.anyio
async def test_stream_is_a_span_of_the_conventions(exporter: InMemorySpanExporter) -> None:
    await asked({**REQUEST, "stream": True})
    span, attributes = only_span(exporter)
    assert span.name == "chat claude-x"
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is None
    first = attributes.pop("gen_ai.response.time_to_first_chunk")
    assert isinstance(first, float)
    assert attributes.pop("gen_ai.usage.input_tokens")
    assert attributes.pop("gen_ai.usage.output_tokens")
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "claude-x",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ("stop",),
    }
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time >= first * 1e9


@pytest.mark.anyio
async def test_whole_answer_is_no_stream(exporter: InMemorySpanExporter) -> None:
    await asked(REQUEST)
    _, attributes = only_span(exporter)
    assert "gen_ai.request.stream" not in attributes
    assert "gen_ai.response.time_to_first_chunk" not in attributes


@pytest.mark.anyio
async def test_client_s_span_is_the_parent(exporter: InMemorySpanExporter) -> None:
    await asked(REQUEST, headers={"traceparent": PARENT, "tracestate": "a=b"})
    span, _ = only_span(exporter)
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{span.parent.span_id:016x}" == PARENT.split("-")[2]
    assert span.parent.trace_state.get("a") == "b"


def test_span_of_the_process_is_the_parent_if_there_is_one(
    exporter: InMemorySpanExporter,
) -> None:
    """An instrumented server has read the client's `traceparent` already."""
    call = CallRecord(
        client="anthropic", operation="message", started_at=1.0, trace={"traceparent": PARENT}
    )
    observer = Telemetry(gateway_config("http://127.0.0.1:1"))
    with telemetry.trace.get_tracer("server").start_as_current_span("POST") as outer:
        observer.end(call)
    span = exporter.get_finished_spans()[0]
    assert span.parent is not None
    assert span.parent.span_id == outer.get_span_context().span_id


@pytest.mark.parametrize("value", ["", "x" * 9000, "00-zz-zz-01", "é\x00"])
def test_traceparent_that_is_none_has_no_effect(value: str, exporter: InMemorySpanExporter) -> None:
    trace = {"traceparent": value, "tracestate": value}
    call = CallRecord(client="anthropic", operation="message", started_at=1.0, trace=trace)
    Telemetry(gateway_config("http://127.0.0.1:1")).end(call)
    span, _ = only_span(exporter)
    assert span.parent is None


@pytest.mark.anyio
async def test_cut_stream_is_an_error(exporter: InMemorySpanExporter) -> None:
    await asked({**REQUEST, "stream": True}, faults.cut(event=3))
    span, attributes = only_span(exporter)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None  # the text may quote what was said
    assert attributes["error.type"] == "transport"
    assert attributes["gen_ai.response.finish_reasons"] == ("error",)


def test_tokens_have_the_names_of_the_conventions(exporter: InMemorySpanExporter) -> None:
    usage = Usage(20, 7, 5, 2, 3)
    call = CallRecord(
        client="anthropic",
        operation="stream",
        upstream="local",
        started_at=1.0,
        seconds=1.0,
        outcome=Completed("tool_use", usage),
        usage=usage,
    )
    Telemetry(gateway_config("http://127.0.0.1:1")).end(call)
    span, attributes = only_span(exporter)
    assert span.name == "chat"
    tokens = {name: value for name, value in attributes.items() if "usage" in name}
    assert tokens == {
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.cache_write.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 3,
    }
    assert attributes["gen_ai.response.finish_reasons"] == ("tool_call",)


@pytest.mark.parametrize(
    ("dialect", "base_url", "server", "provider"),
    [
        ("openai", "https://api.openai.com/v1", None, "openai"),
        ("anthropic", "https://api.anthropic.com", None, "anthropic"),
        ("gemini", "https://generativelanguage.googleapis.com", None, "gcp.gemini"),
        ("gemini_interactions", "http://127.0.0.1:8000", None, "gcp.gemini"),
        ("openai_chat", "https://api.x.ai/v1", None, "x_ai"),
        ("openai_chat", "https://api.mistral.ai/v1", None, "mistral_ai"),
        ("openai_chat", "https://api.deepseek.com", None, "deepseek"),
        ("openai_chat", "http://127.0.0.1:8000/v1", "vllm", "vllm"),
        ("openai_chat", "http://127.0.0.1:8000/v1", None, "openai"),
    ],
)
def test_provider_is_named_by_its_server_or_else_by_its_dialect(
    dialect: str, base_url: str, server: str | None, provider: str, exporter: InMemorySpanExporter
) -> None:
    upstream = UpstreamConfig(dialect=dialect, base_url=base_url, server=server)
    call = CallRecord(client="anthropic", operation="message", upstream="a", started_at=1.0)
    Telemetry(Config(upstreams={"a": upstream})).end(call)
    _, attributes = only_span(exporter)
    assert attributes["gen_ai.provider.name"] == provider


def test_request_that_asks_no_model_has_no_span(exporter: InMemorySpanExporter) -> None:
    call = CallRecord(client="anthropic", operation="models", started_at=1.0)
    Telemetry(gateway_config("http://127.0.0.1:1")).end(call)
    assert exporter.get_finished_spans() == ()
