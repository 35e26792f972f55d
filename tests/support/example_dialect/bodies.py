"""Whole bodies of Telegraph, the made-up dialect.

{"telegraph":"ask","model":"fast-1","limit":9,"say":[{"who":"user","text":"Hello"}]}
{"telegraph":"answer","id":"t1","model":"fast-1","reason":"end_turn","tokens":{"in":3,"out":2},
 "blocks":[{"kind":"text","text":"Hello "},{"kind":"call","id":"c","name":"f","text":"{}"}]}
{"telegraph":"fault","message":"overloaded","status":598}
"""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

from streamnorm import (
    Event,
    InputMessage,
    Message,
    Reasoning,
    Request,
    StopReason,
    Text,
    ToolCall,
    Usage,
    accumulate,
    message_events,
    project,
)
from streamnorm._core.blocks import Block
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    get_int,
    get_objects,
    get_str,
    prefix_path,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import Source, unchanged_source
from streamnorm._core.codec import BodyCodec, ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.failures import upstream_error
from streamnorm._core.losses import Losses

__all__ = ["CAPABILITIES", "codec", "is_request", "is_response"]

CAPABILITIES = BodyCapabilities(dialect="telegraph", fields=frozenset({"max_tokens", "betas"}))
_FIELDS = frozenset({"telegraph", "model", "limit", "say"})


def codec() -> BodyCodec:
    return BodyCodec(
        capabilities=CAPABILITIES,
        read_request=_read_request,
        read_tools=lambda body: (),
        write_request=_write_request,
        read_response=_read_response,
        write_response=_write_response,
    )


def is_request(body: dict[str, Any]) -> bool:
    return body.get("telegraph") == "ask"


def is_response(body: dict[str, Any]) -> bool:
    return body.get("telegraph") in ("answer", "fault")


def _read_request(body: dict[str, Any], context: ReadContext) -> Request:
    rest = unknown_fields(body, _FIELDS)
    request = Request(
        model=get_str(body, "model") or "",
        messages=tuple(_message(each, path) for path, each in get_objects(body, "say")),
        max_tokens=get_int(body, "limit"),
        extra={"telegraph": rest} if rest else None,
    )
    return Request(**_fields(request), source=Source("telegraph", body, request))


def _fields(request: Request) -> dict[str, Any]:
    return {n: getattr(request, n) for n in request.__struct_fields__ if n != "source"}


def _message(value: dict[str, Any], path: str) -> InputMessage:
    try:
        who, text = require_str(value, "who"), require_str(value, "text")
        if who not in ("user", "assistant"):
            raise unexpected(who, "user or assistant", "$.who")
    except DecodeError as exc:
        raise prefix_path(exc, path) from exc
    return InputMessage(cast("Literal['user', 'assistant']", who), (Text(text),))


def _write_request(request: Request, context: WriteContext) -> Written:
    path = f"/telegraph/{request.model}/send"
    same = unchanged_source(request, "telegraph")
    if same is not None:
        return Written(same, path)
    said: list[dict[str, Any]] = []
    for number, message in enumerate(request.messages):
        for call in message.tool_calls:
            context.arguments_of(call, f"messages[{number}]")
            context.losses.add("tool_call", "messages", "dropped")
        said.append({"who": message.role, "text": message.text})
    body: dict[str, Any] = {"telegraph": "ask", "model": request.model, "say": said}
    if request.max_tokens is not None:
        body["limit"] = request.max_tokens
    headers = {"x-telegraph-beta": ",".join(request.betas)} if request.betas else {}
    return Written(body, path, headers)


def _read_response(body: dict[str, Any], context: ReadContext) -> list[Event]:
    if body.get("telegraph") == "fault":
        message = require_str(body, "message")
        return [upstream_error(message, status=get_int(body, "status"))]
    reason = require_str(body, "reason")
    if reason not in get_args(StopReason):
        raise unexpected(reason, "a stop reason", "$.reason")
    tokens = cast("dict[str, int]", body.get("tokens", {}))
    return message_events(
        Message(
            id=get_str(body, "id") or "",
            model=get_str(body, "model") or "",
            blocks=tuple(_block(each, path) for path, each in get_objects(body, "blocks")),
            stop_reason=cast("StopReason", reason),
            raw_stop_reason=reason,
            usage=Usage(tokens.get("in"), tokens.get("out")),
        )
    )


def _block(value: dict[str, Any], path: str) -> Block:
    try:
        kind, text = require_str(value, "kind"), require_str(value, "text")
        match kind:
            case "text":
                return Text(text)
            case "reasoning":
                return Reasoning((text,))
            case "call":
                return ToolCall(require_str(value, "id"), require_str(value, "name"), text)
            case _:
                raise unexpected(kind, "text, reasoning or call", "$.kind")
    except DecodeError as exc:
        raise prefix_path(exc, path) from exc


def _write_response(message: Message, created: float | None, losses: Losses) -> dict[str, Any]:
    if message.stop_reason is None:
        raise EncodeError("no stop reason, expected one", path="stop_reason")
    events, lost = project(message_events(message), "telegraph")
    for loss in lost:
        for _ in range(loss.count):
            losses.add(loss.feature, loss.where, loss.detail)
    carried = accumulate(events)
    tokens = {"in": carried.usage.input_tokens or 0, "out": carried.usage.output_tokens or 0}
    return {
        "telegraph": "answer",
        "id": carried.id,
        "model": carried.model,
        "blocks": [_wire_block(block) for block in carried.blocks],
        "reason": carried.stop_reason,
        "tokens": tokens,
    }


def _wire_block(block: Block) -> dict[str, str]:
    match block:
        case Text(text):
            return {"kind": "text", "text": text}
        case Reasoning():
            return {"kind": "reasoning", "text": block.text}
        case ToolCall(id, name, arguments):
            return {"kind": "call", "id": id, "name": name, "text": arguments}
        case _:
            raise AssertionError(f"{type(block).__name__} passed the projection")
