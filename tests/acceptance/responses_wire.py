"""The rules of a Responses stream that its clients fail over, read off the bytes.

Nothing of ours reads here: lines are split and JSON is loaded by the plainest means.  The
rules are those of the vendor's reference, and what the official SDKs, Codex and the AI
SDK were seen to need beyond it.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["Items", "broken_rules", "frames"]

Items = list[dict[str, Any]]

_LIFECYCLE = {
    *("response.created", "response.in_progress", "response.queued"),
    *("response.completed", "response.incomplete", "response.failed"),
}
_KNOWN = _LIFECYCLE | {
    *("response.output_item.added", "response.output_item.done"),
    *("response.content_part.added", "response.content_part.done"),
    *("response.output_text.delta", "response.output_text.done"),
    *("response.output_text.annotation.added", "response.refusal.delta", "response.refusal.done"),
    *("response.function_call_arguments.delta", "response.function_call_arguments.done"),
    *("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"),
    *("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"),
    *("response.reasoning_summary_text.delta", "response.reasoning_summary_text.done"),
    *("error", "keepalive"),
}
_WITH_STATUS = ("message", "function_call", "custom_tool_call")
_NEEDED_USAGE = {
    *("input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details"),
    "total_tokens",
}
_NEEDED_KEYS = {
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model"),
    *("previous_response_id", "instructions", "output", "error", "tools", "tool_choice"),
    *("truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty"),
    *("frequency_penalty", "top_logprobs", "temperature", "reasoning", "user", "usage"),
    *("max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata"),
    *("safety_identifier", "prompt_cache_key"),
}


def frames(body: bytes) -> list[dict[str, Any]]:
    """Return the payloads, each of a frame that is named as it is; comments are none."""
    text = body.decode()
    assert text == "" or text.endswith("\n\n")
    payloads: list[dict[str, Any]] = []
    for frame in text.removesuffix("\n\n").split("\n\n"):
        if frame.startswith(":"):
            continue
        name, data = frame.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        payloads.append(payload)
    return payloads


class _Item:
    """What was told of one item."""

    def __init__(self, added: dict[str, Any]) -> None:
        self.added = added
        self.parts: list[dict[str, Any]] = []  # content or summaries, summed up
        self.open: set[int] = set()
        self.text = ""
        self.done: dict[str, Any] | None = None


class _Judge:
    """Follow a stream, and keep what is wrong with it."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.items: dict[int, _Item] = {}

    def need(self, holds: bool, rule: str) -> None:
        if not holds:
            self.broken.append(rule)

    def read(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "response.output_item.added":
            self.add(event)
        elif "output_index" in event:
            item = self.items.get(event["output_index"])
            self.need(item is not None, f"{kind} of an item that was not added")
            if item is not None:
                self.fill(item, event)

    def add(self, event: dict[str, Any]) -> None:
        number, item = event["output_index"], event["item"]
        self.need(number == len(self.items), "output_index is not dense or not unique")
        ids = [other.added.get("id") for other in self.items.values()]
        self.need(item["id"] and item["id"] not in ids, "item id is empty or not unique")
        empty = {"message": "content", "reasoning": "summary"}.get(item["type"])
        if empty is not None:
            self.need(item[empty] == [], "item is added with content")
        if item["type"] == "function_call":
            self.need(item["arguments"] == "", "call is added without empty arguments")
            self.need(bool(item["call_id"] and item["name"]), "call is added without its name")
        if item["type"] in _WITH_STATUS:
            self.need(item["status"] == "in_progress", "item is added with another status")
        self.items[number] = _Item(item)

    def fill(self, item: _Item, event: dict[str, Any]) -> None:
        kind = event["type"]
        self.need(item.done is None, f"{kind} of an item that is done")
        if kind == "response.output_item.done":
            self.finish(item, event["item"])
            return
        id = event.get("item_id") if kind in _KNOWN else item.added["id"]
        self.need(id == item.added["id"], f"{kind} with another item id")
        at: Any = event.get("content_index", event.get("summary_index"))
        match kind.removeprefix("response.").rpartition("."):
            case "content_part" | "reasoning_summary_part", _, "added":
                self.need(at == len(item.parts), "part index is not dense")
                item.parts.append(event["part"])
                item.open.add(at)
            case "content_part" | "reasoning_summary_part", _, "done":
                self.need(at in item.open, "part is done without a beginning")
                item.open.discard(at)
                self.need(event["part"] == item.parts[at], "part is not what its deltas are")
            case "output_text.annotation", _, "added":
                sources = item.parts[at]["annotations"]
                self.need(event["annotation_index"] == len(sources), "annotation out of order")
                sources.append(event["annotation"])
            case "function_call_arguments" | "custom_tool_call_input", _, "delta":
                item.text += event["delta"]
            case "function_call_arguments", _, "done":
                self.need(event["arguments"] == item.text, "arguments are not their deltas")
                self.need(item.text != "", "arguments are empty")
            case "custom_tool_call_input", _, "done":
                self.need(event["input"] == item.text, "input is not its deltas")
            case ("output_text" | "refusal" | "reasoning_summary_text") as name, _, step:
                field = "refusal" if name == "refusal" else "text"
                self.need(at in item.open, f"{kind} without a part")
                if step == "delta":
                    item.parts[at][field] += event["delta"]
                    if name == "output_text":
                        item.parts[at]["logprobs"] += event["logprobs"]
                else:
                    self.need(event[field] == item.parts[at][field], f"{kind} is not its deltas")
            case _:
                pass  # progress of the provider's own calls

    def finish(self, item: _Item, whole: dict[str, Any]) -> None:
        added = item.added
        for field in ("type", "id", "call_id"):
            self.need(whole.get(field) == added.get(field), f"item is done with another {field}")
        self.need(not item.open, "item is done with a part open")
        match whole["type"]:
            case "message":
                self.need(whole["content"] == item.parts, "content is not its parts")
            case "reasoning":
                self.need(whole["summary"] == item.parts, "summary is not its parts")
            case "function_call":
                self.need(whole["arguments"] == item.text, "arguments are not those told")
            case "custom_tool_call":
                self.need(whole["input"] == item.text, "input is not that told")
            case _:
                pass
        if whole["type"] in _WITH_STATUS:
            # What a complete response says of arguments that are no JSON depends on its reason.
            known = {"completed"} if _is_finished(whole) else {"completed", "incomplete"}
            self.need(whole["status"] in known, "item is done with another status")
        item.done = whole

    def end(self, last: dict[str, Any]) -> None:
        response = last["response"]
        self.need(response["status"] == last["type"].removeprefix("response."), "another status")
        if last["type"] == "response.incomplete":
            for item in self.items.values():  # free text that was cut is never done
                if item.done is None and item.added["type"] == "custom_tool_call":
                    item.done = {**item.added, "input": item.text, "status": "incomplete"}
        whole = [item.done for item in self.items.values() if item.done is not None]
        if last["type"] == "response.incomplete":
            cut = [item for item in whole if not _is_finished(item)]
            states = {item["status"] for item in cut}
            self.need(states <= {"incomplete"}, "a call that was cut is complete")
        self.need(response["output"] == whole, "the end does not hold the items that are done")
        if last["type"] == "response.failed":
            self.need(bool(response["error"]["code"]), "failure without a code")
            return
        self.need(len(whole) == len(self.items), "an item is not done at the end")
        usage = response["usage"]
        self.need(set(usage) >= _NEEDED_USAGE, "usage without a count that Codex needs")
        self.need("cached_tokens" in usage["input_tokens_details"], "usage without cached_tokens")
        self.need("reasoning_tokens" in usage["output_tokens_details"], "usage without reasoning")


def broken_rules(body: bytes, *, failed: bool = False) -> list[str]:
    """Return the rules that a stream breaks.

    Args:
        body: The stream.
        failed: Whether it ends in an error.
    """
    events = frames(body)
    judge = _Judge()
    numbers = [event["sequence_number"] for event in events]
    judge.need(numbers == list(range(len(events))), "sequence numbers have a gap")
    lifecycle = [event["response"] for event in events if event["type"] in _LIFECYCLE]
    judge.need(len({response["id"] for response in lifecycle}) == 1, "the response id changes")
    for event in events:
        judge.need(event["type"] in _KNOWN, f"{event['type']} is no event that all clients know")
    for response in lifecycle:
        judge.need(set(response) >= _NEEDED_KEYS, "a response without all keys")
    names = [event["type"] for event in events]
    ends = [*names[-2:]] if failed else names[-1:]
    expected = [["error", "response.failed"]] if failed else [[name] for name in _ENDS]
    judge.need(ends in expected, "the stream has no end of its kind")
    if names[:1] != ["error"]:
        judge.need(names[:2] == ["response.created", "response.in_progress"], "no beginning")
    for event in events:
        judge.read(event)
    judge.end(events[-1])
    return judge.broken


def _is_finished(item: dict[str, Any]) -> bool:
    """Return whether an item may run: the arguments of a function are JSON."""
    try:
        json.loads(item.get("arguments", "{}"))
    except ValueError:
        return False
    return True


_ENDS = ("response.completed", "response.incomplete")
