"""How much a model reasons, in both directions: OpenAI's effort, and the words of other servers.

`thinking` of DeepSeek, Kimi and GLM, `enable_thinking` and `thinking_budget` of Qwen,
`chat_template_kwargs` of vLLM, SGLang and llama.cpp, `reasoning` of OpenRouter
(openrouter.ai/docs/use-cases/reasoning-tokens, read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import convert

from streamnorm._core.bodies.fields import text_in
from streamnorm._core.bodies.projection.reasoning_options import reasoning_budget
from streamnorm._core.bodies.request import ReasoningOptions, Request
from streamnorm._core.codec import WriteContext
from streamnorm._core.json import is_object, string_of

__all__ = ["REASONING_FIELDS", "reasoning_from_wire", "reasoning_to_wire"]

_Words: TypeAlias = "dict[str, Any]"

_EFFORT = "reasoning_effort"
_TEMPLATE = "chat_template_kwargs"
_BUDGET = "budget_tokens"
_BUDGET_MARK = "{budget}"
_MODES = {"enabled": "adaptive", "adaptive": "adaptive", "disabled": "off"}
_OFF: _Words = {"mode": "off"}
_ON: _Words = {"mode": "adaptive"}


def reasoning_from_wire(body: _Words, rest: _Words) -> ReasoningOptions | None:
    """Return how much to reason.

    A field that contradicts one before it, or has another form, stays as it is in `rest`, the
    unmapped fields of the request.
    """
    effort = text_in(body, _EFFORT)
    said: _Words = {} if effort is None else {"effort": effort}
    for name, read in _READERS.items():
        value = body.get(name)
        if value is None:
            continue
        words, unmapped = read(value)
        joined = None if words is None else _joined(said, words)
        if joined is None:
            rest[name] = value
            continue
        said = joined
        if unmapped:
            rest[name] = unmapped
    if not said:
        return None
    if said.get("mode") == "off" and said.get("effort") == "none":
        del said["effort"]
    return convert(said, ReasoningOptions)


def _joined(said: _Words, words: _Words) -> _Words | None:
    """Return what two fields say together; None if they contradict each other."""
    joined = said | words
    if len({_mode_of(said), _mode_of(words)} - {None}) > 1 or {_BUDGET, "effort"} <= joined.keys():
        return None
    if any(said[name] != joined[name] for name in said if name != "mode"):
        return None
    if _BUDGET in joined and joined.get("mode") != "off":
        joined["mode"] = "budget"
    return joined


def _mode_of(words: _Words) -> bool | None:
    """Return whether words switch reasoning on or off; None if they say neither."""
    if "mode" in words:
        return bool(words["mode"] != "off")
    return False if words.get("effort") == "none" else None


def _read_reasoning(value: object) -> tuple[_Words | None, _Words]:
    """Read OpenRouter's object: an effort, a budget, or a switch."""
    if not is_object(value) or len(value) != 1:
        return None, {}
    match value:
        case {"effort": str(word)}:
            return {"effort": word}, {}
        case {"max_tokens": int(budget)} if not isinstance(budget, bool):
            return {"mode": "budget", "budget_tokens": budget}, {}
        case {"enabled": bool(switch)}:
            return _read_switch(switch)
        case _:
            return None, {}


def _read_thinking(value: object) -> tuple[_Words | None, _Words]:
    """Read `{"type": "enabled"}`, which may have a budget."""
    if not is_object(value):
        return None, {}
    kind, budget = string_of(value, "type"), value.get("budget_tokens")
    if kind not in _MODES or not value.keys() <= {"type", "budget_tokens"}:
        return None, {}
    words: _Words = {"mode": _MODES[kind]}
    if budget is not None:
        if type(budget) is not int or kind == "disabled":
            return None, {}
        words = {"mode": "budget", "budget_tokens": budget}
    return words, {}


def _read_switch(value: object) -> tuple[_Words | None, _Words]:
    """Read `enable_thinking`."""
    return (_ON if value else _OFF) if isinstance(value, bool) else None, {}


def _read_budget(value: object) -> tuple[_Words | None, _Words]:
    """Read `thinking_budget`."""
    return {_BUDGET: value} if type(value) is int else None, {}


def _read_template(value: object) -> tuple[_Words | None, _Words]:
    """Read the switch among the arguments of a chat template, whose name depends on the model."""
    if not is_object(value):
        return None, {}
    for name in ("enable_thinking", "thinking"):
        if isinstance(switch := value.get(name), bool):
            unmapped = {other: item for other, item in value.items() if other != name}
            return _ON if switch else _OFF, unmapped
    return None, {}


_READERS: dict[str, Callable[[object], tuple[_Words | None, _Words]]] = {
    "reasoning": _read_reasoning,
    "thinking": _read_thinking,
    "enable_thinking": _read_switch,
    "thinking_budget": _read_budget,
    _TEMPLATE: _read_template,
}
REASONING_FIELDS = (_EFFORT, *_READERS)
"""The fields that say how much to reason."""


def reasoning_to_wire(request: Request, context: WriteContext) -> _Words:
    """Return how much to reason, as the server has it: fields of its own, or an effort."""
    options = request.reasoning or ReasoningOptions()
    template = context.capabilities.reasoning_fields.get(options.mode or "")
    if template is None:
        return {_EFFORT: options.effort} if options.effort else {}
    budget = reasoning_budget(options)
    fields: _Words = {name: _filled(value, budget) for name, value in template.items()}
    if options.effort is None:
        return fields
    if fields == template:
        return {_EFFORT: options.effort, **fields}
    if options.budget_tokens is not None:
        context.losses.add("effort", "request", "dropped beside a budget")
    return fields


def _filled(value: Any, budget: int) -> Any:
    """Return a value of a template with the tokens to reason with."""
    if is_object(value):
        return {name: _filled(item, budget) for name, item in value.items()}
    return budget if value == _BUDGET_MARK else value
