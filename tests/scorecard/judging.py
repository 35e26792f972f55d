"""The judge: what a strict client of a target dialect finds wrong in a converted stream."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from .cases import Call, Case, Expected
from .readings import READERS, Content, Reading, join_surrogates

__all__ = ["Fault", "FaultKind", "judge", "judge_exception", "judge_message"]

FaultKind = Literal[
    "grammar", "accumulated", "finalised", "stop", "usage", "truncation", "failure", "exception"
]
"""Kinds of faults.

grammar: an event that the target's protocol does not allow at its position.
accumulated: text, reasoning or calls are wrong for a client that joins deltas by index.
finalised: they are wrong only for a client that acts when a block, item or choice ends.
stop: the stop reason is another.
usage: the input or output tokens are others.
truncation: a cut stream is shown as a success, or a whole one as a failure.
failure: a stream that ends in an error or contradicts itself is shown as a success.
exception: the converter raised for a whole stream.
"""

_STOPS: dict[str, dict[str | None, set[str | None]]] = {
    "anthropic": {
        "end_turn": {"end_turn"},
        "tool_use": {"tool_use"},
        "max_tokens": {"max_tokens", "model_context_window_exceeded"},
        "stop_sequence": {"stop_sequence", "end_turn"},
        "refusal": {"refusal"},
    },
    "openai_chat": {
        "end_turn": {"stop"},
        "tool_use": {"tool_calls"},
        "max_tokens": {"length"},
        "stop_sequence": {"stop"},
        "refusal": {"content_filter"},
    },
    "openai_responses": {
        "end_turn": {"completed"},
        "tool_use": {"completed"},
        "max_tokens": {"max_output_tokens"},
        "stop_sequence": {"completed"},
        "refusal": {"content_filter"},
    },
    "gemini": {
        "end_turn": {"STOP"},
        "tool_use": {"STOP"},
        "max_tokens": {"MAX_TOKENS"},
        "stop_sequence": {"STOP"},
        "refusal": {"SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII"},
    },
    "bedrock_converse": {
        "end_turn": {"end_turn"},
        "tool_use": {"tool_use"},
        "max_tokens": {"max_tokens", "model_context_window_exceeded"},
        "stop_sequence": {"stop_sequence", "end_turn"},
        "refusal": {"content_filtered", "guardrail_intervened"},
    },
    "ui_message_stream": {
        "end_turn": {"stop"},
        "tool_use": {"tool-calls"},
        "max_tokens": {"length"},
        "stop_sequence": {"stop"},
        "refusal": {"content-filter"},
    },
    "ag_ui": {},  # a run just finishes
}
"""Stop reasons of each target that say what the unified reason says; any does for `other`."""
_HOLDS_UNFINISHED_CALLS = ("anthropic", "openai_chat", "openai_responses")
"""Targets whose arguments are text, so that a call whose arguments never ended has a place."""

_HAS_NO_USAGE = ("ag_ui",)


class Fault(NamedTuple):
    """One thing that a client finds wrong.

    Attributes:
        kind: Its kind.
        detail: What was found and what was expected.
    """

    kind: FaultKind
    detail: str


def judge(case: Case, target: str, out: bytes) -> list[Fault]:
    """Return what a client of `target` finds wrong in the bytes of a converted stream."""
    try:
        reading = READERS[target](out)
    except (AttributeError, IndexError, KeyError, TypeError) as exc:
        # As the clients of the vendor, which index what the protocol requires.
        return [Fault("grammar", f"an event lacks a field or has one of another type: {exc!r}")]
    faults = [Fault("grammar", detail) for detail in reading.grammar]
    if case.expected.outcome != "completed":
        return faults + _judge_failed(case.expected, reading)
    unfinished = any(isinstance(call.arguments, str) for call in case.expected.calls)
    if reading.failed:
        # A call that never ended has no place where arguments are objects: an error says so.
        if unfinished and target not in _HOLDS_UNFINISHED_CALLS:
            return faults
        return [*faults, Fault("truncation", "a whole stream is shown as failed")]
    if not reading.ended:
        return [*faults, Fault("truncation", "a whole stream has no end")]
    faults += _judge_content(_for_target(case, target), reading)
    right = _STOPS[target].get(case.expected.stop)
    if right is not None and reading.stop not in right and not reading.refused:
        faults.append(Fault("stop", f"{reading.stop}, expected {' or '.join(map(str, right))}"))
    if target in _HAS_NO_USAGE:
        return faults
    if case.expected.usage is not None and reading.usage != case.expected.usage:
        faults.append(Fault("usage", f"{reading.usage}, expected {case.expected.usage}"))
    return faults


def judge_message(case: Case, message: dict[str, Any]) -> list[Fault]:
    """Return what is wrong in a whole message that a decoder returned.

    Args:
        case: The case.
        message: `text`, `reasoning`, `calls` (each with `id`, `name`, `arguments` as text or
            value), `stop` (a unified reason; None if the decoder has none), `usage` (input and
            output tokens; None for none), and `failed`.
    """
    content = Content(
        message.get("text") or "",
        message.get("reasoning") or "",
        [Call(call["id"], call["name"], call["arguments"]) for call in message.get("calls") or ()],
    )
    expected = case.expected
    failed = bool(message.get("failed"))
    if expected.outcome != "completed":
        return [] if failed else [_shown_as_success(expected)]
    if failed:
        return [Fault("truncation", "a whole stream is shown as failed")]
    faults = [Fault("accumulated", detail) for detail in _differences(expected, content)]
    stop, usage = message.get("stop"), message.get("usage")
    if expected.stop not in (stop, "other"):
        faults.append(Fault("stop", f"{stop}, expected {expected.stop}"))
    if expected.usage is not None and (usage is None or tuple(usage) != expected.usage):
        faults.append(Fault("usage", f"{usage}, expected {expected.usage}"))
    return faults


def judge_exception(case: Case, detail: str) -> list[Fault]:
    """Return what is wrong if the converter raised: nothing where the stream is no success."""
    return [] if case.expected.outcome != "completed" else [Fault("exception", detail)]


def _for_target(case: Case, target: str) -> Expected:
    """Return the message with only those ids of calls that a client must get."""
    # Gemini's ids are optional, so that a converter may write others.  A call of Responses has
    # two, and a client that sends back its whole history may have either.
    if target != "gemini" and case.source not in ("gemini", "openai_responses"):
        return case.expected
    calls = tuple(call._replace(id=None) for call in case.expected.calls)
    return replace(case.expected, calls=calls)


def _judge_failed(expected: Expected, reading: Reading) -> list[Fault]:
    faults = []
    if reading.ended and not reading.failed:
        faults.append(_shown_as_success(expected))
    elif not reading.failed and reading.needs_end:
        faults.append(Fault("truncation", "the stream stops without an error"))
    text = reading.accumulated.text
    if expected.text is not None and not expected.text.startswith(text):
        faults.append(Fault("accumulated", f"text {text!r}, expected {expected.text!r}"))
    return faults


def _shown_as_success(expected: Expected) -> Fault:
    kind: FaultKind = "truncation" if expected.outcome == "truncated" else "failure"
    return Fault(kind, f"a {expected.outcome} stream is shown as a success")


def _judge_content(expected: Expected, reading: Reading) -> list[Fault]:
    wrong = _differences(expected, reading.accumulated)
    if wrong:
        return [Fault("accumulated", detail) for detail in wrong]
    return [Fault("finalised", detail) for detail in _differences(expected, reading.finalised)]


def _differences(expected: Expected, content: Content) -> list[str]:
    """Return how a client's content differs from the expected message."""
    wrong = []
    text = join_surrogates(content.text)
    if expected.text is not None and text != expected.text:
        wrong.append(f"text {text!r}, expected {expected.text!r}")
    # Clients join the parts of reasoning with white space of their own.
    if "".join(content.reasoning.split()) != "".join(expected.reasoning.split()):
        wrong.append(f"reasoning {content.reasoning!r}, expected {expected.reasoning!r}")
    missing, found = list(expected.calls), list(content.calls)
    for call in content.calls:
        match = next((each for each in missing if _is_same(each, call)), None)
        if match is not None:
            missing.remove(match)
            found.remove(call)
    # A client loses nothing that it could run with a call that never ended.
    missing = [call for call in missing if not isinstance(call.arguments, str)]
    wrong += [f"call {call} is not expected" for call in found]
    return wrong + [f"call {call} is missing" for call in missing]


def _is_same(expected: Call, call: Call) -> bool:
    if expected.id not in (None, call.id) or expected.name != call.name:
        return False
    if isinstance(expected.arguments, str):  # never whole, whatever of the text arrived
        return isinstance(call.arguments, str)
    return bool(expected.arguments == call.arguments)
