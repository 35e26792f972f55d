"""A sample of tests/stress/attacks.py: each attack against the server of its turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.attacks.bench import Attack
from support.attacks.catalog import ATTACKS, withstand
from support.gateway.processes import COMMANDS, missing_for

pytestmark = pytest.mark.anyio

# Those that wait for time to pass, or send for seconds.
_SLOW = ("flood", "slow", "a locked", "a full", "a replica", "die in", "resolve")
_EACH_PUSH = 4  # of which one runs on every push


def _cases() -> list[object]:
    cases = []
    for number, attack in enumerate(ATTACKS):
        server = attack.servers[number % len(attack.servers)]
        is_slow = number % _EACH_PUSH or any(word in attack.name for word in _SLOW)
        marks = [pytest.mark.slow] if is_slow else []
        cases.append(pytest.param(server, attack, marks=marks, id=f"{server}: {attack.name}"))
    return cases


@pytest.mark.parametrize(("server", "attack"), _cases())
async def test_gateway_withstands(server: str, attack: Attack, tmp_path: Path) -> None:
    if reason := missing_for(server):
        pytest.skip(reason)
    _, wrong = await withstand(server, attack, tmp_path)
    assert wrong == []


def test_each_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len({*names}) == len(names)
    assert all({*attack.servers} <= {*COMMANDS} for attack in ATTACKS)
