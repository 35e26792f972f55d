"""Every code block of the README runs, and its loss table is the code's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamnorm._core.losses import Capabilities
from streamnorm._registry import DIALECTS, capabilities

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


SCRIPTS = [code for code in blocks("python") if "def test_" not in code]
TESTS = [code for code in blocks("python") if "def test_" in code]


@pytest.mark.parametrize("code", SCRIPTS, ids=lambda code: code[:40].strip())
def test_python_example_runs(code: str) -> None:
    done = run(sys.executable, "-W", "error", "-c", code)
    assert done.stderr == ""
    assert done.stdout != ""


@pytest.mark.parametrize("code", TESTS, ids=lambda code: code[:40].strip())
def test_example_tests_pass(code: str, tmp_path: Path) -> None:
    """A body alone is a recording, and answers every request."""
    (tmp_path / "test_agent.py").write_text(code, encoding="utf-8")
    (tmp_path / "recordings").mkdir()
    body = ROOT / "recordings/openai_chat/openai/one-tool.sse"
    (tmp_path / "recordings" / "weather.sse").write_bytes(body.read_bytes())
    done = run(sys.executable, "-W", "error", "-m", "pytest", "-q", str(tmp_path))
    assert f"{code.count('def test_')} passed" in done.stdout


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


def test_inspect_output_equals_the_readme() -> None:
    [command] = [line for line in CONSOLE if line.startswith("streamnorm inspect")]
    done = run("sh", "-c", command)
    assert (done.returncode, done.stderr) == (0, "")
    assert [done.stdout] == blocks("text")


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
    "boundaries": "where a block of text ends and the next begins",
    "overlapping": "blocks that may overlap",
    "blank_text": "text blocks of white space alone",
    "refusal": "a refusal that is not text",
    "reasoning": "reasoning",
    "reasoning_parts": "numbered summaries of reasoning",
    "redacted_reasoning": "reasoning that only its issuer can read",
    "signed": "signatures of",
    "custom_tools": "tool calls with free text",
    "null_arguments": "tool arguments that are `null`",
    "broken_arguments": "tool arguments that are no JSON object",
    "server_tools": "calls that the provider executed, and results: kinds that end in",
    "media": "images, documents, and blocks of its own",
    "citations": "citations of the kinds",
    "url_citation": "other sources with an address, as",
    "cited_text": "the words of such a source",
    "not_round_tripped": "of its own data it loses",
    "stop_reasons": "stop reasons",
    "native_stop_reasons": "stops that are none of these, by its own words",
    "unnamed_stop_sequence": "a stop by a sequence that is not told",
    "service_tiers": "tiers of service",
    "usage": "counts of tokens are written",
    "cache_write": "tokens written to a cache",
    "excess_reasoning": "more tokens of reasoning than of output",
}

COLUMNS = {
    "`anthropic`": capabilities("anthropic"),
    "`openai_chat`": capabilities("openai_chat"),
    "`openai_chat`, `reasoning_details`": capabilities(
        "openai_chat", reasoning="reasoning_details"
    ),
    "`openai_responses`": capabilities("openai_responses"),
    "`gemini`": capabilities("gemini"),
}


def loss_table() -> str:
    lines = [f"| | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for field, words in FEATURES.items():
        cells = [cell(field, getattr(column, field)) for column in COLUMNS.values()]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(field: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "loss"
        case None:
            return "loss"
        case str():
            return f"`{value}`" if field == "url_citation" else f"if {value}".replace("if a", "a")
        case dict():
            names = sorted(set(value.values()))
        case tuple() | frozenset():
            names = sorted(item if isinstance(item, str) else item.__name__ for item in value)
        case _:
            raise AssertionError(field)
    none = {"overlapping": "none", "not_round_tripped": "nothing"}.get(field, "loss")
    return ", ".join(f"`{name}`" for name in names) or none


def test_every_encodable_dialect_has_a_column() -> None:
    assert {column.dialect for column in COLUMNS.values()} == {
        name for name, dialect in DIALECTS.items() if dialect.encoder is not None
    }


def test_loss_table_names_every_capability() -> None:
    # These lose nothing: they change how something is written, or which options matter.
    forms = {"dialect", "redacted_as_signature_of"}
    assert set(FEATURES) == set(Capabilities.__struct_fields__) - forms


def test_loss_table_is_rendered_from_the_code() -> None:
    assert loss_table() in README, f"the README's loss table should be:\n\n{loss_table()}"
