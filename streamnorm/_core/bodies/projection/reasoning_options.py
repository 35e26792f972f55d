"""How much a model reasons, in the words of the target."""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import ReasoningOptions, Request, is_own
from streamnorm._core.losses import Losses

__all__ = ["project_reasoning_options", "reasons"]

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS = {
    "minimal": 1024,
    "low": 2048,
    "medium": 10_000,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
# The largest budget that each effort stands for.
_EFFORT_OF_BUDGET = ((0, "none"), (1536, "minimal"), (6000, "low"), (13_000, "medium"))
_HIGH_BUDGET = 24_000
_MIN_BUDGET = 1024


def reasons(request: Request, can: BodyCapabilities) -> bool:
    """Return whether the model reasons, by a request's options in the target's words."""
    options = request.reasoning
    if options is None or (options.mode is None and options.effort is None):
        return can.reasons_by_default
    return options.mode != "off" and options.effort != "none"


def project_reasoning_options(
    request: Request, can: BodyCapabilities, losses: Losses
) -> ReasoningOptions | None:
    """Return the reasoning options of a request in the words that the target has."""
    options = request.reasoning
    if options is None:
        return None
    if "reasoning" not in can.fields:
        losses.add("reasoning", "request", "dropped")
        return None
    show = options.show
    if show is not None and not can.shows_reasoning:
        losses.add("reasoning_summary", "request", "dropped")
        show = None
    # What its own client asked for is the client's affair, unless the model refuses it.
    own = is_own(request, can.dialect)
    max_tokens = None if own else request.max_tokens
    match can.thinking:
        case "budget":
            projected = _as_budget(options, max_tokens)
        case "adaptive":
            projected = _as_adaptive(options, max_tokens, can, own=own)
        case _:
            projected = _as_effort(options)
    effort = projected.effort
    is_off = projected.mode == "off"
    if is_off and "none" not in can.efforts:
        losses.add("effort_changed", "request", "reasoning cannot be switched off")
        projected = structs.replace(projected, mode=None)
    efforts = can.off_efforts if is_off and can.off_efforts is not None else can.efforts
    if effort is not None and effort not in efforts:
        projected = structs.replace(projected, effort=_nearest(effort, efforts))
        losses.add("effort_changed", "request", f"written as {projected.effort or 'the default'}")
    projected = structs.replace(projected, show=show)
    if projected == ReasoningOptions():
        return None
    return options if projected == options else projected


def _as_effort(options: ReasoningOptions) -> ReasoningOptions:
    effort = options.effort
    if options.mode == "off":
        effort = "none"
    elif effort is None and options.budget_tokens is not None:
        effort = _effort_of(options.budget_tokens)
    return ReasoningOptions(effort=effort, extra=options.extra)


def _as_adaptive(
    options: ReasoningOptions, max_tokens: int | None, can: BodyCapabilities, *, own: bool
) -> ReasoningOptions:
    mode, effort, budget = options.mode, options.effort, options.budget_tokens
    if mode == "off":
        return ReasoningOptions("off", effort, extra=options.extra)
    if mode is None and effort == "none":
        return ReasoningOptions("off", extra=options.extra)
    if mode == "budget" and budget is not None:
        if can.thinking_budgets:
            return _with_budget(options, budget, max_tokens)
        return ReasoningOptions("adaptive", effort or _effort_of(budget), extra=options.extra)
    if mode is None and effort is not None and not own:
        mode = "adaptive"
    if effort == "minimal":
        effort = "low"
    return ReasoningOptions(mode, effort, extra=options.extra)


def _as_budget(options: ReasoningOptions, max_tokens: int | None) -> ReasoningOptions:
    if options.mode == "off" or (options.mode is None and options.effort == "none"):
        return ReasoningOptions("off", extra=options.extra)
    budget = options.budget_tokens
    if budget is None and options.effort is not None:
        budget = _BUDGETS.get(options.effort, _BUDGETS["medium"])
    if budget is None:
        return ReasoningOptions(options.mode, extra=options.extra)
    return _with_budget(structs.replace(options, effort=None), budget, max_tokens)


def _with_budget(
    options: ReasoningOptions, budget: int, max_tokens: int | None
) -> ReasoningOptions:
    """Return options with a budget below the tokens of the answer."""
    if max_tokens is not None and budget >= max_tokens:
        budget = max_tokens - 1
        if budget < _MIN_BUDGET:
            return ReasoningOptions("off", extra=options.extra)
    return ReasoningOptions("budget", options.effort, budget, extra=options.extra)


def _effort_of(budget: int) -> str:
    for most, effort in _EFFORT_OF_BUDGET:
        if budget <= most:
            return effort
    return "high" if budget <= _HIGH_BUDGET else "xhigh"


def _nearest(effort: str, known: tuple[str, ...]) -> str | None:
    """Return the next higher effort that exists, else the highest; None if none does."""
    if effort in _EFFORTS:
        for other in _EFFORTS[_EFFORTS.index(effort) :]:
            if other in known:
                return other
    return known[-1] if known else None
