"""What `streamnorm run` gives to each agent: options, and variables of its environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamnorm.cli.agents import launch
from streamnorm.cli.console import UsageError
from streamnorm.gateway import Config, ModelConfig, UpstreamConfig

URL = "http://127.0.0.1:8080"
KEY = "key-of-the-gateway"
USER = {
    "PATH": "/bin",
    "ANTHROPIC_API_KEY": "sk-mine",
    "ANTHROPIC_AUTH_TOKEN": "sk-mine",
    "OPENAI_API_KEY": "sk-mine",
    "GOOGLE_API_KEY": "sk-mine",
    "GEMINI_API_KEY": "sk-mine",
    "CLAUDE_CODE_USE_VERTEX": "1",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
}
UPSTREAM = {"local": UpstreamConfig(dialect="openai_chat", base_url="http://127.0.0.1:9")}
CONFIG = Config(upstreams=UPSTREAM)


def changes(launched: dict[str, str], user: dict[str, str]) -> dict[str, str | None]:
    """Return the variables that are not those of the user; None for one that is gone."""
    names = {*launched, *user}
    return {name: launched.get(name) for name in names if launched.get(name) != user.get(name)}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home, which is the working directory, too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Claude Code


def test_claude_code_gets_settings_that_win_and_no_key_in_its_arguments() -> None:
    command, environ = launch(["/opt/claude", "-p", "Hi"], USER, URL, KEY, CONFIG)
    assert [command[0], command[1], *command[3:]] == ["/opt/claude", "--settings", "-p", "Hi"]
    settings = json.loads(command[2])
    assert settings["apiKeyHelper"] == "printenv STREAMNORM_KEY"
    variables = settings["env"]
    assert variables.pop("ANTHROPIC_BASE_URL") == URL
    assert {*variables.values()} == {""}
    assert {"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"} <= {*variables}
    assert KEY not in " ".join(command)
    assert changes(environ, USER) == {
        "ANTHROPIC_BASE_URL": URL,
        "STREAMNORM_KEY": KEY,
        "ANTHROPIC_API_KEY": None,
        "ANTHROPIC_AUTH_TOKEN": None,
        "CLAUDE_CODE_USE_VERTEX": None,
    }


def test_claude_code_keeps_its_own_key() -> None:
    command, environ = launch(["claude"], USER, URL, None, CONFIG)
    settings = json.loads(command[2])
    assert "apiKeyHelper" not in settings
    assert "ANTHROPIC_API_KEY" not in settings["env"]
    assert changes(environ, USER) == {"ANTHROPIC_BASE_URL": URL, "CLAUDE_CODE_USE_VERTEX": None}


# Codex


def test_codex_gets_a_provider_before_the_options_of_the_user() -> None:
    command, environ = launch(["codex", "exec", "Hi"], USER, URL, KEY, CONFIG)
    assert command == [
        "codex",
        "-c",
        'model_provider="streamnorm"',
        "-c",
        'model_providers.streamnorm={name="streamnorm",base_url="http://127.0.0.1:8080/v1",'
        'wire_api="responses",env_key="STREAMNORM_KEY"}',
        "exec",
        "Hi",
    ]
    assert changes(environ, USER) == {"STREAMNORM_KEY": KEY}


def test_codex_keeps_its_own_login() -> None:
    command, environ = launch(["codex"], USER, URL, None, CONFIG)
    assert "requires_openai_auth=true" in command[4]
    assert "env_key" not in command[4]
    assert changes(environ, USER) == {}


# Gemini CLI


def test_gemini_cli_gets_its_variables() -> None:
    command, environ = launch(["gemini", "-p", "Hi"], USER, URL, KEY, CONFIG)
    assert command == ["gemini", "-p", "Hi"]
    assert changes(environ, USER) == {
        "GOOGLE_GEMINI_BASE_URL": URL,
        "GEMINI_API_KEY": KEY,
        "GOOGLE_API_KEY": None,
        "GOOGLE_GENAI_USE_VERTEXAI": None,
    }


def write_settings(folder: Path, auth_type: str) -> None:
    (folder / ".gemini").mkdir(parents=True)
    text = '// Mine.\n{"security": {"auth": {"selectedType": "%s"}}}'
    (folder / ".gemini" / "settings.json").write_text(text % auth_type)


def test_gemini_cli_with_a_login_of_google_is_refused(home: Path) -> None:
    write_settings(home, "oauth-personal")
    with pytest.raises(UsageError, match="'oauth-personal', expected 'gemini-api-key'"):
        launch(["gemini"], USER, URL, KEY, CONFIG)


def test_settings_of_a_project_win_over_those_of_the_user(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(home, "oauth-personal")
    write_settings(home / "project", "gemini-api-key")
    monkeypatch.chdir(home / "project")
    launch(["gemini"], USER, URL, KEY, CONFIG)


# opencode


def opencode_config(*arguments: str, config: Config = CONFIG) -> dict[str, object]:
    command, environ = launch(["opencode", *arguments], USER, URL, KEY, config)
    assert command == ["opencode", *arguments]
    content: dict[str, object] = json.loads(environ.pop("OPENCODE_CONFIG_CONTENT"))
    assert changes(environ, USER) == {"STREAMNORM_KEY": KEY}
    return content


def test_opencode_gets_one_provider_with_the_model_that_its_option_names() -> None:
    assert opencode_config("run", "-m", "streamnorm/org/qwen3", "Hi") == {
        "enabled_providers": ["streamnorm"],
        "provider": {
            "streamnorm": {
                "npm": "@ai-sdk/anthropic",
                "name": "streamnorm",
                "options": {
                    "baseURL": "http://127.0.0.1:8080/v1",
                    "apiKey": "{env:STREAMNORM_KEY}",
                },
                "models": {"org/qwen3": {"name": "org/qwen3"}},
            }
        },
        "model": "streamnorm/org/qwen3",
        "small_model": "streamnorm/org/qwen3",
    }


def test_opencode_gets_the_models_of_the_configuration() -> None:
    models = [
        ModelConfig(match="coder", alias="claude-coder", to=["local/qwen3-coder"]),
        ModelConfig(match="gpt-*", to=["local/gpt-5.5", "local/qwen3"]),
        ModelConfig(match="*", to=[["local/qwen3-32b", "local"]]),
    ]
    content = opencode_config(config=Config(upstreams=UPSTREAM, models=models))
    assert content["model"] == "streamnorm/coder"
    provider = content["provider"]
    assert isinstance(provider, dict)
    listed = ["coder", "claude-coder", "gpt-5.5", "qwen3-32b"]
    assert [*provider["streamnorm"]["models"]] == listed


def test_opencode_without_a_model_is_refused() -> None:
    with pytest.raises(UsageError, match="opencode: no model, expected -m streamnorm/NAME"):
        launch(["opencode"], USER, URL, KEY, CONFIG)


# Proxies


@pytest.mark.parametrize(
    ("listed", "exceptions"),
    [({}, "127.0.0.1"), ({"NO_PROXY": "localhost,.lan"}, "localhost,.lan,127.0.0.1")],
)
def test_no_proxy_is_asked_for_the_gateway(listed: dict[str, str], exceptions: str) -> None:
    user = {"https_proxy": "http://proxy:3128", **listed}
    _, environ = launch(["codex"], user, URL, KEY, CONFIG)
    assert environ["NO_PROXY"] == environ["no_proxy"] == exceptions


def test_exceptions_of_no_proxy_are_left_out() -> None:
    _, environ = launch(["codex"], {"PATH": "/bin"}, URL, KEY, CONFIG)
    assert environ == {"PATH": "/bin", "STREAMNORM_KEY": KEY}
