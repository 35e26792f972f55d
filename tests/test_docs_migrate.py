"""The pages for users of other tools: their commands run, and both configurations say the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from support.cli.servers import provider, running

from streamnorm.cli import main
from streamnorm.testing import FakeProvider, faults

ROOT = Path(__file__).parent.parent
CASSETTE = ROOT / "tests" / "data" / "vcrpy_weather.yaml"
_MAX_S = 600  # of a command, on a machine that does other work
ENV = {
    **os.environ,
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    "PYTHONPATH": str(ROOT),
    "ANTHROPIC_API_KEY": "sk-ant-0123456789",
    "CLIENT_KEYS": "sk-4f1d0c2b9a87e6d5",
}


def page(name: str) -> str:
    return (ROOT / "docs" / "migrate" / f"{name}.md").read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n((?s:.*?))^```$", page(name), re.MULTILINE)
    return found


def commands(name: str) -> list[tuple[str, str]]:
    """Return the commands of a page with the output that it shows."""
    lines = [
        text.partition("\n")
        for block in blocks(name, "console")
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    return [(line, output) for line, _, output in lines]


def run(line: str, cwd: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", line], cwd=cwd, env=ENV, capture_output=True, text=True, timeout=_MAX_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_config(name: str, url: str, folder: Path) -> Path:
    """Write the configuration of a page, with a provider in place of all upstreams."""
    (text,) = blocks(name, "toml")
    for upstream in ("http://127.0.0.1:8000", "https://api.anthropic.com"):
        text = text.replace(upstream, url)
    path = folder / "gateway.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_litellm_configurations_route_alike() -> None:
    theirs = yaml.safe_load(blocks("litellm", "yaml")[0])
    ours = tomllib.loads(blocks("litellm", "toml")[0])
    params = {entry["model_name"]: entry["litellm_params"] for entry in theirs["model_list"]}
    (fallbacks,) = theirs["litellm_settings"]["fallbacks"]
    assert [entry["match"] for entry in ours["models"]] == list(params)
    for entry in ours["models"]:
        asked = [
            params[name]["model"] for name in (entry["match"], *fallbacks.get(entry["match"], ()))
        ]
        assert [to.partition("/")[2] for to in entry["to"]] == [
            one.partition("/")[2] for one in asked
        ]
    assert ours["upstreams"]["local"]["base_url"] == params["qwen3"]["api_base"]
    keys = [params["claude"]["api_key"], theirs["general_settings"]["master_key"]]
    named = [ours["upstreams"]["anthropic"]["key"], ours["client_keys"]]
    assert named == [key.replace("os.environ/", "env:") for key in keys]


@pytest.mark.skipif(sys.platform == "win32", reason="commands for POSIX")
def test_litellm_session_is_as_the_page_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request falls back, and both dialects are answered."""
    for name in ("ANTHROPIC_API_KEY", "CLIENT_KEYS"):
        monkeypatch.setenv(name, ENV[name])
    served, *asked = commands("litellm")
    assert served[0].endswith("streamnorm serve --config gateway.toml --port 4000")
    answers = FakeProvider(lambda request: "It snows.", faults=[faults.http(503, times=1)])
    with provider(answers.app()) as url:
        config = write_config("litellm", url, tmp_path)
        with running("serve", "--config", config) as gateway:
            for line, output in asked:
                assert run(line.replace("http://127.0.0.1:4000", gateway.url), tmp_path) == output


def test_router_configurations_route_alike() -> None:
    theirs = json.loads(blocks("claude-code-router", "json")[0])
    ours = tomllib.loads(blocks("claude-code-router", "toml")[0])
    (known,) = theirs["Providers"]
    assert known["api_base_url"] == ours["upstreams"]["local"]["base_url"] + "/chat/completions"
    targets = {entry["match"]: entry["to"] for entry in ours["models"]}
    for route, match in {"default": "*", "background": "*haiku*"}.items():
        assert targets[match] == [theirs["Router"][route].replace(",", "/")]
    assert [*targets] == ["*haiku*", "*"]


@pytest.mark.skipif(sys.platform == "win32", reason="a command for POSIX")
def test_router_command_asks_the_model_for_the_background(tmp_path: Path) -> None:
    ((line, output),) = commands("claude-code-router")
    with provider(FakeProvider(lambda request: "It snows.").app()) as url:
        write_config("claude-code-router", url, tmp_path)
        assert run(line, tmp_path) == output


def test_vcrpy_tests_pass_before_and_after_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = tmp_path / "tests"
    (tests / "cassettes").mkdir(parents=True)
    (tests / "cassettes" / "weather.yaml").write_bytes(CASSETTE.read_bytes())
    for name, code in zip(("before", "after"), blocks("vcrpy", "python"), strict=True):
        (tests / f"test_{name}.py").write_text(code, encoding="utf-8")
    ((line, output),) = commands("vcrpy")
    program, *arguments = line.split()
    assert program == "streamnorm"
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 0
    assert capsys.readouterr().out == output
    # Other plugins of this environment cost more than the tests.
    monkeypatch.setitem(ENV, "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    command = f"{sys.executable} -m pytest -q -W error -p streamnorm.testing.plugin tests"
    assert "4 passed" in run(command, tmp_path)
