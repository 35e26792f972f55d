"""The configuration of a gateway: what it says, and what is wrong with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from streamnorm.gateway import (
    Config,
    ConfigError,
    Gateway,
    ModelConfig,
    UpstreamConfig,
    read_config,
)

UPSTREAM = '[upstreams.local]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:8000/v1"\n'
LOCAL = UpstreamConfig(dialect="openai_chat", base_url="http://127.0.0.1:8000/v1")
CANARY = "sk-canary-7f3a"


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Write a configuration, and return its path."""

    def write(text: str | bytes) -> Path:
        path = tmp_path / "gateway.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def problem(path: Path, environ: dict[str, str] | None = None) -> str:
    """Return what is wrong with a configuration: one line, without the name of the file."""
    with pytest.raises(ConfigError) as raised:
        Gateway(read_config(path), environ=environ or {})
    text = str(raised.value)
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_configuration_is_read(written: Any) -> None:
    path = written(
        f"""
        keepalive_s = 5
        commit_after_s = 0
        client_keys = "env:KEYS"
        {UPSTREAM}
        server = "vllm"
        [upstreams.claude]
        dialect = "claude"
        base_url = "https://api.anthropic.com"
        key = "env:ANTHROPIC_API_KEY"
        normalize = true
        [[models]]
        match = "claude-*"
        to = ["claude", "local/qwen3-32b"]
        max_tokens = 4096
        reasoning = "reasoning"
        simplify_schemas = true
        serial_tool_calls = true
        missing_tools = "drop"
        """
    )
    config = read_config(path)
    assert config == Config(
        keepalive_s=5.0,
        commit_after_s=0.0,
        client_keys="env:KEYS",
        upstreams={
            "local": structs.replace(LOCAL, server="vllm"),
            "claude": UpstreamConfig(
                dialect="claude",
                base_url="https://api.anthropic.com",
                key="env:ANTHROPIC_API_KEY",
                normalize=True,
            ),
        },
        models=[
            ModelConfig(
                match="claude-*",
                to=["claude", "local/qwen3-32b"],
                max_tokens=4096,
                reasoning="reasoning",
                simplify_schemas=True,
                serial_tool_calls=True,
                missing_tools="drop",
            )
        ],
    )
    Gateway(config, environ={"KEYS": "a", "ANTHROPIC_API_KEY": CANARY})


