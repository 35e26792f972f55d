"""Projection of reasoning options: modes, efforts and token budgets of the target.

Vendors ask for reasoning by an effort, by a budget of tokens, or by an adaptive mode; this module
translates between the three.
"""

from __future__ import annotations

from sys import maxsize
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import Reasoning, RedactedReasoning
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import (
    InputMessage,
    ReasoningOptions,
    Request,
    drop_foreign_fields,
    is_same_dialect,
)
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses
from streamnorm._core.tools import CustomTool, ServerTool, Tool

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS = {
    "minimal": 1024,
    "low": 2048,
    "medium": 10_000,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
_BUDGETS_OF_ONE_EFFORT = frozenset({"minimal", "low", "medium", "high", "xhigh"})
# The largest budget that each effort stands for.
_EFFORT_OF_BUDGET = ((0, "none"), (1536, "minimal"), (6000, "low"), (13_000, "medium"))
_HIGH_BUDGET = 24_000
_MIN_ANSWER = 1024


def reasoning_budget(options: ReasoningOptions) -> int:
    """Return the token budget of reasoning options, or the budget that stands for their effort."""
    if options.budget_tokens is not None:
        return options.budget_tokens
    return _BUDGETS.get(options.effort or "medium", _BUDGETS["medium"])


def is_reasoning(request: Request, target: BodyCapabilities) -> bool:
    """Return whether the model will reason, given projected reasoning options."""
    return _reasons(request.reasoning, target)


def _reasons(options: ReasoningOptions | None, target: BodyCapabilities) -> bool:
    if options is None or (options.mode is None and options.effort is None):
        return target.reasons_by_default
    return options.mode != "off" and options.effort != "none"


def project_reasoning_options(
    request: Request, target: BodyCapabilities, losses: Losses, *, lenient: bool = False
) -> ReasoningOptions | None:
    """Return the reasoning options that the target accepts.

    Args:
        request: The request.
        target: Capabilities of the target.
        losses: Counter of dropped and changed options.
        lenient: Whether a budget stays unbounded if the request has no `max_tokens`.
    """
    options = _fit_options(request, target, losses, lenient=lenient)
    if target.reasoning_needs and _reasons(options, target):
        missing = _missing_need(request, target)
        if missing is not None:
            losses.add("reasoning", "request", f"switched off: {missing}")
            return ReasoningOptions("off")
    return options


def _missing_need(request: Request, target: BodyCapabilities) -> str | None:
    """Return the property of the answer that rules out reasoning; None if reasoning is possible."""
    if "stream" in target.reasoning_needs and not request.stream:
        return "the answer is no stream"
    is_text = request.output is None or request.output.kind == "text"
    return "the answer is JSON" if "text" in target.reasoning_needs and not is_text else None


def _fit_options(
    request: Request, target: BodyCapabilities, losses: Losses, *, lenient: bool
) -> ReasoningOptions | None:
    options = request.reasoning
    if options is None:
        return None
    if "reasoning" not in target.fields:
        losses.add("reasoning", "request", "dropped")
        return None
    projected = drop_foreign_fields(options, target.dialect, losses, "request")
    same_dialect = is_same_dialect(request, target.dialect)
    max_tokens = request.max_tokens
    if max_tokens is None and not lenient:
        max_tokens = target.max_tokens
    if max_tokens is not None and "max_tokens" in target.number_bounds:
        max_tokens = int(min(max_tokens, target.number_bounds["max_tokens"][1]))
    if target.only_refusals:
        if not _is_accepted(options, target):
            words = _translate_options(target, _replace_adaptive_mode(options), max_tokens)
            projected = structs.replace(projected, **words)
            losses.add("reasoning", "request", f"written as {words['mode'] or words['effort']}")
        elif target.vendor_checks and options.mode == "budget":
            words = _translate_options(target, options, max_tokens)
            projected = _apply_words(projected, words, losses)
    # An effort alone is legal in the dialect, too, and stays for the client's own server.
    elif not same_dialect or (options.mode is not None and target.thinking != "effort"):
        asked = options
        if _needs_budget(options, target):
            asked = _replace_adaptive_mode(options)
            losses.add("reasoning", "request", "written as a budget")
        projected = _apply_words(projected, _translate_options(target, asked, max_tokens), losses)
        is_unsaid = projected.mode is None and projected.effort is None
        if options.mode == "adaptive" and is_unsaid and not target.reasons_by_default:
            losses.add("reasoning", "request", "left to the model")
    if projected.show is not None and not target.shows_reasoning:
        losses.add("reasoning_summary", "request", "dropped")
        projected = structs.replace(projected, show=None)
    is_off = projected.mode == "off"
    if is_off and not target.reasoning_off:
        losses.add("effort_changed", "request", "reasoning cannot be switched off")
        least = (
            target.min_budget if target.thinking == "budget" and target.bounded_budgets else None
        )
        mode = None if least is None else "budget"
        # The lowest effort is the nearest to none.
        lowest = next((effort for effort in target.efforts if effort != "none"), None)
        effort = projected.effort or (lowest if target.thinking == "adaptive" else None)
        projected = structs.replace(projected, mode=mode, effort=effort, budget_tokens=least)
    efforts = target.off_efforts if is_off and target.off_efforts is not None else target.efforts
    # A server without a profile may have efforts of its own.
    is_any = target.only_refusals and efforts == _EFFORTS
    if projected.effort is not None and projected.effort not in efforts and not is_any:
        effort = _nearest_effort(projected.effort, efforts)
        losses.add("effort_changed", "request", f"written as {effort or 'the default'}")
        projected = structs.replace(projected, effort=effort)
    if projected == ReasoningOptions():
        return None
    return options if projected == options else projected


def fit_effort_to_tools(
    request: Request, target: BodyCapabilities, losses: Losses
) -> ReasoningOptions | None:
    """Return reasoning options whose effort the model accepts together with tools.

    Args:
        request: The request, with projected reasoning options.
        target: Capabilities of the target.
        losses: Counter of changed efforts, the default one included.

    Raises:
        EncodeError: The model has no effort that is accepted with tools.
    """
    options = _fit_effort_to_search(request, target, losses)
    accepted = target.efforts_with_tools
    if accepted is None or not any(isinstance(t, Tool | CustomTool) for t in request.tools):
        return options
    asked = None if options is None else options.effort
    if asked in accepted or (asked is None and not target.reasons_by_default):
        return options
    dialect = f"dialect {target.tools_dialect}"
    effort = next((effort for effort in accepted if effort in target.efforts), None)
    if effort is None:
        raise EncodeError(f"tools of a model that always reasons, expected {dialect}", path="tools")
    losses.add("effort_changed", "request", f"written as {effort} beside tools", expected=dialect)
    return structs.replace(options or ReasoningOptions(), effort=effort)


def _fit_effort_to_search(
    request: Request, target: BodyCapabilities, losses: Losses
) -> ReasoningOptions | None:
    """Return reasoning options whose effort the model accepts together with a web search."""
    options, accepted = request.reasoning, target.efforts_with_search
    if options is None or options.effort is None or accepted is None or options.effort in accepted:
        return options
    if not any(isinstance(t, ServerTool) and t.kind == "web_search" for t in request.tools):
        return options
    effort = _nearest_effort(options.effort, accepted)
    losses.add("effort_changed", "request", f"written as {effort} beside a search")
    return structs.replace(options, effort=effort)


def _is_accepted(options: ReasoningOptions, target: BodyCapabilities) -> bool:
    """Return whether a server accepts the reasoning mode of options in its own dialect."""
    match options.mode:
        case "adaptive":
            return target.thinking != "budget"
        case "budget":
            return target.thinking in ("budget", "effort") or target.thinking_budgets
        case _:
            return True


def _needs_budget(options: ReasoningOptions, target: BodyCapabilities) -> bool:
    """Return whether adaptive reasoning must become a token budget for the target."""
    if options.mode != "adaptive" or target.thinking != "budget":
        return False
    return not target.adaptive_budgets or (options.effort is not None and not target.efforts)


def _replace_adaptive_mode(options: ReasoningOptions) -> ReasoningOptions:
    """Return options with an effort instead of the adaptive mode."""
    if options.mode != "adaptive":
        return options
    return ReasoningOptions(effort=options.effort or "medium")


def _asks_for_reasoning(options: ReasoningOptions) -> bool:
    """Return whether options turn reasoning on."""
    is_none = options.effort == "none" and options.mode is None
    return not is_none and (options.budget_tokens is None or options.budget_tokens > 0)


def _apply_words(
    options: ReasoningOptions, words: dict[str, Any], losses: Losses
) -> ReasoningOptions:
    """Return options with a new mode, effort and budget; count each change as a loss."""
    asked, budget = options.budget_tokens, words["budget_tokens"]
    if words["mode"] == "off" and options.mode != "off" and _asks_for_reasoning(options):
        losses.add("reasoning", "request", "switched off: too few tokens")
    elif asked is None:
        is_equal = words["effort"] == options.effort or options.effort in _BUDGETS_OF_ONE_EFFORT
        if budget is not None and not is_equal:
            losses.add("effort_changed", "request", f"written as a budget of {budget} tokens")
    elif budget is None and asked > 0:
        losses.add("budget_changed", "request", f"written as the effort {words['effort']}")
    elif budget not in (None, asked):
        losses.add("budget_changed", "request", f"written as {budget}")
    return structs.replace(options, **words)


def drop_unsigned_budget(
    request: Request,
    messages: tuple[InputMessage, ...],
    target: BodyCapabilities,
    losses: Losses,
    *,
    lenient: bool,
) -> ReasoningOptions | None:
    """Return reasoning options; turn reasoning off if the last answer is unsigned.

    With a budget, the API refuses to continue an answer that does not begin with signed
    reasoning: a tool loop, or an answer that is the last message.

    Args:
        request: The request, with projected reasoning options.
        messages: The projected messages.
        target: Capabilities of the target, which signs the reasoning of a budget.
        losses: Counter of dropped budgets.
        lenient: Whether messages in the target's dialect are left to the client.
    """
    options = request.reasoning
    if options is None or options.mode != "budget":
        return options
    answer = find_continued_answer(messages)
    # An answer in the target's dialect stays as the client wrote it: the client obeys the rules,
    # or the server accepts calls after unsigned reasoning.  Not so if its reasoning was dropped.
    is_accepted = lenient or (
        is_same_dialect(request, target.dialect) and target.signature_pattern is None
    )
    if is_accepted and all(is_same_dialect(message, target.dialect) for message in answer):
        return options
    first = next((block for message in answer for block in message.blocks), None)
    if first is None or isinstance(first, Reasoning | RedactedReasoning):
        return options
    is_called = messages[-1].role != "assistant"
    why = "until the tool calls are answered" if is_called else "for the answer that is continued"
    losses.add("reasoning", "request", f"switched off {why}")
    return ReasoningOptions("off", extra=options.extra)


def find_continued_answer(messages: tuple[InputMessage, ...]) -> tuple[InputMessage, ...]:
    """Return the assistant messages of the answer to be continued; () if a new answer begins.

    A tool loop is one answer, which ends where a user message without results comes.  Without
    interleaved thinking, only its first message has thinking:
    https://platform.claude.com/docs/en/build-with-claude/thinking, read 2026-11-30.
    """
    answer: list[InputMessage] = []
    between: list[InputMessage] = []
    for message in reversed(messages):
        if message.role != "assistant":
            between.append(message)
            continue
        if between and not any(each.tool_results for each in between):
            break
        between.clear()
        answer.append(message)
    return tuple(reversed(answer))


def _translate_options(
    target: BodyCapabilities, options: ReasoningOptions, max_tokens: int | None
) -> dict[str, Any]:
    """Return the target's mode, effort and budget for the options."""
    mode, effort, budget = options.mode, options.effort, options.budget_tokens
    takes_budgets = target.thinking == "budget" or (
        target.thinking != "effort" and target.thinking_budgets
    )
    takes_modes = takes_budgets or target.thinking == "adaptive"
    # A server with efforts may have its own fields for modes: `reasoning_fields` of its profile.
    takes_budgets = takes_budgets or "budget" in target.reasoning_fields
    takes_adaptive = takes_modes or "adaptive" in target.reasoning_fields
    takes_off = takes_modes or "off" in target.reasoning_fields
    is_switch = target.thinking in ("adaptive", "budget") or "off" in target.reasoning_fields
    if mode is None and effort == "none" and is_switch:
        return _words("off")
    if mode == "off":
        return _words("off", effort) if takes_off else _words(None, "none")
    if budget is not None:
        if takes_budgets:
            return _bound_budget(target, budget, effort, max_tokens, is_said=True)
        return _words("adaptive" if takes_adaptive else None, effort or _effort_for_budget(budget))
    if target.thinking == "budget" and effort is not None and mode is None:
        budget = reasoning_budget(options)
        return _bound_budget(target, budget, None, max_tokens, is_said=False)
    if target.thinking == "adaptive" and effort is not None:
        return _words("adaptive", effort)
    return _words(mode if takes_adaptive else None, effort)


def _words(
    mode: str | None, effort: str | None = None, budget_tokens: int | None = None
) -> dict[str, Any]:
    return {"mode": mode, "effort": effort, "budget_tokens": budget_tokens}


def _bound_budget(
    target: BodyCapabilities,
    budget: int,
    effort: str | None,
    max_tokens: int | None,
    *,
    is_said: bool,
) -> dict[str, Any]:
    """Return a budget within the target's bounds that leaves tokens for the answer text.

    Args:
        target: Capabilities of the target.
        budget: The budget.
        effort: The effort in addition to the budget.
        max_tokens: Bound on the tokens of reasoning and answer, or None.
        is_said: Whether the client itself set the budget, which then stays if it is legal.
    """
    if not target.bounded_budgets:
        return _words("budget", effort, budget)
    if budget <= 0:
        return _words("off")
    least, most = target.min_budget, maxsize if target.max_budget is None else target.max_budget
    budget = min(budget, most)
    if max_tokens is not None and not (is_said and least <= budget < max_tokens):
        answer = max(max_tokens // 4, min(_MIN_ANSWER, max_tokens - max_tokens // 2))
        most = min(most, max_tokens - answer)
    if most < least:
        return _words("budget", effort, least) if not target.reasoning_off else _words("off")
    return _words("budget", effort, min(max(budget, least), most))


def _effort_for_budget(budget: int) -> str:
    for most, effort in _EFFORT_OF_BUDGET:
        if budget <= most:
            return effort
    return "high" if budget <= _HIGH_BUDGET else "xhigh"


def _nearest_effort(effort: str, known: tuple[str, ...]) -> str | None:
    """Return the lowest legal effort from `effort` up, else the highest; None if none is legal."""
    if effort in _EFFORTS:
        for other in _EFFORTS[_EFFORTS.index(effort) :]:
            if other in known:
                return other
    return known[-1] if known else None
