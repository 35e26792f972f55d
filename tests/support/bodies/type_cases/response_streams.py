"""Streams of the Responses API generated from the SDK's types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from openai.types.responses import ResponseStreamEvent

from support.bodies.type_cases.answers import RESPONSES_ANSWER, answer_cases, response_item
from support.bodies.type_cases.case import JSON, Case, cases_of
from support.bodies.type_cases.walk import ABSENT, fields_of, label_of, members, minimal, variants

__all__ = ["responses_stream_cases"]


def responses_stream_cases() -> Iterator[Case]:
    """Yield a stream for each item, field of the response, and event."""
    for case in answer_cases("openai_responses"):
        others, without = tuple(map(_stream, case.others)), tuple(map(_stream, case.without))
        yield case._replace(body=_stream(case.body), others=others, without=without)
    frames = _stream(RESPONSES_ANSWER)["frames"]
    response = {**frames[0]["response"], "status": "queued"}
    queued = [frames[0], {"type": "response.queued", "response": response}, *frames[1:]]
    queued = [{**frame, "sequence_number": n} for n, frame in enumerate(queued)]
    without = ({"frames": frames},)
    yield Case("openai_responses", "response.queued", {"frames": queued}, (), without, False)
    for event in members(ResponseStreamEvent):
        kind = label_of(event)
        if "response" in (fields_of(event) or {}) or kind in _OF_ALL_ITEMS:
            continue
        build, none = partial(_with_event, kind), _stream(RESPONSES_ANSWER)
        yield from cases_of("openai_responses", kind, variants(event), build, none)


_OF_ALL_ITEMS = frozenset(
    {
        "response.output_item.added",
        "response.output_item.done",
        "response.content_part.added",
        "response.content_part.done",
    }
)
"""Events whose parts are those of the items."""


def _stream(answer: JSON, events: dict[int, list[JSON]] | None = None) -> JSON:
    """Return the stream of an answer.

    Args:
        answer: The whole response.
        events: Events of items by their position; those of a message stand behind its texts.
    """
    end = {"failed": "failed", "incomplete": "incomplete", "cancelled": "failed"}
    started = {**answer, "status": "in_progress", "output": []}
    started |= {"error": None, "incomplete_details": None}
    started |= {"usage": None, "completed_at": None}
    frames: list[JSON] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    for number, item in enumerate(answer["output"]):
        first, *texts, last = _item_events(item)
        more = (events or {}).get(number)
        if item["type"] == "message":
            texts += more or ()
        elif more is not None:
            texts = more
        frames += [{**event, "output_index": number} for event in (first, *texts, last)]
    status = answer.get("status") or "completed"
    kind = f"response.{end.get(status, 'completed')}"
    frames.append({"type": kind, "response": answer})
    return {"frames": [{**frame, "sequence_number": n} for n, frame in enumerate(frames)]}


def _item_events(item: JSON) -> list[JSON]:
    """Return the events of an item: start, texts, end."""
    place = {"item_id": item["id"]} if item.get("id") else {}
    started, events = item, list[JSON]()
    match item["type"]:
        case "message":
            started = {**item, "content": []}
            for number, part in enumerate(item["content"]):
                events += _part_events(part, {**place, "content_index": number})
        case "reasoning":
            started = {**item, "summary": []}
            for number, part in enumerate(item["summary"]):
                events += _summary_events(part, {**place, "summary_index": number})
            if item.get("content"):
                started["content"] = []
            for number, part in enumerate(item.get("content") or ()):
                at = {**place, "content_index": number}
                texts = _text_events("reasoning_text", at, text=part["text"])
                events += _in_part(part, {**part, "text": ""}, texts, at)
        case "function_call":
            started = {**item, "arguments": ""}
            arguments = item["arguments"]
            events = _text_events("function_call_arguments", place, arguments=arguments)
        case "mcp_call":
            started = {**item, "arguments": ""}
            events = _text_events("mcp_call_arguments", place, arguments=item["arguments"])
        case "shell_call":
            started = {**item, "action": {**item["action"], "commands": []}}
            for number, command in enumerate(item["action"]["commands"]):
                events += _command_events(command, number)
        case "custom_tool_call":
            started = {**item, "input": ""}
            events = _text_events("custom_tool_call_input", place, input=item["input"])
    if "status" in started and not item["type"].endswith("_output"):  # which comes whole
        started = {**started, "status": "in_progress"}
    return [
        {"type": "response.output_item.added", "item": started},
        *events,
        {"type": "response.output_item.done", "item": item},
    ]


def _text_events(kind: str, place: JSON, **field: str) -> list[JSON]:
    """Return the events of a text: one delta, and the end."""
    (text,) = field.values()
    return [
        {"type": f"response.{kind}.delta", **place, "delta": text},
        {"type": f"response.{kind}.done", **place, **field},
    ]


def _command_events(command: str, number: int) -> list[JSON]:
    at = {"command_index": number}
    kind = "response.shell_call_command"
    return [
        {"type": f"{kind}.added", **at, "command": ""},
        {"type": f"{kind}.delta", **at, "delta": command},
        {"type": f"{kind}.done", **at, "command": command},
    ]


def _part_events(part: JSON, place: JSON) -> list[JSON]:
    if part["type"] == "refusal":
        empty = {**part, "refusal": ""}
        events = _text_events("refusal", place, refusal=part["refusal"])
    else:
        empty = {**part, "text": "", "annotations": []}
        events = _text_events("output_text", place, text=part["text"])
        logprobs = part.get("logprobs")
        if logprobs is not None:
            empty["logprobs"] = []
            events = [{**event, "logprobs": logprobs} for event in events]
        kind = "response.output_text.annotation.added"
        for number, annotation in enumerate(part["annotations"]):
            added = {"type": kind, **place, "annotation_index": number, "annotation": annotation}
            events.insert(-1, added)
    return _in_part(part, empty, events, place)


def _in_part(part: JSON, empty: JSON, events: list[JSON], place: JSON) -> list[JSON]:
    return [
        {"type": "response.content_part.added", **place, "part": empty},
        *events,
        {"type": "response.content_part.done", **place, "part": part},
    ]


def _summary_events(part: JSON, place: JSON) -> list[JSON]:
    return [
        {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}},
        *_text_events("reasoning_summary_text", place, text=part["text"]),
        {"type": "response.reasoning_summary_part.done", **place, "part": part},
    ]


_PROGRESS: dict[str, tuple[str, ...]] = {
    "code_interpreter_call": (
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
    ),
    "compaction": ("response.compaction.compacting",),
    "file_search_call": (
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
    ),
    "web_search_call": (
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
    ),
    "image_generation_call": (
        "response.image_generation_call.in_progress",
        "response.image_generation_call.generating",
        "response.image_generation_call.partial_image",
        "response.image_generation_call.completed",
    ),
    "shell_call": (
        "response.shell_call_command.added",
        "response.shell_call_command.delta",
        "response.shell_call_command.done",
    ),
    "shell_call_output": (
        "response.shell_call_output_content.delta",
        "response.shell_call_output_content.done",
    ),
    "mcp_call": (
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
    ),
    "mcp_list_tools": (
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
    ),
}
"""The events of items that no text of theirs has, in order."""
_ITEM_OF = {
    event.removeprefix("response.").rpartition(".")[0]: item
    for item, events in _PROGRESS.items()
    for event in events
}
_EVENTS = {label_of(event): event for event in members(ResponseStreamEvent)}


def _event(kind: str) -> JSON:
    event: JSON = minimal(_EVENTS[kind])
    return event


def _with_event(kind: str, event: Any) -> JSON:
    """Return a stream with an event, inside its item if it has one."""
    if kind == "error":
        frames = _stream(RESPONSES_ANSWER)["frames"]
        if event is ABSENT:
            return {"frames": frames}
        return {"frames": [*frames[:-1], {**event, "sequence_number": len(frames) - 1}]}
    name = kind.removeprefix("response.").rpartition(".")[0]
    if name.startswith("audio"):
        more = [] if event is ABSENT else [event]
        return _stream(RESPONSES_ANSWER, {0: more})
    if name in _ITEM_OF:
        return _with_progress(_ITEM_OF[name], kind, event)
    return _with_text_event(kind, event)


def _with_progress(item_kind: str, kind: str, event: Any) -> JSON:
    """Return a stream with an item and its events, one of them given."""
    item = response_item(item_kind)
    ending = kind.removesuffix(".failed") + ".completed" if kind.endswith(".failed") else ""
    events: list[JSON] = []
    text = "x" if event is ABSENT else _text_of(event)
    for name in _PROGRESS[item_kind]:
        if name == kind and event is not ABSENT:
            events.append(event)
        elif name not in (kind, ending) and not name.endswith(".failed"):
            other = _event(name)
            texts = {key for key in other.keys() & _TEXTS if isinstance(other[key], str)}
            events.append({**other, **dict.fromkeys(texts, text)})
    if "id" in item:
        events = [{**e, "item_id": item["id"]} if "item_id" in e else e for e in events]
    item |= dict.fromkeys(item.keys() & {"code", "arguments"}, text)
    if item_kind == "shell_call":
        item["action"] = {**item["action"], "commands": [text]}
    answer = {**RESPONSES_ANSWER, "output": [item, *RESPONSES_ANSWER["output"]]}
    return _stream(answer, {0: events})


_TEXTS = frozenset({"delta", "code", "command", "arguments"})


def _with_text_event(kind: str, event: Any) -> JSON:
    """Return a stream with a given text event."""
    name = kind.removeprefix("response.").rpartition(".")[0]
    if event is ABSENT:
        return _stream(RESPONSES_ANSWER)
    item: JSON = RESPONSES_ANSWER["output"][0]
    if name.startswith("reasoning"):
        item = {"id": "rs_1", "type": "reasoning", "summary": []}
        if name == "reasoning_text":
            item["content"] = [{"type": "reasoning_text", "text": _text_of(event)}]
        else:
            item["summary"] = [{"type": "summary_text", "text": _text_of(event)}]
    elif name in ("function_call_arguments", "mcp_call_arguments"):
        item = response_item(name.removesuffix("_arguments"))
        item = {**item, "arguments": _text_of(event)}
    elif name == "custom_tool_call_input":
        item = {**response_item("custom_tool_call"), "input": _text_of(event)}
    elif name == "refusal":
        part = {"type": "refusal", "refusal": _text_of(event)}
        item = {**item, "content": [part]}
    elif name == "output_text.annotation":
        (part,) = item["content"]
        annotations = [event["annotation"]] if event.get("annotation") else []
        item = {**item, "content": [{**part, "annotations": annotations}]}
    else:
        (part,) = item["content"]
        part = {**part, "text": _text_of(event), "logprobs": event["logprobs"]}
        item = {**item, "content": [part]}
    answer = {**RESPONSES_ANSWER, "output": [item]}
    frames = _stream(answer)["frames"]
    for number, frame in enumerate(frames):
        if frame["type"] == kind:
            places = {key: frame[key] for key in frame.keys() - event.keys()}
            names = ("item_id", "output_index", "sequence_number")
            places |= {key: frame[key] for key in names if key in frame}
            if kind.endswith("part.added"):  # a part starts without text
                places["part"] = frame["part"]
            frames[number] = {**event, **places}
    return {"frames": frames}


def _text_of(event: JSON) -> str:
    for name in ("delta", "text", "arguments", "input", "refusal", "code", "command"):
        if isinstance(event.get(name), str):
            return str(event[name])
    part = event.get("part") or {}
    return part.get("text") or "Done."
