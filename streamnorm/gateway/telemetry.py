"""OpenTelemetry spans, one per request, by the semantic conventions for generative AI.

All names are those of `open-telemetry/semantic-conventions-genai`, `docs/gen-ai/
client-inference.md` (status Development, read 2026-11-23).  They stand in this file alone.
"""

from __future__ import annotations

import time
from typing import TypeAlias

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from streamnorm._core.events import Completed, StopReason
from streamnorm._registry import lookup
from streamnorm.gateway.config import Config, UpstreamConfig
from streamnorm.gateway.observing import CallRecord
from streamnorm.http.urls import server_of

_Value: TypeAlias = str | bool | int | float | list[str]

_OPERATION = "gen_ai.operation.name"
_PROVIDER = "gen_ai.provider.name"
_MODEL = "gen_ai.request.model"
_STREAM = "gen_ai.request.stream"
_FINISH_REASONS = "gen_ai.response.finish_reasons"
_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
_INPUT_TOKENS = "gen_ai.usage.input_tokens"
_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
_CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
_CACHE_WRITE_TOKENS = "gen_ai.usage.cache_write.input_tokens"
_REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
_ERROR_TYPE = "error.type"

# The conventions have one name for both; they have none for counts and lists.
_OPERATIONS = {"message": "chat", "stream": "chat"}

# By the name of the server, or else by the dialect; a server without an entry names itself.
_PROVIDERS = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "gemini_interactions": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}

_REASONS: dict[StopReason, str] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
    "refusal": "content_filter",
}
# Of a generation that ended before its last event.
_NO_REASON = "error"

_NANOSECONDS = 1_000_000_000


class Telemetry:
    """Observer that records a span for each message request at its end.

    The parent is the span of the process that is current, else the client's.

    Args:
        config: The configuration.
    """

    def __init__(self, config: Config) -> None:
        self._tracer = trace.get_tracer("streamnorm.gateway")
        self._providers = {name: _provider(upstream) for name, upstream in config.upstreams.items()}

    def begin(self, call: CallRecord) -> None:
        """Do nothing: the sampler needs attributes that are known only at the end."""

    def end(self, call: CallRecord) -> None:
        """Record the request's span."""
        operation = _OPERATIONS.get(call.operation)
        if operation is None:
            return
        end_time = time.time_ns()
        is_in_span = trace.get_current_span().get_span_context().is_valid
        attributes = self._attributes(call, operation)
        span = self._tracer.start_span(
            f"{operation} {attributes.get(_MODEL, '')}".rstrip(),
            # The span of an instrumented server already has the client's as its parent.
            context=None if is_in_span else propagate.extract(call.trace),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=end_time - int(call.seconds * _NANOSECONDS),
        )
        if _ERROR_TYPE in attributes:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time)

    def _attributes(self, call: CallRecord, operation: str) -> dict[str, _Value]:
        usage, outcome, error = call.usage, call.outcome, call.error
        reason = _NO_REASON
        if isinstance(outcome, Completed):
            reason = _REASONS.get(outcome.reason, outcome.reason)
        attributes: dict[str, _Value | None] = {
            _OPERATION: operation,
            _PROVIDER: self._providers.get(call.upstream),
            _MODEL: call.model_name or None,
            _STREAM: True if call.operation == "stream" else None,
            _FINISH_REASONS: [reason] if call.upstream else None,
            _TIME_TO_FIRST_CHUNK: call.first_event_s,
            _INPUT_TOKENS: usage.input_tokens,
            _OUTPUT_TOKENS: usage.output_tokens,
            _CACHE_READ_TOKENS: usage.cache_read_tokens,
            _CACHE_WRITE_TOKENS: usage.cache_write_tokens,
            _REASONING_TOKENS: usage.reasoning_tokens,
            _ERROR_TYPE: None if error is None else error.kind,
        }
        return {name: value for name, value in attributes.items() if value is not None}


def _provider(upstream: UpstreamConfig) -> str:
    server = upstream.server or server_of(upstream.base_url)
    if server is not None:
        return _PROVIDERS.get(server, server)
    dialect = lookup(upstream.dialect).name
    return _PROVIDERS.get(dialect, dialect)