@pytest.mark.parametrize(
    ("text", "problem_found"),
    [
        # keys and types
        ("", "object missing required field `upstreams`"),
        ("upstreams = {}", "upstreams: expected `object` of length >= 1"),
        ("upstreams = 5", "upstreams: expected `object`, got `int`"),
        (f"bind = 5\n{UPSTREAM}", "object contains unknown field `bind`"),
        (
            f"keep_alive_s = 5\n{UPSTREAM}",
            "object contains unknown field `keep_alive_s`; did you mean keepalive_s?",
        ),
        (
            f"{UPSTREAM}url = 5",
            "upstreams.local: object contains unknown field `url`; expected one of dialect, ",
        ),
        (
            f"{UPSTREAM}[[models]]\nname = '*'",
            "models[0]: object contains unknown field `name`; expected one of match, to, ",
        ),
        (
            f"{UPSTREAM}baseurl = 5",
            "upstreams.local: object contains unknown field `baseurl`; did you mean base_url?",
        ),
        (
            f"{UPSTREAM}[[models]]\nmatch = '*'\nto = ['local']\nmax_token = 5",
            "models[0]: object contains unknown field `max_token`; did you mean max_tokens?",
        ),
        # In TOML a key belongs to the table above it, whatever line is empty between them.
        (
            f'{UPSTREAM}\nclient_keys = "env:KEYS"',
            "upstreams.local: object contains unknown field `client_keys`; "
            "a key of the top, expected above the first table",
        ),
        (
            f"{UPSTREAM}[[models]]\nmatch = '*'\nto = ['local']\n\nretries = 2",
            "models[0]: object contains unknown field `retries`; "
            "a key of the top, expected above the first table",
        ),
        (
            f"{UPSTREAM}[log]\nurl = 'memory:'\nstate = 'memory:'",
            "log: object contains unknown field `state`; "
            "a key of the top, expected above the first table",
        ),
        (f"{UPSTREAM}normalize = 5", "upstreams.local.normalize: expected `bool`, got `int`"),
        (
            '[upstreams.local]\ndialect = "openai_chat"',
            "upstreams.local: object missing required field `base_url`",
        ),
        (f'keepalive_s = "5"\n{UPSTREAM}', "keepalive_s: expected `float`, got `str`"),
        (f"keepalive_s = true\n{UPSTREAM}", "keepalive_s: expected `float`, got `bool`"),
        (f"max_streams = 1.5\n{UPSTREAM}", "max_streams: expected `int`, got `float`"),
        (
            f'on_disconnect = "stop"\n{UPSTREAM}',
            "on_disconnect: invalid enum value 'stop'; expected one of cancel, drain",
        ),
        (
            f'{UPSTREAM}transport = "ws"',
            "upstreams.local.transport: invalid enum value 'ws'; expected one of http, websocket",
        ),
        (
            f'{UPSTREAM}framing = "events"',
            "upstreams.local.framing: invalid enum value 'events'; expected one of sse, ",
        ),
        (
            f"{UPSTREAM}[[models]]\nmatch = '*'\nto = ['local']\nbalance = 'random'",
            "models[0].balance: invalid enum value 'random'; expected one of conversation, ",
        ),
        (
            f"{UPSTREAM}[pages.ag_ui]\nmodel = 'm'\ntools = ['search']",
            "pages.ag_ui.tools[0]: invalid enum value 'search'; expected one of web_search, ",
        ),
        (
            f"{UPSTREAM}[log]\nurl = 'memory:'\nmode = 'try'",
            "log.mode: invalid enum value 'try'; expected one of require, best_effort",
        ),
        (f"models = 5\n{UPSTREAM}", "models: expected `array`, got `int`"),
        # bounds
        *[
            (f"{name} = {value}\n{UPSTREAM}", f"{name}: expected `float` > 0.0")
            for name in ("keepalive_s", "first_byte_s", "idle_s", "progress_s", "finish_grace_s")
            for value in ("0", "-1", "nan")
        ],
        (f"idle_s = inf\n{UPSTREAM}", "idle_s: expected `float` <= 1000000000.0"),
        (f"commit_after_s = -1\n{UPSTREAM}", "commit_after_s: expected `float` >= 0.0"),
        (f"commit_after_s = nan\n{UPSTREAM}", "commit_after_s: expected `float` >= 0.0"),
        (f"drain_grace_s = -1\n{UPSTREAM}", "drain_grace_s: expected `float` >= 0.0"),
        (f"retries = -1\n{UPSTREAM}", "retries: expected `int` >= 0"),
        (f"max_streams = 0\n{UPSTREAM}", "max_streams: expected `int` >= 1"),
        (f"max_body_bytes = 0\n{UPSTREAM}", "max_body_bytes: expected `int` >= 1"),
        (f"max_event_bytes = -1\n{UPSTREAM}", "max_event_bytes: expected `int` >= 1"),
        # models
        (f"{UPSTREAM}[[models]]\nto = ['local']", "models[0]: object missing required field "),
        (f"{UPSTREAM}[[models]]\nmatch = ''\nto = ['local']", "models[0].match: expected `str` of"),
        (f"{UPSTREAM}[[models]]\nmatch = '*'\nto = []", "models[0].to: expected `array` of length"),
        (f"{UPSTREAM}[[models]]\nmatch = '*'\nto = 'local'", "models[0].to: expected `array`, got"),
        (
            f"{UPSTREAM}[[models]]\nmatch = '*'\nto = ['local']\nmax_tokens = 0",
            "models[0].max_tokens: expected `int` >= 1",
        ),
        (
            f"{UPSTREAM}[[models]]\nmatch = '*'\nto = ['local', 'other/m']",
            "models[0].to[1]: upstream 'other', expected one of local",
        ),
        (
            f"{UPSTREAM}[[models]]\nmatch = '*'\nto = ['locl/m']",
            "models[0].to[0]: upstream 'locl', expected one of local; did you mean local?",
        ),
        (
            f"{UPSTREAM}[[models]]\nmatch = '*'\nto = ['local/']",
            "models[0].to[0]: no model after the slash, expected one",
        ),
        (
            f"{UPSTREAM}[[models]]\nmatch = '*'\nto = ['local']\nalias = '*'",
            "models[0].alias: '*', expected a name, with one * at most",
        ),
        (
            f"{UPSTREAM}[[models]]\nmatch = '*'\nto = ['local']\nalias = ''",
            "models[0].alias: expected `str` of length >= 1",
        ),
        # upstreams
        (UPSTREAM.replace("local", '"a/b"'), "upstreams.a/b: a name with a slash, expected none"),
        (UPSTREAM.replace("local", '""'), "upstreams: expected `str` of length >= 1"),
        (
            UPSTREAM.replace("local", '"a\\nb"') + "x = 1",
            r"upstreams.a\nb: object contains unknown",
        ),
        (f'"x\\ny" = 1\n{UPSTREAM}', r"object contains unknown field `x\ny`"),
        (UPSTREAM.replace("openai_chat", "cohere"), "upstreams.local.dialect: "),
        (
            UPSTREAM.replace("http://", "ftp://"),
            "upstreams.local.base_url is no http or https URL, expected one",
        ),
        (UPSTREAM.replace("/v1", "/v1?key=k"), "upstreams.local.base_url has a query or "),
        (
            UPSTREAM.replace("127", f"user:{CANARY}@127"),
            "upstreams.local.base_url has a user or a password, expected the key as a header",
        ),
        (
            UPSTREAM.replace("http://127.0.0.1:8000", f"http://{CANARY} x"),
            "upstreams.local.base_url has a character that no URL has, expected a URL",
        ),
        (
            f'{UPSTREAM}server = "vlm"',
            "upstreams.local.server: 'vlm', expected one of anthropic, azure, bedrock, ",
        ),
        (
            f'{UPSTREAM}key = "k"',
            "upstreams.local.key: no place of a key, expected client, aws, or env: and the",
        ),
        # no TOML
        ("upstreams = ", "Invalid value (at end of document)"),
        (b"\xff", "byte 0 is not UTF-8, expected TOML"),
    ],
)
def test_wrong_configuration_names_the_key(written: Any, text: str, problem_found: str) -> None:
    found = problem(written(text))
    assert found.startswith(problem_found)
    assert CANARY not in found


