"""How much a model reasons: what the target cannot say of it is a loss."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.request_targets import (
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
    CustomTool,
    EncodeError,
    InputMessage,
    LossyEncoding,
    Reasoning,
    ReasoningOptions,
    RedactedReasoning,
    Tool,
)
from streamnorm._core.bodies.projection import project_request
from streamnorm._core.losses import Losses

BUDGET = ReasoningOptions("budget", budget_tokens=4096)
OFF = ReasoningOptions("off")
BOUNDED: dict[str, Any] = {"thinking": "budget", "bounded_budgets": True}
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
    done = Projection(asked, **BOUNDED)
    assert done.request.reasoning == OFF
    assert done.lost["reasoning"] == 1
    assert Projection(own(asked), **BOUNDED).request.reasoning == BUDGET
    assert Projection(asked, bounded_budgets=False).request.reasoning == BUDGET


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
    done = Projection(request(*messages, reasoning=BUDGET), **BOUNDED)
    assert done.request.reasoning == BUDGET
    assert done.lost == {}


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
    can = structs.replace(EVERYTHING, **WITHOUT)
    with pytest.raises(LossyEncoding, match=r"lost, expected dialect other$"):
        project_request(asked, can, Losses(strict=True))


def test_tools_of_a_model_that_always_reasons_are_an_error_that_names_the_dialect() -> None:
    asked = request(user("q"), tools=(Tool("f"),))
    with pytest.raises(EncodeError, match=r"always reasons, expected dialect other$") as caught:
        Projection(asked, reasons_by_default=True, efforts=("low", "high"), **WITHOUT)
    assert caught.value.path == "tools"
