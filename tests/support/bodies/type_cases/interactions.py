"""Requests and whole answers of the Interactions API generated from the SDK's types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from google.genai._gaos.types.interactions.content import ContentParam
from google.genai._gaos.types.interactions.createmodelinteraction import CreateModelInteractionParam
from google.genai._gaos.types.interactions.interaction import InteractionTypedDict
from google.genai._gaos.types.interactions.step import StepParam

from support.bodies.type_cases.case import JSON, Case, cases_of
from support.bodies.type_cases.walk import (
    ABSENT,
    Variant,
    fields_of,
    label_of,
    members,
    minimal,
    variants,
    with_member,
)

__all__ = ["interaction_cases", "interaction_request_cases"]

_DIALECT = "gemini_interactions"
_USER: JSON = {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}
_TEXT: JSON = {"type": "model_output", "content": [{"type": "text", "text": "Done."}]}
_REQUEST: JSON = {"model": "m", "input": [_USER]}
_TOOLS: list[JSON] = [
    {"type": "function", "name": name, "parameters": {"type": "object"}}
    for name in ("name_A", "name_B")
]
_CALL: JSON = {"type": "function_call", "id": "call_1", "name": "name_A", "arguments": {}}
_STEPS = {label_of(step): step for step in members(StepParam)}


def interaction_request_cases() -> Iterator[Case]:
    """Yield a request for each member, literal and field of the SDK's type."""
    for name, field in (fields_of(CreateModelInteractionParam) or {}).items():
        if name in ("model", "input"):
            continue
        for variant in variants(bool if name == "stream" else field.expected, name):
            build = partial(_request_field, name, name + variant.path)
            yield from cases_of(_DIALECT, name, [variant], build)
    contents = [minimal(content) for content in members(ContentParam)]
    for form in ("Snow?", *contents, *([content] for content in contents)):
        yield from cases_of(_DIALECT, "input", [Variant("", form)], _request_input)
    for kind, step in _STEPS.items():
        build = partial(_request_step, kind)
        # Without the contents of a result, but with a result.
        further = [build({**minimal(step), "result": []})] if kind == "function_result" else []
        yield from cases_of(_DIALECT, f"input[{kind}]", variants(step), build, *further)


def _request_field(name: str, path: str, value: Any) -> JSON:
    # A choice of tools names some of the request.
    tools = {"tools": _TOOLS} if "tool_choice" in path else {}
    return with_member({**_REQUEST, **tools}, name, value)


def _request_input(value: Any) -> JSON:
    return _REQUEST if value is ABSENT else {**_REQUEST, "input": value}


def _request_step(kind: str, step: Any) -> JSON:
    match kind:
        case "user_input":
            steps = [_USER] if step is ABSENT else [_USER, step]
        case "function_result":
            steps = [_USER] if step is ABSENT else [_USER, _CALL, step]
        case "function_call":
            steps = [_USER]
            if step is not ABSENT:
                steps += [step, {"type": "function_result", "call_id": step["id"], "result": "ok"}]
        case _:
            steps = [_USER, *_steps_of_answer(kind, step), _USER]
    return {**_REQUEST, "input": steps}


def _steps_of_answer(kind: str, step: Any) -> list[JSON]:
    """Return a step of the model with the call that it answers, and a text."""
    return [_TEXT] if step is ABSENT else [*_call_of(kind), step, _TEXT]


def _call_of(kind: str) -> list[JSON]:
    """Return the step that a result of a kind answers; [] for other steps."""
    call = _STEPS.get(kind.removesuffix("_result") + "_call")
    return [{**minimal(call), "id": "call_1"}] if kind.endswith("_result") and call else []


# Whole answers

_ANSWER: JSON = {
    "id": "v1_1",
    "object": "interaction",
    "model": "m",
    "status": "completed",
    "created": "2026-01-02T03:04:05Z",
    "updated": "2026-01-02T03:04:06Z",
    "steps": [_TEXT],
    "usage": {"total_input_tokens": 3, "total_output_tokens": 2, "total_tokens": 5},
}
# What is the same in each answer, and the steps of the request; steps have cases of their own.
_LEFT_OUT = frozenset({"id", "object", "model", "input", "steps"})


def interaction_cases() -> Iterator[Case]:
    """Yield a whole answer for each member, literal and field of the SDK's type."""
    for name, field in (fields_of(InteractionTypedDict) or {}).items():
        # The SDK adds `output_…`: contents of the steps once more.
        if name in _LEFT_OUT or name.startswith("output_"):
            continue
        found = variants(field.expected, name)
        yield from cases_of(_DIALECT, name, found, partial(_answer_field, name))
    for kind, step in _STEPS.items():
        build = partial(_answer_step, kind)
        # The call of a result, without the result.
        further = [{**_ANSWER, "steps": [*_call_of(kind), _TEXT]}] if _call_of(kind) else []
        yield from cases_of(_DIALECT, f"steps[{kind}]", variants(step), build, *further)


def _answer_field(name: str, value: Any) -> JSON:
    answer = with_member(_ANSWER, name, value)
    if name == "status" and value == "requires_action":
        answer = {**answer, "steps": [_TEXT, _CALL]}
    return answer


def _answer_step(kind: str, step: Any) -> JSON:
    if step is ABSENT:
        return _ANSWER
    status = {"status": "requires_action"} if kind == "function_call" else {}
    steps = [_TEXT, step] if kind == "function_call" else _steps_of_answer(kind, step)
    return {**_ANSWER, **status, "steps": steps}
