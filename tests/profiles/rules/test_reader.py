"""The reader of rules: what it accepts, and what it refuses by file and key."""

from __future__ import annotations

import pytest

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.errors import ProfileError
from streamnorm.profiles import VENDOR
from streamnorm.profiles import rules as rule_reader
from streamnorm.profiles.rules import RequestRule, read_request_rules, shipped_rules

CHECK = 'check = { kind = "forbidden", at = ["user"] }'
RULE = f"""
[[rule]]
id = "own.user"
dialect = "openai_chat"
summary = "no `user`"
says = "Unknown parameter: '{{path}}'."
{CHECK}
"""


def rules(text: str) -> list[RequestRule]:
    return read_request_rules(text, "own.toml")


def changed(old: str, new: str) -> str:
    """Return the rule with a piece of text replaced."""
    assert old in RULE
    return RULE.replace(old, new)


def error(text: str) -> str:
    with pytest.raises(ProfileError) as info:
        rules(text)
    return str(info.value)


# What a rule says


def test_rule_has_the_defaults_of_its_vendor() -> None:
    [rule] = rules(RULE)
    assert (rule.id, rule.dialect, rule.servers) == ("own.user", "openai_chat", {VENDOR})
    assert (rule.models, rule.model_globs) == (None, ())
    assert (rule.summary, rule.says) == ("no `user`", "Unknown parameter: '{path}'.")
    assert (rule.verbatim, rule.status, rule.type, rule.code) == (True, 400, None, None)
    assert (rule.evidence, rule.since, rule.until) == ((), "", "")


def test_rule_says_all_of_itself() -> None:
    more = """
server = ["vendor", "azure"]
model = ["gpt-5*", "!gpt-5-pro"]
verbatim = false
status = 422
type = "own_error"
code = "own_code"
evidence = ["o/r#1", "o/r#2"]
since = "2026-03"
until = "2026-09"
"""
    [rule] = rules(RULE + more)
    assert rule.servers == {"vendor", "azure"}
    assert rule.model_globs == ("gpt-5*", "!gpt-5-pro")
    assert (rule.verbatim, rule.status, rule.type, rule.code) == (
        False,
        422,
        "own_error",
        "own_code",
    )
    assert (rule.evidence, rule.since) == (("o/r#1", "o/r#2"), "2026-03")
    assert rule.until == "2026-09"


def test_rule_of_several_dialects_is_one_for_each() -> None:
    found = rules(changed('"openai_chat"', '["openai", "responses"]'))
    assert [rule.dialect for rule in found] == ["openai_chat", "openai_responses"]
    assert {rule.id for rule in found} == {"own.user"}


def test_rule_finds_what_breaks_it() -> None:
    [rule] = rules(RULE)
    assert [*rule.check(RequestFacts({"user": "me"}))] == [Finding("user", "me", name="user")]
    assert [*rule.check(RequestFacts({}))] == []


def test_check_of_a_dialect_counts_where_its_conditions_hold() -> None:
    check = 'check = { kind = "own", check_name = "excess_stops", when = [{ at = "user" }] }'
    [rule] = rules(changed(CHECK, check))
    body = {"stop": ["a", "b", "c", "d", "e"]}
    assert [*rule.check(RequestFacts(body))] == []
    assert [*rule.check(RequestFacts({**body, "user": "me"}))] != []


def test_file_without_rules_is_empty() -> None:
    assert rules("") == []


# Whom a rule holds for


@pytest.mark.parametrize(
    ("servers", "server", "holds"),
    [
        ('"vendor"', "vendor", True),
        ('"vendor"', "azure", False),
        ('["azure", "vllm"]', "vllm", True),
        ('["azure", "vllm"]', "vendor", False),
        ('"*"', "vendor", True),
        ('"*"', "vllm", True),
    ],
)
def test_rule_holds_for_the_servers_that_it_names(servers: str, server: str, holds: bool) -> None:
    [rule] = rules(f"{RULE}\nserver = {servers}")
    assert rule.holds_for(server, "m") is holds


@pytest.mark.parametrize(
    ("globs", "model", "holds"),
    [
        ('"gpt-5"', "gpt-5", True),
        ('"gpt-5"', "gpt-5-mini", False),
        ('"gpt-5*"', "GPT-5-mini", True),
        ('"gpt-5*"', "openai/gpt-5", True),
        ('"claude-*"', "us.anthropic.claude-opus-4-5", True),
        ('"gpt-5*"', "not-gpt-5", False),
        ('"gpt-5*"', "", False),
        ('["gpt-5*", "!gpt-5-pro*"]', "gpt-5-pro-2026", False),
        ('["gpt-5*", "!gpt-5-pro*"]', "openai/gpt-5-pro", False),
        ('["gpt-5*", "!gpt-5-pro*"]', "gpt-5.1", True),
        ('"*"', "", True),
    ],
)
def test_rule_holds_for_the_models_that_it_names(globs: str, model: str, holds: bool) -> None:
    [rule] = rules(f"{RULE}\nmodel = {globs}")
    assert rule.holds_for(VENDOR, model) is holds