@pytest.mark.parametrize(
    ("text", "suggested"),
    [
        (f'{UPSTREAM}server = "vlm"', "vllm"),
        (UPSTREAM.replace("openai_chat", "openai-chat"), "openai_chat"),
    ],
)
def test_nearest_name_ends_the_message(written: Any, text: str, suggested: str) -> None:
    assert problem(written(text)).endswith(f"; did you mean {suggested}?")


@pytest.mark.parametrize(
    ("key", "environ", "problem_found"),
    [
        ("env:NAME", {}, "NAME is not set in the environment, expected a key"),
        ("env:NAME", {"NAME": ""}, "NAME is empty in the environment, expected a key"),
        ("env:NAME", {"NAME": f"{CANARY}é"}, "a key of 15 characters, expected 1 to 512"),
        ("env:NAME", {"NAME": "k" * 513}, "a key of 513 characters, expected 1 to 512"),
        *[
            (place, {CANARY: "k", "": "k"}, "no place of a key, expected ")
            for place in (CANARY, f"env:{CANARY}", "env:", "", "file:/key", "CLIENT")
        ],
    ],
)
@pytest.mark.parametrize("where", ["upstreams.local.key", "client_keys"])
def test_missing_key_names_its_place_and_is_not_shown(
    written: Any, where: str, key: str, environ: dict[str, str], problem_found: str
) -> None:
    in_upstream = where != "client_keys"
    text = f'{UPSTREAM}key = "{key}"' if in_upstream else f'client_keys = "{key}"\n{UPSTREAM}'
    found = problem(written(text), environ)
    assert found.startswith(f"{where}: {problem_found}")
    assert CANARY not in found


@pytest.mark.parametrize("key", [f"{CANARY}\n", f" {CANARY}", f"{CANARY} x", f"{CANARY}\0"])
def test_key_that_no_header_can_hold_is_refused(written: Any, key: str) -> None:
    found = problem(written(f'{UPSTREAM}key = "env:NAME"'), {"NAME": key})
    assert found.startswith("upstreams.local.key: a key of 1")
    assert CANARY not in found


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("where", ["upstreams.local.key", "client_keys"])
def test_quoted_key_is_refused(written: Any, where: str, quote: str) -> None:
    """`docker run --env-file` leaves the quotation marks of NAME="..." on the value."""
    if where == "client_keys":
        text, value = f'{where} = "env:NAME"\n{UPSTREAM}', f"{quote}{CANARY},k-2{quote}"
    else:
        text, value = f'{UPSTREAM}key = "env:NAME"', f"{quote}{CANARY}{quote}"
    found = problem(written(text), {"NAME": value})
    assert found.startswith(f"{where}: a key of 1")
    assert found.endswith("characters of ASCII without spaces, in no quotation marks")
    assert CANARY not in found


