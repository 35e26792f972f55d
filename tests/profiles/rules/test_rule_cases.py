"""Every rule is shown by cases: what it refuses, what it accepts, and where it does not hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from profiles.rules import test_schema_rules, test_schema_rules_servers
from support.rules.cases import RuleCase, is_refused_by

from streamnorm.profiles import VENDOR, shipped_profiles
from streamnorm.profiles.rules import RequestRule, shipped_rules

_ROOMS = Path(__file__).parents[2] / "dialects"


def read_tables() -> Iterator[RuleCase]:
    """Yield the cases of the tables `CASES` of each dialect's tests, and those of schemas."""
    for file in sorted(_ROOMS.glob("*/validate/test_*requests*.py")):
        module = import_module(f"dialects.{file.parent.parent.name}.validate.{file.stem}")
        yield from module.CASES
    yield from (*test_schema_rules.CASES, *test_schema_rules_servers.CASES)


CASES: defaultdict[tuple[str, str], list[RuleCase]] = defaultdict(list)
for each in read_tables():
    CASES[each.rule, each.dialect].append(each)
SERVERS = {server for rule in shipped_rules() for server in rule.servers} - {VENDOR}


def list_other_servers(rule: RequestRule) -> list[str]:
    """Return servers that the dialect knows and the rule does not name."""
    profiles = shipped_profiles()
    named = [other.servers for other in shipped_rules() if other.dialect == rule.dialect]
    return sorted(
        server
        for server in SERVERS - rule.servers
        if profiles.knows(server, rule.dialect) or any(server in servers for servers in named)
    )


@pytest.mark.parametrize("rule", shipped_rules(), ids=lambda rule: f"{rule.id}-{rule.dialect}")
def test_every_rule_is_shown_by_cases(rule: RequestRule) -> None:
    cases = CASES[rule.id, rule.dialect]
    assert cases, "a rule without a case"
    for case in cases:
        case.check()


@pytest.mark.parametrize("rule", shipped_rules(), ids=lambda rule: f"{rule.id}-{rule.dialect}")
def test_rule_refuses_at_each_of_its_servers_and_at_no_other(rule: RequestRule) -> None:
    cases = CASES[rule.id, rule.dialect]
    for server in rule.servers:
        name = None if server == VENDOR else server
        assert any(is_refused_by(case, name) for case in cases), server
    for server in list_other_servers(rule):
        assert not is_refused_by(cases[0], server), server


@pytest.mark.parametrize(
    "rule",
    [rule for rule in shipped_rules() if rule.models is not None],
    ids=lambda rule: f"{rule.id}-{rule.dialect}",
)
def test_rule_of_some_models_is_shown_not_to_hold_for_another(rule: RequestRule) -> None:
    elsewhere = [place for case in CASES[rule.id, rule.dialect] for place in case.elsewhere]
    # `RuleCase.check` shows that the request is accepted there.
    assert any((server or VENDOR) in rule.servers for server, _ in elsewhere)


def test_every_case_is_of_a_rule() -> None:
    rules = {(rule.id, rule.dialect) for rule in shipped_rules()}
    assert [names for names in CASES if names not in rules] == []
