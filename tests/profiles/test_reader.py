"""The reader of profiles: what it takes, and what it refuses by file and key."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import EVERYTHING

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.errors import ProfileError
from streamnorm.profiles import Rule, read_rules

TARGET = structs.replace(
    EVERYTHING,
    dialect="openai_chat",
    roles=frozenset({"user", "developer"}),
    efforts=("low", "high"),
    service_tiers={"auto": "auto", "flex": "flex"},
    id_pattern="x",
)


def rule(text: str) -> Rule:
    [only] = read_rules(f'[[profile]]\ndialect = "openai_chat"\n{text}', "own.toml")
    return only


def applied(text: str) -> BodyCapabilities:
    return rule(text).apply(TARGET)


# What a profile changes


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("set.prefill = false", "prefill", False),
        ("set.max_tools = 5", "max_tools", 5),
        ("set.max_temperature = 1", "max_temperature", 1.0),
        ('set.roles = ["user"]', "roles", frozenset({"user"})),
        ('add.roles = ["system"]', "roles", frozenset({"user", "developer", "system"})),
        ('remove.roles = ["developer"]', "roles", frozenset({"user"})),
        ('remove.roles = ["system"]', "roles", frozenset({"user", "developer"})),
        ('set.roles = ["user"]\nadd.roles = ["system"]', "roles", frozenset({"user", "system"})),
        ('set.efforts = ["none", "max"]', "efforts", ("none", "max")),
        ('remove.efforts = ["low"]', "efforts", ("high",)),
        ('set.images = ["image/png"]', "images", frozenset({"image/png"})),
        ('set.service_tiers = { default = "x" }', "service_tiers", {"default": "x"}),
        (
            'add.service_tiers = { default = "x" }',
            "service_tiers",
            {"auto": "auto", "flex": "flex", "default": "x"},
        ),
        ('remove.service_tiers = ["flex"]', "service_tiers", {"auto": "auto"}),
        ('set.reasoning_required = "calls"', "reasoning_required", "calls"),
        ("set.reasoning_required = true", "reasoning_required", True),
        ("set.added_fields = { a = { b = [1] } }", "added_fields", {"a": {"b": [1]}}),
        ('unset = ["id_pattern"]', "id_pattern", None),
        ('set.denied_fields = ["a[b=c].d"]', "denied_fields", frozenset({"a[b=c].d"})),
        ('set.beta_fields = { "b-*" = ["a"] }', "beta_fields", {"b-*": frozenset({"a"})}),
    ],
)
def test_capability_is_changed(text: str, name: str, value: Any) -> None:
    changed = applied(text)
    assert getattr(changed, name) == value
    assert changed == structs.replace(TARGET, **{name: value})


def test_file_without_profiles_has_no_rules() -> None:
    assert read_rules("", "own.toml") == []


# Where it applies


def test_profile_applies_to_several_dialects_by_any_of_their_names() -> None:
    [only] = read_rules('[[profile]]\ndialect = ["claude", "gemini"]', "own.toml")
    assert only.dialects == {"anthropic", "gemini"}


@pytest.mark.parametrize(
    ("globs", "model", "applies"),
    [
        ('"gpt-5"', "gpt-5", True),
        ('"gpt-5"', "GPT-5", True),
        ('"GPT-5"', "gpt-5", True),
        ('"gpt-5"', "gpt-5-mini", False),
        ('"gpt-5"', "my-gpt-5", False),
        ('"gpt-5*"', "gpt-5.1", True),
        ('"gpt-5"', "openai/gpt-5", True),
        ('"claude-*"', "us.anthropic.claude-opus-4-5-20251101-v1:0", True),
        ('"claude-*"', "projects/p/models/claude-x", True),
        ('["a", "b"]', "b", True),
        ('["a*", "!ab*"]', "ac", True),
        ('["a*", "!ab*"]', "abc", False),
        ('["a*", "!ab*"]', "vendor/abc", False),
        ('["!ab*", "a*"]', "abc", False),
        ('"gpt-5.[12]"', "gpt-5.2", True),
        ('"gpt-5.[12]"', "gpt-5.3", False),
        ('"*"', "", True),
        ('"x*"', "", False),
    ],
)
def test_model_is_matched_by_globs(globs: str, model: str, applies: bool) -> None:
    assert rule(f"model = {globs}").names_model(model) is applies


def test_profile_without_models_applies_to_all() -> None:
    assert rule("").names_model("any")


def test_end_of_a_name_that_no_model_has_is_not_read() -> None:
    assert rule('model = "a*"').names_model("a" * 100_000)
    assert not rule('model = "*b"').names_model("a" * 100_000 + "b")


# What is refused


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = [", "own.toml: "),
        ("x = 1", "own.toml: object contains unknown field `x`"),
        ("profile = 1", "own.toml: expected `array`, got `int` - at `$.profile`"),
        ("[[profile]]", "missing required field `dialect` - at `$.profile[0]`"),
        (
            '[[profile]]\ndialect = "gpt"',
            "own.toml: profile[0].dialect: no dialect 'gpt', expected one of",
        ),
    ],
)
def test_file_of_another_shape_is_refused(text: str, error: str) -> None:
    with pytest.raises(ProfileError) as caught:
        read_rules(text, "own.toml")
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('modle = "x"', "object contains unknown field `modle` - at `$.profile[0]`"),
        ("server = 1", "got `int` - at `$.profile[0].server`"),
        ("default = true", "profile[0].default: no version, expected one"),
        ('model = "!x"', "profile[0].model: nothing but exclusions, expected a name"),
        ("model = []\nset.x = 1", "profile[0].set.x: no such capability, expected one of fields, "),
        ("set.dialect = 'x'", "profile[0].set.dialect: no such capability"),
        (
            "set.enforced_schemas = {refussed = ['pattern']}",
            "profile[0].set.enforced_schemas: object contains unknown field `refussed`",
        ),
        ("add.x = 1", "profile[0].add.x: no such capability"),
        ("remove.x = 1", "profile[0].remove.x: no such capability"),
        ('unset = ["x"]', "profile[0].unset: x: no such capability"),
        ("set.prefill = 1", "profile[0].set.prefill: expected `bool`, got `int`"),
        ("set.roles = 'user'", "profile[0].set.roles: expected `array`, got `str`"),
        ("set.thinking = 'much'", "profile[0].set.thinking: invalid enum value 'much'"),
        ("set.roles = ['bot']", "profile[0].set.roles: invalid enum value 'bot'"),
        ("remove.fields = ['temp']", "profile[0].remove.fields: invalid enum value 'temp'"),
        ("set.efforts = ['huge']", "profile[0].set.efforts: invalid enum value 'huge'"),
        ("add.efforts = ['low']", "profile[0].add.efforts: has an order, expected it under set"),
        ("add.prefill = true", "profile[0].add.prefill: no set, expected it under set"),
        ("remove.images = ['x']", "profile[0].remove.images: no set, expected it under set"),
        ("unset = ['prefill']", "profile[0].unset: prefill: always has a value, expected one that"),
        ("set.id_pattern = '('", "profile[0].set.id_pattern: missing ), unterminated subpattern"),
        ("add.denied_fields = ['a..b']", "profile[0].add.denied_fields: no path of a field at"),
        ("set.beta_fields = { b = ['.'] }", "profile[0].set.beta_fields: no path of a field at"),
        (
            "set.renamed_fields = { 'a[b=c]' = 'd' }",
            "profile[0].set.renamed_fields: a choice of elements, expected the name of a field",
        ),
        ("set.renamed_fields = { a = 'b.c.d' }", "profile[0].set.renamed_fields: no name of a"),
        ("set.prefill_fields = { 'a.b.c' = 1 }", "profile[0].set.prefill_fields: no name of a"),
        ("set.replaced_values = { a = 1 }", "profile[0].set.replaced_values: expected `object`"),
    ],
)
def test_profile_that_says_what_none_can_is_refused(text: str, error: str) -> None:
    with pytest.raises(ProfileError) as caught:
        rule(text)
    assert str(caught.value).startswith("own.toml: ")
    assert error in str(caught.value)


def test_error_names_the_table() -> None:
    text = '[[profile]]\ndialect = "gemini"\n' * 2 + "set.x = 1"
    with pytest.raises(ProfileError, match=r"own\.toml: profile\[1\]\.set\.x"):
        read_rules(text, "own.toml")


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ProfileError):
        read_rules("x = " + "[" * 100_000, "own.toml")