@pytest.mark.parametrize("listed", [",", "a,,b", "a,", " ,a", f"{CANARY} b,a", "a," + "k" * 513])
def test_list_with_what_is_no_key_is_refused(written: Any, listed: str) -> None:
    path = written(f'client_keys = "env:KEYS"\n{UPSTREAM}')
    found = problem(path, {"KEYS": listed})
    assert found.startswith("client_keys: a key of ")
    assert CANARY not in found


@pytest.mark.parametrize("key", ["env:NAME", "client"])
@pytest.mark.parametrize(
    ("host", "is_private"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.8.9.1", True),
        ("http://[::1]:8000", True),
        ("http://localhost", True),
        ("http://a.localhost.", True),
        ("https://10.0.0.7", True),
        ("http://10.0.0.7", False),
        ("http://api.example", False),
        ("http://localhost.example", False),
        ("http://0.0.0.0", False),
        ("http://2130706433", False),
    ],
)
def test_key_is_not_sent_where_others_can_read_it(key: str, host: str, is_private: bool) -> None:
    upstream = UpstreamConfig(dialect="openai_chat", base_url=host, key=key)
    config = Config(upstreams={"local": upstream})
    if is_private:
        Gateway(config, environ={"NAME": "k"})
        return
    with pytest.raises(ConfigError) as raised:
        Gateway(config, environ={"NAME": "k"})
    assert str(raised.value) == (
        "upstreams.local.base_url: http with a key, which others on the network can read; "
        "expected https, a loopback host, or insecure = true"
    )
    Gateway(Config(upstreams={"local": structs.replace(upstream, key=None)}), environ={})


@pytest.mark.parametrize("key", ["env:NAME", "client"])
def test_key_is_sent_over_http_where_the_upstream_says_so(written: Any, key: str) -> None:
    text = UPSTREAM.replace("127.0.0.1", "vllm.models.svc")
    path = written(f'{text}key = "{key}"\ninsecure = true')
    Gateway(read_config(path), environ={"NAME": "k"})
    refused = written(f'{text}key = "{key}"\ninsecure = false')
    assert problem(refused, {"NAME": "k"}).startswith("upstreams.local.base_url: http with a key")


def test_key_of_the_gateway_is_not_that_of_an_upstream() -> None:
    config = Config(
        upstreams={"local": structs.replace(LOCAL, key="client")}, client_keys="env:KEYS"
    )
    with pytest.raises(ConfigError, match=r"upstreams\.local\.key: the key of the client"):
        Gateway(config, environ={"KEYS": "a"})


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (Config(upstreams={"local": LOCAL}, idle_s=-1), "config: idle_s: expected `float` > 0.0"),
        (Config(upstreams={"local": LOCAL}, idle_s=math.inf), "config: idle_s: expected `float`"),
        (Config(upstreams={}), "config: upstreams: expected `object` of length >= 1"),
        (
            Config(upstreams={"local": structs.replace(LOCAL, base_url=5)}),
            "config: upstreams.local.base_url: expected `str`, got `int`",
        ),
    ],
)
def test_configuration_that_was_not_read_is_checked_too(config: Config, found: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Gateway(config, environ={})
    assert str(raised.value).startswith(found)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.toml: No such file or directory"):
        read_config(tmp_path / "gateway.toml")
    with pytest.raises(ConfigError, match="Is a directory"):
        read_config(str(tmp_path))


def test_byte_order_mark_of_an_editor_is_skipped(tmp_path: Path) -> None:
    """Notepad and PowerShell write one, which nobody sees in the file."""
    path = tmp_path / "gateway.toml"
    url = "http://127.0.0.1:8000"
    path.write_text(
        f'[upstreams.local]\ndialect = "openai_chat"\nbase_url = "{url}"\n', "utf-8-sig"
    )
    assert read_config(path).upstreams["local"].base_url == url


def test_file_that_is_no_utf_8_is_named_with_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_bytes(b'state = "\xff"')
    with pytest.raises(ConfigError, match=r"gateway\.toml: byte 9 is not UTF-8, expected TOML$"):
        read_config(path)
