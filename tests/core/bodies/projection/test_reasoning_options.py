"""How much a model reasons: what the target cannot say of it is a loss."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import (
    EVERYTHING,
    Projection,
    assistant,
    call,
    own,
    request,
    result,
    user,
)

from streamnorm import (
    EncodeError,
    InputMessage,
    LossyEncoding,
    OutputFormat,
    Reasoning,
    ReasoningOptions,
    RedactedReasoning,
    Tool,
)
from streamnorm._core.bodies.projection import project_request
from streamnorm._core.losses import Losses
from streamnorm.tools import CustomTool, ServerTool

BUDGET = ReasoningOptions("budget", budget_tokens=4096)
OFF = ReasoningOptions("off")
BOUNDED: dict[str, Any] = {"thinking": "budget", "bounded_budgets": True}
BOUNDS: dict[str, Any] = {**BOUNDED, "min_budget": 100, "max_budget": 5000, "max_tokens": None}
ALWAYS: dict[str, Any] = {**BOUNDS, "reasoning_off": False}
NO_EFFORTS: dict[str, Any] = {**BOUNDS, "efforts": ()}
SIGNED_BUDGETS: dict[str, Any] = {**BOUNDED, "signed_budgets": True}
SIGNED = Reasoning(("t",), "s", "vendor")


def test_extra_fields_of_another_dialect_are_lost_by_name() -> None:
    extra = {"other": {"mode": "pro", "context": "all_turns", "unset": None}}
    options = ReasoningOptions("adaptive", "low", extra=extra)
    done = Projection(request(user("q"), reasoning=options))
    assert done.request.reasoning == ReasoningOptions("adaptive", "low")
    assert done.lost == {"mode": 1, "context": 1}
    only = ReasoningOptions(extra={"other": {"mode": "pro"}})
    assert Projection(request(user("q"), reasoning=only)).request.reasoning is None


def test_extra_fields_of_the_target_stay() -> None:
    asked = request(user("q"), reasoning=ReasoningOptions("adaptive", extra={"target": {"a": 1}}))
    done = Projection(asked)
    assert done.request is asked
    assert done.lost == {}


def test_reasoning_that_the_tokens_of_the_answer_leave_no_room_for_is_a_loss() -> None:
    for options, lost in (
        (BUDGET, {"reasoning": 1}),
        (ReasoningOptions(effort="high"), {"reasoning": 1}),
        (ReasoningOptions(effort="none"), {}),
        (OFF, {}),
    ):
        done = Projection(request(user("q"), reasoning=options, max_tokens=512), **BOUNDED)
        assert done.request.reasoning == OFF
        assert done.lost == lost


@pytest.mark.parametrize(
    ("options", "max_tokens", "target", "projected", "lost"),
    [
        (4096, None, BOUNDS, ("budget", 4096), ""),
        (9000, None, BOUNDS, ("budget", 5000), "budget_changed"),
        (50, None, BOUNDS, ("budget", 100), "budget_changed"),
        (9000, 6000, BOUNDS, ("budget", 5000), "budget_changed"),
        (4096, 4096, BOUNDS, ("budget", 3072), "budget_changed"),
        (4095, 4096, BOUNDS, ("budget", 4095), ""),
        (4096, 199, BOUNDS, ("off", None), "reasoning"),
        (4096, 201, BOUNDS, ("budget", 100), "budget_changed"),
        (4096, 199, ALWAYS, ("budget", 100), "budget_changed"),
        ("high", None, BOUNDS, ("budget", 5000), ""),
        ("high", 4096, BOUNDS, ("budget", 3072), ""),
        ("none", None, ALWAYS, ("budget", 100), "effort_changed"),
        ("adaptive", None, NO_EFFORTS, ("adaptive", None), ""),
        ("adaptive low", None, NO_EFFORTS, ("budget", 2048), "reasoning"),
    ],
    ids=repr,
)
def test_budget_has_the_bounds_of_the_model_and_leaves_room_for_the_answer(
    options: int | str,
    max_tokens: int | None,
    target: dict[str, Any],
    projected: tuple[str, int | None],
    lost: str,
) -> None:
    if isinstance(options, int):
        asked = ReasoningOptions("budget", budget_tokens=options)
    elif options.startswith("adaptive"):
        asked = ReasoningOptions("adaptive", options.partition(" ")[2] or None)
    else:
        asked = ReasoningOptions(effort=options)
    done = Projection(request(user("q"), reasoning=asked, max_tokens=max_tokens), **target)
    found = done.request.reasoning
    assert found is not None
    assert (found.mode, found.budget_tokens, found.effort) == (*projected, None)
    assert done.lost == ({lost: 1} if lost else {})


@pytest.mark.parametrize(
    "answer",
    [
        assistant(call("c")),
        assistant("text", call("c")),
        assistant(Reasoning(("t",)), call("c")),
        assistant(Reasoning(("t",), "s", "another"), call("c")),
    ],
    ids=repr,
)
def test_a_budget_is_refused_after_calls_without_their_signed_reasoning(
    answer: InputMessage,
) -> None:
    asked = request(user("q"), answer, user(result("c")), reasoning=BUDGET)
    done = Projection(asked, **SIGNED_BUDGETS)
    assert done.request.reasoning == OFF
    assert done.lost["reasoning"] == 1
    mine = own(request(user("q"), own(answer), user(result("c")), reasoning=BUDGET))
    assert Projection(mine, **SIGNED_BUDGETS).request.reasoning == BUDGET
    assert Projection(asked, **BOUNDED).request.reasoning == BUDGET


@pytest.mark.parametrize(
    "messages",
    [
        (user("q"),),
        (user("q"), assistant("a"), user("b")),
        (user("q"), assistant(SIGNED, call("c")), user(result("c"))),
        (user("q"), assistant(RedactedReasoning("d", "vendor"), call("c")), user(result("c"))),
        (user("q"), assistant(call("c")), user(result("c")), assistant("done"), user("b")),
    ],
    ids=lambda messages: f"{len(messages)} messages",
)
def test_a_budget_stays_where_the_last_answer_may_continue(
    messages: tuple[InputMessage, ...],
) -> None:
    done = Projection(request(*messages, reasoning=BUDGET), **SIGNED_BUDGETS)
    assert done.request.reasoning == BUDGET
    assert done.lost == {}


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ((assistant(call("c")), user(result("c"))), "until the tool calls are answered"),
        ((assistant("As I said,"),), "for the answer that is continued"),
    ],
    ids=["calls", "prefill"],
)
def test_loss_of_a_budget_says_how_long_it_is_off(
    messages: tuple[InputMessage, ...], why: str
) -> None:
    done = Projection(request(user("q"), *messages, reasoning=BUDGET), **SIGNED_BUDGETS)
    [loss] = [each for each in done.losses if each.feature == "reasoning"]
    assert loss.detail == f"switched off {why}"


def test_an_effort_alone_is_what_a_client_of_the_target_says() -> None:
    asked = own(request(user("q"), reasoning=ReasoningOptions(effort="low")))
    assert Projection(asked).request is asked


WITHOUT: dict[str, Any] = {
    "thinking": "effort",
    "efforts_with_tools": ("none",),
    "tools_dialect": "other",
}


@pytest.mark.parametrize("tool", [Tool("f"), CustomTool("f")])
@pytest.mark.parametrize(
    ("options", "by_default", "left"),
    [
        (ReasoningOptions(effort="high"), False, "none"),
        (ReasoningOptions(effort="none"), False, "none"),
        (ReasoningOptions("budget", budget_tokens=4096), False, "none"),
        (ReasoningOptions("off"), True, "none"),
        (None, False, None),
        (None, True, "none"),
        (ReasoningOptions("adaptive"), False, None),
        (ReasoningOptions("adaptive"), True, "none"),
    ],
)
def test_model_that_has_tools_without_reasoning_alone_does_not_reason(
    tool: Tool | CustomTool, options: ReasoningOptions | None, by_default: bool, left: str | None
) -> None:
    asked = request(user("q"), reasoning=options, tools=(tool,))
    done = Projection(asked, reasons_by_default=by_default, **WITHOUT)
    assert (done.request.reasoning and done.request.reasoning.effort) == left
    is_off = options is not None and (options.effort == "none" or options.mode == "off")
    assert ("effort_changed" in done.lost) is (left is not None and not is_off)
    alone = Projection(request(user("q"), reasoning=options), **WITHOUT)
    assert "effort_changed" not in alone.lost


def test_strict_error_names_the_dialect_that_has_both() -> None:
    asked = request(user("q"), reasoning=ReasoningOptions(effort="high"), tools=(Tool("f"),))
    target = structs.replace(EVERYTHING, **WITHOUT)
    with pytest.raises(LossyEncoding, match=r"lost, expected dialect other$"):
        project_request(asked, target, Losses(strict=True))


def test_tools_of_a_model_that_always_reasons_are_an_error_that_names_the_dialect() -> None:
    asked = request(user("q"), tools=(Tool("f"),))
    with pytest.raises(EncodeError, match=r"always reasons, expected dialect other$") as caught:
        Projection(asked, reasons_by_default=True, efforts=("low", "high"), **WITHOUT)
    assert caught.value.path == "tools"


SEARCH = ServerTool("web_search", "other")
SEARCHING = ("low", "medium", "high")


@pytest.mark.parametrize(
    ("effort", "tool", "written"),
    [
        ("minimal", SEARCH, "low"),
        ("high", SEARCH, "high"),
        (None, SEARCH, None),
        ("minimal", Tool("f"), "minimal"),
    ],
)
def test_effort_beside_a_search_is_one_with_which_the_model_searches(
    effort: str | None, tool: Tool | ServerTool, written: str | None
) -> None:
    options = ReasoningOptions("adaptive") if effort is None else ReasoningOptions(effort=effort)
    asked = request(user("q"), reasoning=options, tools=(tool,))
    done = Projection(asked, thinking="effort", efforts_with_search=SEARCHING)
    assert (done.request.reasoning and done.request.reasoning.effort) == written
    assert done.lost.get("effort_changed", 0) == (effort != written)
    without = request(user("q"), tools=(tool,))
    assert Projection(without, efforts_with_search=SEARCHING).request.reasoning is None


# Servers with words of their own


NEEDS: dict[str, Any] = {"reasoning_needs": frozenset({"stream", "text"}), "thinking": "effort"}
HIGH = ReasoningOptions(effort="high")


def test_reasoning_is_switched_off_where_the_request_lacks_what_it_needs() -> None:
    """Qwen thinks in streams of text alone (vybestack/llxprt-code#229, presenton/presenton#184)."""
    schema = OutputFormat("json_object")
    for fields in ({}, {"stream": False}, {"stream": True, "output": schema}):
        done = Projection(request(user("q"), reasoning=HIGH, **fields), **NEEDS)
        assert done.request.reasoning == OFF
        assert done.lost == {"reasoning": 1}
    asked = request(user("q"), reasoning=HIGH, stream=True, output=OutputFormat("text"))
    assert Projection(asked, **NEEDS).request is asked


def test_reasoning_that_nobody_asks_for_is_switched_off_where_it_is_the_default() -> None:
    asked = request(user("q"))
    assert Projection(asked, **NEEDS).request is asked
    assert Projection(asked, **NEEDS, reasons_by_default=True).request.reasoning == OFF
    off = request(user("q"), reasoning=ReasoningOptions(effort="none"))
    assert Projection(off, **NEEDS, reasons_by_default=True).lost == {}


@pytest.mark.parametrize(
    ("options", "modes", "written"),
    [
        (OFF, [], ReasoningOptions(effort="none")),
        (OFF, ["off"], OFF),
        (ReasoningOptions(effort="none"), ["off"], OFF),
        (ReasoningOptions(effort="none"), ["adaptive"], ReasoningOptions(effort="none")),
        (ReasoningOptions("adaptive"), ["off"], None),
        (ReasoningOptions("adaptive", "low"), ["adaptive"], ReasoningOptions("adaptive", "low")),
        (BUDGET, ["budget"], BUDGET),
        (BUDGET, ["adaptive"], ReasoningOptions("adaptive", "low")),
        (BUDGET, [], ReasoningOptions(effort="low")),
    ],
)
def test_modes_are_those_that_a_server_of_efforts_has_fields_for(
    options: ReasoningOptions, modes: list[str], written: ReasoningOptions | None
) -> None:
    fields: dict[str, Any] = {mode: {"thinks": mode} for mode in modes}
    budget = replaced_tokens(options, 4096)
    done = Projection(
        request(user("q"), reasoning=budget), thinking="effort", reasoning_fields=fields
    )
    assert done.request.reasoning == written


def replaced_tokens(options: ReasoningOptions, tokens: int) -> ReasoningOptions:
    """Return options with a budget of low effort, if they have one."""
    return structs.replace(options, budget_tokens=tokens) if options.budget_tokens else options


@pytest.mark.parametrize(
    ("options", "target", "written"),
    [
        (ReasoningOptions("adaptive"), {"thinking": "budget"}, (None, 10_000)),
        (ReasoningOptions("adaptive", "low"), {"thinking": "budget"}, (None, 2048)),
        (BUDGET, {"thinking": "adaptive", "thinking_budgets": False}, ("low", None)),
    ],
)
def test_mode_of_the_dialect_that_a_server_refuses_is_another_one(
    options: ReasoningOptions, target: dict[str, Any], written: tuple[str | None, int | None]
) -> None:
    done = Projection(own(request(own(user("q")), reasoning=options)), only_refusals=True, **target)
    assert done.request.reasoning is not None
    assert (done.request.reasoning.effort, done.request.reasoning.budget_tokens) == written
    assert done.lost == {"reasoning": 1}


@pytest.mark.parametrize(
    ("options", "target"),
    [
        (ReasoningOptions("adaptive"), {"thinking": "effort"}),
        (BUDGET, {"thinking": "effort"}),
        (BUDGET, {"thinking": "adaptive"}),
        (OFF, {"thinking": "effort"}),
        (ReasoningOptions(effort="a word of its own"), {}),
    ],
)
def test_words_of_the_dialect_stay_where_its_server_takes_them(
    options: ReasoningOptions, target: dict[str, Any]
) -> None:
    asked = own(request(own(user("q")), reasoning=options))
    assert Projection(asked, only_refusals=True, **target).request is asked


def test_effort_of_the_dialect_that_a_server_lacks_is_the_nearest() -> None:
    asked = own(request(own(user("q")), reasoning=ReasoningOptions(effort="minimal")))
    done = Projection(asked, only_refusals=True, efforts=("low", "high"))
    assert done.request.reasoning == ReasoningOptions(effort="low")
    assert done.lost == {"effort_changed": 1}
