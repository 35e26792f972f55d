"""Options of a request: each has a field in the target, or is a loss of its name."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import ALL_FIELDS, Projection, own, request, user

from streamnorm import (
    CacheMark,
    EncodeError,
    Loss,
    LossyEncoding,
    OutputFormat,
    ReasoningOptions,
    Request,
)
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.projection import project_request
from streamnorm._core.losses import Losses

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
NOTHING = BodyCapabilities(dialect="target", fields=frozenset())


def asked(**fields: Any) -> Request:
    return request(user("Go"), **fields)


def test_options_without_a_field_are_dropped_by_name() -> None:
    done = Projection(
        asked(seed=7, stop=("END",), choices=2, metadata={"k": "v"}, store=False),
        fields=frozenset(),
    )
    assert done.request == asked()
    assert done.lost == {
        "seed": 1,
        "stop_dropped": 1,
        "choices_dropped": 1,
        "metadata": 1,
        "store": 1,
    }


def test_options_that_change_nothing_are_no_loss() -> None:
    needless = asked(parallel_tool_calls=True, stream=False, choices=1, cache=CacheMark())
    done = Projection(needless, fields=frozenset(), marks=frozenset())
    assert done.request == asked()
    assert done.lost == {}
    said = Projection(asked(parallel_tool_calls=False, stream=True), fields=frozenset())
    assert said.lost == {"parallel_tool_calls": 1, "stream": 1}


def test_strict_losses_are_raised() -> None:
    with pytest.raises(LossyEncoding, match="seed in request would be lost"):
        project_request(asked(seed=7), NOTHING, Losses(strict=True))


def test_state_of_another_provider_is_an_error() -> None:
    state = {"previous_response_id": "r", "background": True}
    with pytest.raises(EncodeError, match="state of another provider") as caught:
        Projection(asked(state=state))
    assert caught.value.path == "state.previous_response_id"
    mine = own(asked(state=state))
    assert Projection(mine).request is mine


def test_values_are_brought_into_the_target_s_bounds() -> None:
    done = Projection(
        asked(temperature=1.4, stop=("a", "b", "c"), user="u" * 65, service_tier="flex"),
        max_temperature=1.0,
        max_stops=2,
        max_user_chars=64,
    )
    assert done.request.temperature == 1.0
    assert done.request.stop == ("a", "b")
    assert done.request.user == sha256(b"u" * 65).hexdigest()
    assert done.request.service_tier is None
    assert done.lost == {
        "temperature_clamped": 1,
        "stop_dropped": 1,
        "user_hashed": 1,
        "service_tier": 1,
    }


def test_values_within_the_bounds_stay() -> None:
    fits = asked(temperature=1.0, stop=("a",), user="u", service_tier="default", max_tokens=1)
    target = {"max_temperature": 1.0, "max_stops": 1, "max_user_chars": 1, "max_tokens": 32_000}
    assert Projection(fits, **target).request is fits


def test_name_of_a_cache_beyond_the_bound_is_hashed_the_same_each_time() -> None:
    """A shorter piece of it could be that of another conversation."""
    target = {"max_cache_key_chars": 64}
    done = Projection(asked(cache_key="k" * 65), **target)
    assert done.request.cache_key == sha256(b"k" * 65).hexdigest()
    assert done.lost == {"cache_key_hashed": 1}
    fits = asked(cache_key="k" * 64)
    assert Projection(fits, **target).request is fits


def test_too_few_tokens_for_the_answer_are_raised() -> None:
    done = Projection(asked(max_tokens=15), min_answer_tokens=16)
    assert done.request.max_tokens == 16
    assert done.lost == {"max_tokens_raised": 1}
    for fits in (asked(max_tokens=16), asked()):
        assert Projection(fits, min_answer_tokens=16).request is fits


def test_tokens_of_the_answer_have_a_default_where_the_target_needs_them() -> None:
    done = Projection(asked(), max_tokens=32_000)
    assert done.request.max_tokens == 32_000
    assert done.lost == {"max_tokens_defaulted": 1}


def test_one_name_of_the_end_user_is_enough() -> None:
    fields = ALL_FIELDS - {"safety_identifier"}
    done = Projection(asked(user="a", safety_identifier="b"), fields=fields)
    assert (done.request.user, done.request.safety_identifier) == ("b", None)
    assert done.lost == {"user": 1}
    plain = asked(user="a")
    assert Projection(plain, fields=fields).request is plain
    none = Projection(asked(safety_identifier="b"), fields=fields - {"user"})
    assert none.lost == {"safety_identifier": 1}


SCHEMA = OutputFormat("json_schema", {"type": "object"}, "ans")


@pytest.mark.parametrize(
    ("output", "kinds", "expected", "lost"),
    [
        (SCHEMA, {"json_schema"}, SCHEMA, {}),
        (SCHEMA, {"json_object"}, OutputFormat("json_object"), {"schema_dropped": 1}),
        (SCHEMA, {"text"}, None, {"schema_dropped": 1}),
        (OutputFormat("json_object"), {"json_schema"}, None, {"json_mode_dropped": 1}),
        (
            OutputFormat("json_object", extra={"other": {"type_of": "x"}}),
            {"json_object"},
            OutputFormat("json_object"),
            {"type_of": 1},
        ),
    ],
    ids=repr,
)
def test_the_form_of_the_answer_is_weakened_at_need(
    output: OutputFormat, kinds: set[str], expected: OutputFormat | None, lost: dict[str, int]
) -> None:
    done = Projection(asked(output=output), output_kinds=frozenset(kinds))
    assert done.request.output == expected
    assert done.lost == lost


def effort(word: str | None, **fields: Any) -> ReasoningOptions:
    return ReasoningOptions(effort=word, **fields)


def budget(tokens: int, word: str | None = None) -> ReasoningOptions:
    return ReasoningOptions("budget", word, tokens)


OFF, ADAPTIVE = ReasoningOptions("off"), ReasoningOptions("adaptive")


@pytest.mark.parametrize(
    ("thinking", "options", "expected"),
    [
        ("effort", effort("high"), effort("high")),
        ("effort", OFF, effort("none")),
        ("effort", budget(0), effort("none")),
        ("level", effort("max"), effort("max")),
        ("adaptive", OFF, OFF),
        ("adaptive", effort("none"), OFF),
        ("adaptive", effort("minimal"), ReasoningOptions("adaptive", "minimal")),
        ("adaptive", effort("xhigh"), ReasoningOptions("adaptive", "xhigh")),
        ("adaptive", ADAPTIVE, ADAPTIVE),
        ("adaptive", budget(31_999), budget(31_999)),
        ("adaptive", budget(31_999, "low"), budget(31_999, "low")),
        ("budget", OFF, OFF),
        ("budget", effort("none"), OFF),
        ("budget", effort("minimal"), budget(1024)),
        ("budget", effort("low"), budget(2048)),
        ("budget", effort("medium"), budget(10_000)),
        ("budget", effort("high"), budget(16_384)),
        ("budget", effort("xhigh"), budget(32_768)),
        ("budget", ADAPTIVE, ADAPTIVE),
        ("budget", budget(5000, "high"), budget(5000, "high")),
        ("level", budget(5000), budget(5000)),
        ("level", OFF, OFF),
        ("level", ADAPTIVE, ADAPTIVE),
    ],
    ids=repr,
)
def test_reasoning_is_asked_for_in_the_target_s_words(
    thinking: str, options: ReasoningOptions, expected: ReasoningOptions | None
) -> None:
    done = Projection(asked(reasoning=options), thinking=thinking)
    assert done.request.reasoning == expected
    assert done.lost == {}


@pytest.mark.parametrize(
    ("tokens", "word"),
    [
        *((1, "minimal"), (1536, "minimal"), (1537, "low"), (6000, "low")),
        *((6001, "medium"), (13_000, "medium"), (13_001, "high"), (24_000, "high")),
        (24_001, "xhigh"),
    ],
)
def test_an_effort_stands_for_a_budget_with_a_loss(tokens: int, word: str) -> None:
    done = Projection(asked(reasoning=budget(tokens)), thinking="effort")
    assert done.request.reasoning == effort(word)
    assert done.losses == (Loss("budget_changed", "request", 1, f"written as the effort {word}"),)


def test_user_who_is_the_safety_identifier_is_named_once() -> None:
    name = "a"
    both = asked(user=name, safety_identifier=name)
    done = Projection(both, fields=ALL_FIELDS - {"safety_identifier"})
    assert (done.request.user, done.request.safety_identifier) == ("a", None)
    assert done.lost == {}


def test_json_is_asked_for_where_no_text_does() -> None:
    for text, lost in (("As JSON.", {}), ("As a list.", {"json_asked": 1})):
        wanted = request(user(text), output=OutputFormat("json_object"))
        done = Projection(wanted, json_word=True)
        assert done.lost == lost
        assert len(done.request.messages) == 1 + len(lost)


def test_no_budget_is_no_effort() -> None:
    done = Projection(asked(reasoning=budget(0)), thinking="effort")
    assert (done.request.reasoning, done.lost) == (effort("none"), {})


@pytest.mark.parametrize(("reasons", "lost"), [(True, {}), (False, {"reasoning": 1})])
def test_reasoning_without_an_effort_is_left_to_the_model(
    reasons: bool, lost: dict[str, int]
) -> None:
    done = Projection(asked(reasoning=ADAPTIVE), thinking="effort", reasons_by_default=reasons)
    assert done.request.reasoning is None
    assert done.lost == lost


def test_a_budget_is_an_effort_where_budgets_are_refused() -> None:
    for options, word in ((budget(31_999), "xhigh"), (budget(31_999, "low"), "low")):
        done = Projection(asked(reasoning=options), thinking="adaptive", thinking_budgets=False)
        assert done.request.reasoning == ReasoningOptions("adaptive", word)
        assert done.lost == {"budget_changed": 1}


@pytest.mark.parametrize(("word", "tokens"), [("max", 32_768), ("unheard of", 10_000)])
def test_an_effort_without_a_budget_of_its_own_is_a_loss(word: str, tokens: int) -> None:
    done = Projection(asked(reasoning=effort(word)), thinking="budget")
    assert done.request.reasoning == budget(tokens)
    assert done.losses == (
        Loss("effort_changed", "request", 1, f"written as a budget of {tokens} tokens"),
    )


def test_an_adaptive_model_without_the_least_effort_gets_the_next_with_a_loss() -> None:
    efforts = ("low", "medium", "high")
    done = Projection(asked(reasoning=effort("minimal")), thinking="adaptive", efforts=efforts)
    assert done.request.reasoning == ReasoningOptions("adaptive", "low")
    assert done.losses == (Loss("effort_changed", "request", 1, "written as low"),)


def test_levels_stand_for_modes_and_budgets_where_those_are_refused() -> None:
    for options, word in ((OFF, "none"), (budget(9000), "medium"), (ADAPTIVE, None)):
        done = Projection(asked(reasoning=options), thinking="level", thinking_budgets=False)
        assert done.request.reasoning == (None if word is None else effort(word))


def test_stops_of_white_space_are_dropped_where_they_are_refused() -> None:
    blank = asked(stop=("\n\n", "END", ""))
    done = Projection(blank, blank_stops=False)
    assert done.request.stop == ("END",)
    assert done.lost == {"stop_dropped": 1}
    assert Projection(blank).request is blank
    first = Projection(blank, blank_stops=False, max_stops=0)
    assert first.request.stop == ()
    legal = asked(stop=("END",))
    assert Projection(legal, blank_stops=False).request is legal
    assert Projection(legal, max_stops=1).request is legal


@pytest.mark.parametrize("field", ["user", "safety_identifier"])
def test_personal_names_of_end_users_are_hashed(field: str) -> None:
    done = Projection(asked(**{field: "ann@example.com"}), personal_users=r"@")
    assert getattr(done.request, field) == sha256(b"ann@example.com").hexdigest()
    assert done.lost == {"user_hashed": 1}
    opaque = asked(**{field: "user-1"})
    assert Projection(opaque, personal_users=r"@").request is opaque


def test_values_that_are_accepted_beside_reasoning_stay() -> None:
    target: dict[str, Any] = {
        "reasoning_excludes": frozenset({"temperature", "top_k"}),
        "reasoning_accepts": {"temperature": 1},
    }
    default = asked(reasoning=ADAPTIVE, temperature=1)
    assert Projection(default, **target).request is default
    done = Projection(asked(reasoning=ADAPTIVE, temperature=0.5, top_k=1), **target)
    assert done.request == asked(reasoning=ADAPTIVE)
    assert done.lost == {"temperature": 1, "top_k": 1}


def test_a_budget_stands_for_the_adaptive_mode_where_only_budgets_are() -> None:
    target: dict[str, Any] = {"thinking": "budget", "adaptive_budgets": False}
    for options, tokens in ((ADAPTIVE, 10_000), (ReasoningOptions("adaptive", "high"), 16_384)):
        done = Projection(asked(reasoning=options), **target)
        assert done.request.reasoning == budget(tokens)
        assert done.lost == {"reasoning": 1}
    kept = asked(reasoning=ADAPTIVE)
    assert Projection(kept, thinking="budget").request is kept


def test_a_budget_leaves_room_for_the_answer() -> None:
    target: dict[str, Any] = {"thinking": "budget", "bounded_budgets": True}
    full = asked(reasoning=budget(4096), max_tokens=4096)
    done = Projection(full, **target)
    assert done.request.reasoning == budget(3072)
    assert done.lost == {"budget_changed": 1}
    for options, max_tokens, expected in (
        (budget(4095), 4096, budget(4095)),  # as the client says, which is legal
        (budget(512), 4096, budget(1024)),
        (budget(512), 2047, OFF),
        (budget(0), 4096, OFF),
        (effort("high"), 20_000, budget(15_000)),
        (effort("high"), 2048, budget(1024)),
        (effort("high"), 2047, OFF),
        (effort("low"), 20_000, budget(2048)),
    ):
        sized = asked(reasoning=options, max_tokens=max_tokens)
        assert Projection(sized, **target).request.reasoning == expected
    # Where the request does not say, the model's own bound counts.
    default = Projection(asked(reasoning=effort("xhigh")), max_tokens=32_000, **target)
    assert default.request.reasoning == budget(24_000)
    mine = own(asked(reasoning=budget(31_999)))
    assert Projection(mine, max_tokens=32_000, **target).request is mine
    assert Projection(mine, max_tokens=8_000, **target).request is mine
    named = Projection(mine, named=True, max_tokens=8_000, **target)
    assert named.request.reasoning == budget(6_000)
    assert Projection(full, thinking="budget").request is full
    assert Projection(full, same_target=True, **target).request is full


def test_an_effort_that_the_model_lacks_becomes_the_next_higher() -> None:
    def written(word: str, *efforts: str) -> Projection:
        return Projection(asked(reasoning=effort(word)), thinking="effort", efforts=efforts)

    assert written("xhigh", "low", "max").request.reasoning == effort("max")
    assert written("max", "low", "high").request.reasoning == effort("high")
    assert written("unheard of", "low", "high").request.reasoning == effort("high")
    assert written("none", "minimal", "low").request.reasoning == effort("minimal")
    none = written("low")
    assert none.request.reasoning is None
    assert none.lost == {"effort_changed": 1}


def test_what_the_answer_shows_is_lost_where_there_is_no_field() -> None:
    options = effort("low", show="auto")
    kept = asked(reasoning=ReasoningOptions("adaptive", "low", show="auto"))
    assert Projection(kept).request is kept
    done = Projection(asked(reasoning=options), thinking="effort", shows_reasoning=False)
    assert done.request.reasoning == effort("low")
    assert done.lost == {"reasoning_summary": 1}


def test_reasoning_is_dropped_where_the_model_has_none() -> None:
    done = Projection(asked(reasoning=effort("low")), fields=ALL_FIELDS - {"reasoning"})
    assert done.request.reasoning is None
    assert done.lost == {"reasoning": 1}


def test_options_that_a_reasoning_model_refuses_are_dropped() -> None:
    target: dict[str, Any] = {
        "reasoning_excludes": frozenset({"temperature"}),
        "thinking": "effort",
    }
    for reasoning, lost in (
        (None, {}),
        (effort("none"), {}),
        (effort("low"), {"temperature": 1}),
    ):
        done = Projection(asked(temperature=1.0, reasoning=reasoning), **target)
        assert done.lost == lost
    assert Projection(asked(temperature=1.0), reasons_by_default=True, **target).lost == {
        "temperature": 1
    }
    off = asked(temperature=1.0, reasoning=OFF)
    assert Projection(off, reasoning_excludes=frozenset({"temperature"})).lost == {}


def test_a_model_of_another_api_is_an_error() -> None:
    with pytest.raises(EncodeError, match="model of another API") as caught:
        Projection(asked(model="m"), available=False)
    assert caught.value.path == "model"


def test_the_lowest_temperature_is_the_target_s() -> None:
    done = Projection(asked(temperature=0), min_temperature=0.01)
    assert done.request.temperature == 0.01
    assert done.lost == {"temperature_clamped": 1}


def test_a_form_of_the_answer_is_dropped_beside_tools_where_both_are_refused() -> None:
    from streamnorm import Tool

    done = Projection(asked(output=SCHEMA, tools=(Tool("f"),)), output_with_tools=False)
    assert done.request.output is None
    assert done.lost == {"schema_dropped": 1}
    alone = asked(output=SCHEMA)
    assert Projection(alone, output_with_tools=False).request is alone


def test_reasoning_that_cannot_be_switched_off_stays_on() -> None:
    done = Projection(asked(reasoning=OFF), reasoning_off=False, thinking="budget")
    assert done.request.reasoning is None
    assert done.lost == {"effort_changed": 1}
    lowest = Projection(asked(reasoning=OFF), reasoning_off=False, thinking="adaptive")
    assert lowest.request.reasoning == ReasoningOptions(effort="minimal")
    high = ReasoningOptions("off", "high")
    said = Projection(asked(reasoning=high), reasoning_off=False, thinking="adaptive")
    assert said.request.reasoning == ReasoningOptions(effort="high")


def test_an_effort_beside_reasoning_that_is_off_is_bounded() -> None:
    off = ReasoningOptions("off", "max")
    kept = asked(reasoning=off)
    assert Projection(kept).request is kept
    done = Projection(kept, off_efforts=("low", "high"))
    assert done.request.reasoning == ReasoningOptions("off", "high")


def test_of_options_that_exclude_each_other_the_first_is_written() -> None:
    target = {"exclusive_fields": ("temperature", "top_p", "top_k")}
    done = Projection(asked(temperature=0.5, top_k=3), **target)
    assert done.request == asked(temperature=0.5)
    assert done.lost == {"top_k": 1}
    alone = asked(top_p=0.5)
    assert Projection(alone, **target).request is alone


def test_options_that_a_request_for_this_very_target_was_read_with_stay() -> None:
    """Servers of a dialect have fields that its vendor has not."""
    read = own(asked(top_k=5, temperature=9))
    changed = structs.replace(read, model="other")
    fields = ALL_FIELDS - {"top_k", "seed"}
    assert Projection(changed, same_target=True, fields=fields).request is changed
    more = Projection(structs.replace(read, seed=1, temperature=8), same_target=True, fields=fields)
    assert (more.request.top_k, more.request.seed, more.request.temperature) == (5, None, 2)
    assert more.lost == {"seed": 1, "temperature_clamped": 1}


def test_long_names_of_an_end_user_are_hashed() -> None:
    name = "u" * 150
    done = Projection(asked(user=name, safety_identifier=name), max_user_chars=128)
    hashed = sha256(name.encode()).hexdigest()
    assert (done.request.user, done.request.safety_identifier) == (hashed, hashed)
    assert done.lost == {"user_hashed": 2}


def test_long_name_of_a_cache_is_hashed() -> None:
    key = "k" * 72
    done = Projection(asked(cache_key=key), max_cache_key_chars=64)
    assert done.request.cache_key == sha256(key.encode()).hexdigest()
    assert done.lost == {"cache_key_hashed": 1}
    short = asked(cache_key="k" * 64)
    assert Projection(short, max_cache_key_chars=64).request is short


def test_bound_on_an_answer_is_raised_to_the_lowest() -> None:
    done = Projection(asked(max_tokens=10), min_answer_tokens=16)
    assert (done.request.max_tokens, done.lost) == (16, {"max_tokens_raised": 1})
    enough = asked(max_tokens=16)
    assert Projection(enough, min_answer_tokens=16).request is enough


@pytest.mark.parametrize(
    ("labels", "left", "lost"),
    [
        ({"a": "b"}, {"a": "b"}, {}),
        ({"a": "b", "c": "d", "e": "f"}, {"a": "b", "c": "d"}, {"metadata": 1}),
        ({"too long": "b", "c": "d"}, {"c": "d"}, {"metadata": 1}),
        ({"a": "longer text", "c": "d"}, {"c": "d"}, {"metadata": 1}),
        ({"name": "of eight"}, {"name": "of eight"}, {}),
        ({"too long": "b"}, None, {"metadata": 1}),
    ],
)
def test_labels_beyond_the_bounds_are_a_loss(
    labels: dict[str, str], left: dict[str, str] | None, lost: dict[str, int]
) -> None:
    done = Projection(asked(metadata=labels), label_bounds=(2, 4, 8))
    assert (done.request.metadata, done.lost) == (left, lost)


@pytest.mark.parametrize(
    ("options", "target", "left"),
    [
        ({"top_logprobs": 3}, {}, None),
        ({"top_logprobs": 3, "logprobs": False}, {}, None),
        ({"top_logprobs": 3, "logprobs": True}, {}, 3),
        ({"top_logprobs": 3, "logprobs": True}, {"fields": ALL_FIELDS - {"logprobs"}}, None),
        ({"top_logprobs": 3, "logprobs": True}, {"fields": ALL_FIELDS - {"top_logprobs"}}, None),
    ],
)
def test_option_that_needs_another_is_dropped_without_it(
    options: dict[str, Any], target: dict[str, Any], left: int | None
) -> None:
    done = Projection(asked(**options), dependent_fields={"top_logprobs": "logprobs"}, **target)
    assert done.request.top_logprobs == left
    assert done.lost["top_logprobs"] == (left is None)


def test_refused_option_of_another_type_is_dropped_from_the_fields_of_the_dialect() -> None:
    numbered = asked(extra={"target": {"logprobs": 3, "x": 1}})
    done = Projection(numbered, fields=ALL_FIELDS - {"logprobs"})
    assert (done.request.extra, done.lost) == ({"target": {"x": 1}}, {"logprobs": 1})
    assert Projection(numbered).request is numbered
    only = Projection(asked(extra={"target": {"logprobs": 3}}), fields=ALL_FIELDS - {"logprobs"})
    assert only.request.extra is None
    assert Projection(own(numbered), same_target=True, fields=frozenset()).request.extra


def test_name_of_a_schema_in_other_characters_is_a_loss() -> None:
    named = asked(output=OutputFormat("json_schema", OBJECT, "my schema"))
    done = Projection(named, output_name_pattern="[a-z]+")
    assert done.request.output == OutputFormat("json_schema", OBJECT)
    assert done.lost == {"schema_name": 1}
    for name in ("schema", None):
        legal = asked(output=OutputFormat("json_schema", OBJECT, name))
        assert Projection(legal, output_name_pattern="[a-z]+").request is legal


@pytest.mark.parametrize(
    ("said", "written", "lost"),
    [
        ({"top_p": 1.5}, {"top_p": 1.0}, {"top_p": 1}),
        ({"presence_penalty": -3}, {"presence_penalty": -2}, {"presence_penalty": 1}),
        ({"choices": 0}, {"choices": 1}, {"choices": 1}),
        ({"top_p": 1, "presence_penalty": 2, "choices": 3}, {}, {}),
        ({}, {}, {}),
    ],
)
def test_numbers_beyond_the_bounds_are_written_as_the_nearest(
    said: dict[str, Any], written: dict[str, Any], lost: dict[str, int]
) -> None:
    bounds = {"top_p": (0, 1), "presence_penalty": (-2, 2), "choices": (1, 128)}
    done = Projection(asked(**said), number_bounds=bounds)
    for name, value in {**said, **written}.items():
        found = getattr(done.request, name)
        assert (found, type(found)) == (value, type(value))
    assert done.lost == lost


def test_another_value_than_the_only_one_is_dropped() -> None:
    """Kimi has one temperature while it thinks, and one without (kodustech/kodus-ai#1120)."""
    target: dict[str, Any] = {
        "fixed_values": {"temperature": 1.0, "top_p": 0.95},
        "fixed_values_off": {"temperature": 0.6},
        "reasons_by_default": True,
    }
    done = Projection(asked(temperature=0.5, top_p=0.9, seed=7), **target)
    assert done.request == asked(seed=7)
    assert done.lost == {"temperature": 1, "top_p": 1}
    off = ReasoningOptions("off")
    done = Projection(asked(temperature=1, top_p=0.9, reasoning=off), **target)
    assert done.request == asked(top_p=0.9, reasoning=off)
    assert done.lost == {"temperature": 1}
    for legal in (
        asked(temperature=1, top_p=0.95),
        asked(temperature=0.6, reasoning=off),
        asked(),
    ):
        assert Projection(legal, **target).request is legal
    both = {**target, "fixed_values_off": None}
    assert Projection(asked(temperature=0.6, reasoning=off), **both).lost == {"temperature": 1}
    gone = Projection(asked(temperature=0.5), fields=ALL_FIELDS - {"temperature"}, **target)
    assert gone.lost == {"temperature": 1}


def test_needless_option_of_the_dialect_that_is_dropped_is_a_loss() -> None:
    fields = ALL_FIELDS - {"parallel_tool_calls"}
    assert Projection(asked(parallel_tool_calls=True), fields=fields).lost == {}
    mine = own(asked(parallel_tool_calls=True))
    done = Projection(mine, fields=fields, only_refusals=True)
    assert done.lost == {"parallel_tool_calls": 1}


def test_service_tier_of_the_dialect_is_the_server_s_own_word() -> None:
    mine = own(asked(service_tier="turbo"))
    assert Projection(mine, only_refusals=True).request is mine
    assert Projection(mine).lost == {"service_tier": 1}
