"""Telegraph: a made-up dialect in one file, registered from outside the package.

    data: {"telegraph":"open","id":"t1","model":"m"}
    data: {"telegraph":"start","block":0,"kind":"call","id":"c","name":"f"}
    data: {"telegraph":"more","block":0,"text":"{}"}
    data: {"telegraph":"stop","block":0}
    data: {"telegraph":"end","reason":"tool_use","tokens":{"in":3,"out":2}}

Kinds are `text`, `reasoning` and `call`.  `idle` is a sign of life, `fault` ends the stream with
an error, and any other event is opaque.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Unpack, get_args

import msgspec
from msgspec import Struct, structs

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    CitationDelta,
    Completed,
    Event,
    JSONDelta,
    LocalProtocolError,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    Reasoning,
    ReasoningDelta,
    SignatureDelta,
    StopReason,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
)
from streamnorm._core.codec import (
    Checker,
    DecodeOptions,
    Decoder,
    Dialect,
    EncodeOptions,
    Encoder,
    Endpoints,
    Route,
)
from streamnorm._core.failures import Fatal, error_outcome, too_large, upstream_error
from streamnorm._core.grammar import EventGrammar
from streamnorm._core.json import FAST_ERRORS, compact, object_in
from streamnorm._core.losses import Capabilities
from streamnorm.sse import Frame
from support.example_dialect.bodies import codec, is_request, is_response

__all__ = ["TELEGRAPH", "frame"]

CAPABILITIES = Capabilities(
    dialect="telegraph",
    identity=True,
    choices=False,
    boundaries=True,
    overlapping=(),
    blank_text=True,
    refusal=False,
    reasoning=True,
    reasoning_parts=False,
    redacted_reasoning=False,
    redacted_as_signature_of=None,
    signed=(),
    custom_tools=False,
    namespaces=False,
    unfinished_calls=False,
    null_arguments=True,
    broken_arguments=True,
    server_tools=(),
    media=(),
    file_urls=True,
    citations=frozenset(),
    url_citation=None,
    cited_texts=frozenset(),
    not_round_tripped=frozenset(),
    stop_reasons=frozenset({"end_turn", "max_tokens", "tool_use", "refusal"}),
    native_stop_reasons=frozenset(),
    unnamed_stop_sequence=False,
    service_tiers={},
    usage="known",
    cache_write=False,
    reasoning_tokens=True,
    excess_reasoning=True,
)

ENDPOINTS = Endpoints(
    routes=(Route("POST", re.compile(r"/telegraph/(?P<model>[^/]+)/send\Z"), "stream"),),
    key_headers=("x-telegraph-key",),
    servers={"wires.example-telegraph.net": "western"},
)

_STARTS: dict[str, Callable[[_Wire], Block]] = {
    "text": lambda wire: Text(),
    "reasoning": lambda wire: Reasoning(),
    "call": lambda wire: ToolCall(wire.id, wire.name),
}
_KINDS = {Text: "text", Reasoning: "reasoning", ToolCall: "call"}


class _Tokens(Struct, rename={"input_tokens": "in", "output_tokens": "out"}, omit_defaults=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Wire(Struct):
    telegraph: str
    id: str = ""
    model: str = ""
    block: int = 0
    kind: str = ""
    name: str = ""
    text: str = ""
    reason: str = ""
    sequence: str | None = None
    tokens: _Tokens | None = None
    message: str = ""
    status: int | None = None


_WIRE: msgspec.json.Decoder[_Wire] = msgspec.json.Decoder(_Wire)


def frame(event: str, **fields: Any) -> bytes:
    return f"data: {compact({'telegraph': event, **fields})}\n\n".encode()


class TelegraphDecoder(Decoder):
    dialect = "telegraph"

    def __init__(self, **options: Unpack[DecodeOptions]) -> None:
        super().__init__(**options)
        self._grammar = EventGrammar()
        self._open: dict[int, type[Block]] = {}

    def read(self, frame: Frame, events: list[Event]) -> None:
        try:
            wire = _WIRE.decode(frame.data)
        except FAST_ERRORS as exc:
            raise self.malformed(f"frame of {len(frame.data)} characters is no event") from exc
        for event in self._events(wire, frame):
            try:
                self._grammar.advance(event)
            except LocalProtocolError as exc:
                raise self.malformed(str(exc)) from exc
            events.append(event)

    def may_end_with(self, frame: Frame, value: object) -> bool:
        return is_terminal(frame)

    def _events(self, wire: _Wire, frame: Frame) -> Iterator[Event]:
        match wire.telegraph:
            case "open":
                yield MessageStart(wire.id, wire.model)
            case "start" if wire.kind in _STARTS:
                if wire.block >= self._limits.max_blocks:
                    raise too_large("max_blocks", self._limits.max_blocks)
                block = _STARTS[wire.kind](wire)
                self._open[wire.block] = type(block)
                yield BlockStart(wire.block, block)
            case "more" if wire.block in self._open:
                if wire.text:
                    yield self._delta(wire)
            case "stop":
                yield BlockStop(wire.block)
            case "end" if wire.reason in get_args(StopReason):
                usage = Usage()
                if wire.tokens is not None:
                    usage = structs.replace(usage, **structs.asdict(wire.tokens))
                    yield UsageUpdate(usage)
                stop = MessageStop(wire.reason, wire.reason, wire.sequence)  # type: ignore[arg-type]
                yield stop
                self.outcome = Completed(stop.reason, usage)
            case "fault":
                error = upstream_error(wire.message, status=wire.status)
                yield error
                self.outcome = error_outcome(error)
            case "idle":
                yield Ping()
            case "start" | "more" | "end":
                raise Fatal(StreamError("malformed", f"{wire.telegraph} of no known kind or block"))
            case other:
                yield Opaque("telegraph", other, frame.data)

    def _delta(self, wire: _Wire) -> Event:
        kind = self._open[wire.block]
        if kind is ToolCall:
            return JSONDelta(wire.block, wire.text)
        return (TextDelta if kind is Text else ReasoningDelta)(wire.block, wire.text)


class TelegraphEncoder(Encoder):
    dialect = "telegraph"
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self._numbers: dict[int, int] = {}
        self._usage = Usage()

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        return lambda text: frame("more", block=self._numbers[index], text=text)

    def ping(self) -> bytes:
        return frame("idle")

    def error_body(self, error: StreamError) -> bytes:
        return compact({"telegraph": "fault", "message": error.message}).encode()

    def close(self) -> bytes:
        return b""

    def _text(self, event: TextDelta | ReasoningDelta) -> bytes:
        return frame("more", block=self._numbers[event.index], text=event.text)

    _reasoning = _text

    def _json(self, event: JSONDelta) -> bytes:
        return frame("more", block=self._numbers[event.index], text=event.partial_json)

    def _signature(self, event: SignatureDelta) -> bytes:
        raise AssertionError("signature passed the projection")

    def _citation(self, event: CitationDelta) -> bytes:
        raise AssertionError("citation passed the projection")

    def _block_start(self, event: BlockStart) -> bytes:
        block, number = event.block, len(self._numbers)
        self._numbers[event.index] = number
        names = {"id": block.id, "name": block.name} if isinstance(block, ToolCall) else {}
        return frame("start", block=number, kind=_KINDS[type(block)], **names)

    def _block_stop(self, event: BlockStop) -> bytes:
        return frame("stop", block=self._numbers[event.index])

    def _message_start(self, event: MessageStart) -> bytes:
        return frame("open", id=event.id, model=self._model or event.model)

    def _usage_update(self, event: UsageUpdate) -> bytes:
        self._usage = event.usage
        return b""

    def _message_stop(self, event: MessageStop) -> bytes:
        stop: dict[str, Any] = {"reason": event.reason}
        if event.stop_sequence is not None:
            stop["sequence"] = event.stop_sequence
        if self._usage == Usage():
            return frame("end", **stop)
        told = {name: getattr(self._usage, name) for name in _Tokens.__struct_fields__}
        tokens = {"in": told.pop("input_tokens") or 0, "out": told.pop("output_tokens") or 0}
        known = {name: count for name, count in told.items() if count is not None}
        return frame("end", **stop, tokens={**tokens, **known})

    def _error(self, event: StreamError) -> bytes:
        return frame("fault", message=event.message, status=event.status_hint)

    def _opaque(self, event: Opaque) -> bytes:
        return f"data: {compact(json.loads(event.data))}\n\n".encode()


class TelegraphChecker(Checker):
    def __init__(self) -> None:
        self._ended = False

    def read(self, frame: Frame) -> Iterator[str]:
        self._ended = self._ended or is_terminal(frame)
        if "telegraph" not in object_in(frame.data):
            yield "frame without telegraph, expected one"

    def missing(self) -> list[str]:
        return [] if self._ended else ["stream without end, expected one"]


def is_terminal(frame: Frame) -> bool:
    return object_in(frame.data).get("telegraph") == "end"


TELEGRAPH = Dialect(
    name="telegraph",
    aliases=("wire",),
    recognises=lambda frame: isinstance(object_in(frame.data).get("telegraph"), str),
    is_terminal=is_terminal,
    decoder=TelegraphDecoder,
    encoder=TelegraphEncoder,
    checker=TelegraphChecker,
    capabilities=CAPABILITIES,
    body=codec,
    is_request=is_request,
    is_response=is_response,
    endpoints=ENDPOINTS,
    overloaded_status=598,
)
