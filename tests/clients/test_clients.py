"""The command that runs agents: its judges, and a short run where the agents are installed."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from clients import installs
from clients.agents import AGENTS
from clients.agents.claude_code import CLAUDE_CODE
from clients.growth import changed_histories
from clients.histories import history_of
from clients.tasks import READ_FILES, Task
from clients.variants import VARIANTS
from support.bodies.history_rules import PROMPTS

from streamnorm import InputMessage, Request, Text, Tool, ToolResult, encode_request
from streamnorm.testing import FakeRequest

SIGNATURES = {
    "anthropic": (("dGhpbmtpbmcgb2YgdHVybiAx", None),),
    "openai_chat": (),
    "openai_responses": (("gAAAAABmockmockmock1", f"rs_{1:048x}"),),
    "gemini": (("YSB0aG91Z2h0IG9mIHR1cm4gMQ==", None),),
    "bedrock_converse": (("dGhpbmtpbmcgb2YgdHVybiAx", None),),
}
each_dialect = pytest.mark.parametrize("dialect", SIGNATURES)


def last_request(dialect: str, folder: Path) -> dict[str, Any]:
    """Return the last request of a task, as an agent without faults sends it."""
    tool = Tool("Read", "Reads", {"type": "object", "properties": {}})
    asked = Request(model="m", messages=(InputMessage("user", (Text("Read."),)),), tools=(tool,))
    first = encode_request(asked, dialect).body
    answer = READ_FILES.turn(dialect, first, CLAUDE_CODE.read, folder / "work")
    results = [
        ToolResult(f"call_Read{number}", (Text(text),), name="Read")
        for number, text in enumerate(READ_FILES.files.values(), 1)
    ]
    turns = (InputMessage("assistant", tuple(answer)), InputMessage("user", tuple(results)))
    whole = Request(model="m", messages=(*asked.messages, *turns), tools=(tool,))
    return encode_request(whole, dialect).body


def wrong(dialect: str, body: dict[str, Any], folder: Path) -> list[str]:
    request = FakeRequest("POST", "/", dialect, {}, body)
    return READ_FILES.wrong([request], CLAUDE_CODE.read, folder, reasons=True)


@each_dialect
def test_history_of_a_task_is_read(dialect: str, tmp_path: Path) -> None:
    history = history_of(dialect, last_request(dialect, tmp_path))
    assert history.calls == ("call_Read1", "call_Read2")
    assert [*history.results] == ["call_Read1", "call_Read2"]
    assert history.signatures == SIGNATURES[dialect]
    assert history.tools == {"Read": "function"}


@each_dialect
def test_request_of_the_task_is_right(dialect: str, tmp_path: Path) -> None:
    assert wrong(dialect, last_request(dialect, tmp_path), tmp_path) == []


@each_dialect
def test_lost_content_is_found(dialect: str, tmp_path: Path) -> None:
    body = last_request(dialect, tmp_path)
    changed = json.dumps(body).replace("larch", "birch")
    assert wrong(dialect, json.loads(changed), tmp_path) == [
        "result of call_Read1 lacks 'The first word is larch.'"
    ]


@each_dialect
def test_lost_turn_is_found(dialect: str, tmp_path: Path) -> None:
    body = last_request(dialect, tmp_path)
    assert wrong(dialect, {**body, PROMPTS[dialect]: body[PROMPTS[dialect]][:1]}, tmp_path)


def test_reasoning_under_another_id_is_found(tmp_path: Path) -> None:
    body = last_request("openai_responses", tmp_path)
    changed = json.loads(json.dumps(body).replace(f"rs_{1:048x}", "rs_2"))
    (found,) = wrong("openai_responses", changed, tmp_path)
    assert found.startswith("signatures (('gAAAAABmockmockmock1', 'rs_2'),), expected ")


@each_dialect
def test_changed_history_is_found(dialect: str, tmp_path: Path) -> None:
    before = FakeRequest("POST", "/", dialect, {}, last_request(dialect, tmp_path))
    assert changed_histories([before, before]) == []
    text = json.dumps(before.body).replace("Read.", "Write.")
    after = FakeRequest("POST", "/", dialect, {}, json.loads(text))
    assert changed_histories([before, after]) == ["request 2 does not begin with the one before it"]


def test_expectations_are_of_variants_that_exist() -> None:
    for agent in AGENTS.values():
        own = {variant.name for variant in agent.variants}
        assert own.isdisjoint(VARIANTS), agent.name
        for variant in (*VARIANTS.values(), *agent.variants):
            for upstream in agent.upstreams:
                assert agent.expect(variant.name, upstream).why


def test_tasks_are_judged_with_the_same_arguments() -> None:
    for agent in AGENTS.values():
        for variant in agent.variants:
            for method in ("turn", "wrong"):
                own = inspect.signature(getattr(type(variant.task), method))
                assert own == inspect.signature(getattr(Task, method)), (agent.name, variant.name)


@pytest.mark.outside
@pytest.mark.slow
@pytest.mark.skipif(bool(installs.missing()), reason=installs.missing())
def test_agents_complete_the_task() -> None:
    command = [sys.executable, str(Path(__file__).parent / "run.py"), "claude-code", "codex"]
    root = str(Path(__file__).parents[2])
    variants = ("plain", "built_in_ten_turns", "built_in_cut_socket")  # the first of both agents
    done = subprocess.run(
        [*command, "--upstream", "openai_chat", *(f"--variant={name}" for name in variants)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    # One agent may be installed alone.
    answered = re.findall(r"^(\S+) .*  answered in ", done.stdout, re.MULTILINE)
    assert answered.count("claude-code") in (0, 1), done.stdout
    assert answered.count("codex") in (0, len(variants)), done.stdout
    assert answered, done.stdout