# What is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule", "own.toml: "),
        ("rules = []", "own.toml: Object contains unknown field `rules`"),
        ("[[rule]]", "own.toml: Object missing required field `id` - at `$.rule[0]`"),
        (f"{RULE}\nsays_also = 1", "unknown field `says_also` - at `$.rule[0]`"),
        (f'{RULE}\nstatus = "400"', "Expected `int`, got `str` - at `$.rule[0].status`"),
        (f"{RULE}{RULE}", "own.toml: rule[1].id: that of another rule, expected one of its own"),
        (changed("own.user", "user"), "rule[0].id: no name, expected two words with a dot between"),
        (changed("own.user", "Own.User"), "rule[0].id: no name, "),
        (changed("own.user", "own.é"), "rule[0].id: no name, "),
        (changed('"openai_chat"', '"esperanto"'), "rule[0].dialect: no dialect 'esperanto'"),
        (f"{RULE}\nstatus = 399", "rule[0].status: 399, expected 400 to 599"),
        (f"{RULE}\nstatus = 600", "rule[0].status: 600, expected 400 to 599"),
        (f'{RULE}\nmodel = "!gpt-5"', "rule[0].model: nothing but exclusions, expected a name"),
        (changed("{path}", "{place}"), "rule[0].says: placeholder 'place', expected one of "),
        (changed("{path}", "{}"), "rule[0].says: placeholder '', "),
        (changed("{path}", "{path!r}"), "rule[0].says: placeholder 'path', "),
        (changed("{path}", "{count:,}"), "rule[0].says: placeholder 'count', "),
        (changed("{path}", "{path.x}"), "rule[0].says: placeholder 'path.x', "),
        (changed("{path}", "{path"), "rule[0].says: "),
        (changed('"user"', '"a[b]"'), "rule[0].check: 'a[b]': no path of a field at character 0,"),
        (
            changed(CHECK, 'check = { kind = "length", at = ["a"], when = [{ at = "b." }] }'),
            "rule[0].check: 'b.': no path",
        ),
        (
            changed(CHECK, 'check = { kind = "length", at = ["a"], unless = [{ at = "" }] }'),
            "rule[0].check: '': no path",
        ),
        (changed("forbidden", "banned"), "Invalid value 'banned' - at `$.rule[0].check.kind`"),
        (changed('kind = "forbidden", ', ""), "missing required field `kind`"),
        (
            changed(CHECK, 'check = { kind = "forbidden", at = ["a"], values = [1] }'),
            "unknown field `values` - at `$.rule[0].check`",
        ),
        (
            changed(CHECK, 'check = { kind = "length", at = ["a"], when = [{at = "b", of = 1}] }'),
            "unknown field `of` - at `$.rule[0].check.when[0]`",
        ),
        (
            changed(CHECK, 'check = { kind = "pattern", at = ["a"], matches = "(" }'),
            "expected a regular expression",
        ),
        (
            changed(CHECK, 'check = { kind = "own", check_name = "no_such" }'),
            "rule[0].check: 'no_such', expected one of ",
        ),
    ],
)  # fmt: skip
def test_file_that_is_none_of_rules_is_refused(text: str, message: str) -> None:
    found = error(text)
    assert found.startswith("own.toml: ")
    assert message in found


def test_dialect_without_checks_of_its_own_has_none() -> None:
    text = changed(CHECK, 'check = { kind = "own", check_name = "x" }')
    found = error(text.replace("openai_chat", "ag_ui"))
    assert found == "own.toml: rule[0].check: 'x', expected one of none"


# The rules that are shipped


def test_shipped_rules_are_of_files_of_this_package() -> None:
    found = shipped_rules()
    assert found
    assert rule_reader.shipped_rules() is found


def test_shipped_rules_have_names_of_their_own() -> None:
    found = [(rule.id, rule.dialect) for rule in shipped_rules()]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("rule", shipped_rules(), ids=lambda rule: f"{rule.id}-{rule.dialect}")
def test_shipped_rule_says_what_is_demanded_and_where_it_was_seen(rule: RequestRule) -> None:
    assert rule.summary
    assert not rule.summary.endswith(".")
    assert rule.says
    assert rule.evidence
    assert rule.since == "" or len(rule.since) in (4, 7)
    assert rule.until == "" or len(rule.until) in (4, 7)
