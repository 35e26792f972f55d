"""Every code block of the README runs, and its loss table is the code's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamnorm.losses import CAPABILITIES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def run(*command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run in the root of the project, its own programs first on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        input=text,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code[:40].strip())
def test_python_example_runs(code: str) -> None:
    done = run(sys.executable, "-W", "error", "-c", code)
    assert done.stderr == ""
    assert done.stdout != ""


def test_first_example_is_short() -> None:
    assert len(blocks("python")[0].splitlines()) <= 18


CONSOLE = [
    line.removeprefix("$ ")
    for block in blocks("console")
    for line in block.splitlines()
    if line.startswith("$ ")
]


@pytest.mark.parametrize("line", CONSOLE)
def test_console_example_runs(line: str) -> None:
    done = run("sh", "-c", line)
    assert done.returncode == (3 if "cut" in line else 0)
    assert done.stdout != ""


def test_shell_blocks_are_the_two_commands() -> None:
    """Installing needs a network, so here only what follows it runs; `.ci/run` runs all."""
    main_job, tests = blocks("sh")
    assert [line.split()[0] for line in main_job.splitlines()] == [
        "python3",
        ".venv/bin/pip",
        ".venv/bin/streamnorm",
    ]
    done = run("sh", "-c", main_job.splitlines()[-1].removeprefix(".venv/bin/"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert tests.splitlines()[-1] == ".venv/bin/python -m pytest"


# In the words of somebody who chooses a target.
FEATURES = {
    "choices": "several answers (`n > 1`)",
    "refusal": "a refusal that is not text",
    "reasoning_parts": "numbered summaries of reasoning",
    "blank_text": "text blocks of white space alone",
    "custom_tools": "tool calls with free text",
    "citations": "citations of other vendors",
    "signed": "signatures of",
    "null_arguments": "tool arguments that are `null`",
    "server_tools": "calls that the provider executed",
    "stop_reasons": "stop reasons",
}


def loss_table() -> str:
    names = sorted(CAPABILITIES)
    lines = [f"| | {' | '.join(f'`{name}`' for name in names)} |", "|---" * (len(names) + 1) + "|"]
    for field, words in FEATURES.items():
        cells = [cell(getattr(CAPABILITIES[name], field)) for name in names]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(value: bool | tuple[type, ...] | frozenset[str]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "loss"
    if isinstance(value, tuple):
        return ", ".join(f"`{kind.__name__}`" for kind in value)
    return ", ".join(f"`{reason}`" for reason in sorted(value))


def test_loss_table_names_every_capability() -> None:
    fields = set(CAPABILITIES["anthropic"].__struct_fields__) - {"dialect"}
    assert set(FEATURES) == fields


def test_loss_table_is_rendered_from_the_code() -> None:
    assert loss_table() in README, f"the README's loss table should be:\n\n{loss_table()}"
