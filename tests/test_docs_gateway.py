"""The pages of the gateway: their sessions run as they stand, their files are what they say."""

from __future__ import annotations

import json
import logging.config
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support.cli.servers import provider

from streamnorm.gateway import Gateway, read_config
from streamnorm.gateway.config import Config
from streamnorm.gateway.metrics import METRICS
from streamnorm.testing import FakeProvider, tool_call

ROOT = Path(__file__).parent.parent
_MAX_S = 600  # of a command, on a machine that does other work
DOCS = ROOT / "docs"
PAGE = (DOCS / "gateway.md").read_text("utf-8")
DEPLOY = (DOCS / "gateway" / "deploy.md").read_text("utf-8")
SIDES = ("read", "send")
ENV = {
    **os.environ,
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    "PYTHONPATH": str(ROOT),
}


_LOG_S = 120


def section(title: str, page: str = PAGE) -> str:
    """Return the text of a section of a page."""
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(text: str, language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n((?s:.*?))^```$", text, re.MULTILINE)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def process(line: str, wait_for: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command until the context ends, and wait until it has printed that line."""
    with subprocess.Popen(
        ["sh", "-c", f"exec {line}"],
        cwd=ROOT,
        env=ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stderr is not None
            while wait_for not in (said := running.stderr.readline()):
                assert said, line
            yield running
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(30)


def masked(line: str) -> str:
    """Return a line of the log without what differs each time."""
    return re.sub(r"(?<=_s=)[\d.]+|^[-\d]+ [:,\d]+", "…", line.strip())


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a section, in order, with the output that it shows."""
    for block in blocks(text, "console"):
        for shown in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = shown.partition("\n")
            yield line, output


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks with curl")
@pytest.mark.parametrize("title", ["Run the gateway", "A truth check in front of your own vLLM"])
def test_session_is_as_the_page_shows_it(title: str) -> None:
    text = section(title)
    ports = {":9000": f":{free_port()}", ":8080": f":{free_port()}"}
    with ExitStack() as servers:
        log: Any = None
        for line, output in commands(text):
            for shown, port in ports.items():
                line = line.replace(shown, port)
                line = line.replace(f"--port {shown[1:]}", f"--port {port[1:]}")
            if line.startswith("streamnorm "):
                server = servers.enter_context(process(line, "AWS_ENDPOINT_URL"))
                log = server.stdout
                continue
            done = subprocess.run(
                ["sh", "-c", line], env=ENV, capture_output=True, text=True, timeout=_MAX_S
            )
            assert done.stdout == output
        (shown_log,) = blocks(text, "text")
        for shown in shown_log.splitlines():
            assert select.select([log], [], [], _LOG_S)[0], "no line in the log"
            assert masked(log.readline()) == masked(shown)


def test_defaults_are_written_as_people_write_numbers() -> None:
    page = (DOCS / "gateway" / "configuration.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE))
    assert rows["state_ttl_s"] == "2,592,000"
    assert (rows["keepalive_s"], rows["max_streams"]) == ("15", "1,000")


KEYS = {
    "ADMIN_KEYS": "admin-0123456789abcdef",
    "ANTHROPIC_API_KEY": "sk-ant-0123456789",
    "AWS_BEARER_TOKEN_BEDROCK": "bedrock-0123456789",
    "CLIENT_KEYS": "k-alice,k-bob",
    "OPENAI_API_KEY": "sk-0123456789",
    "VLLM_API_KEY": "k-0123456789",
}


def test_configurations_of_the_pages_start(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    started = 0
    for page in (*sorted(DOCS.glob("gateway/*.md")), DOCS / "security.md", DOCS / "dashboard.md"):
        for text in blocks(page.read_text("utf-8"), "toml"):
            # The second file of the dashboard is an excerpt.
            path.write_text(text if "[upstreams." in text else f"{text}\n{UPSTREAM}\n{LOG}")
            assert Gateway(read_config(path), environ=KEYS)
            started += 1
    assert started >= 13


UPSTREAM = """[upstreams.openai_chat]
dialect = "openai_chat"
base_url = "http://127.0.0.1:8000/v1"
"""
LOG = '[log]\nurl = "memory:"\n'
PAGES_WITH_A_SESSION = sorted(
    page.name
    for page in DOCS.glob("gateway/*.md")
    if "curl -s" in "".join(blocks(page.read_text("utf-8"), "console"))
)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the pages ask with curl")
@pytest.mark.parametrize("name", PAGES_WITH_A_SESSION)
def test_requests_of_a_page_are_answered_as_it_shows(name: str, tmp_path: Path) -> None:
    """In one process, with a scripted answer in place of the recorded one at port 9000."""
    page = (DOCS / "gateway" / name).read_text("utf-8")
    path = tmp_path / "gateway.toml"
    scripted = FakeProvider(lambda request: [tool_call("get_weather", city="Lagos")])
    with provider(scripted.app()) as upstream:
        first = next((text for text in blocks(page, "toml") if ":9000" in text), UPSTREAM)
        for shown in ("http://127.0.0.1:9000", "http://127.0.0.1:8000"):
            first = first.replace(shown, upstream)
        path.write_text(first.replace(":9001", f":{free_port()}"))
        app = Gateway(read_config(path), environ=KEYS)
        with provider(app, has_lifespan=True) as gateway:
            asked = [one for one in commands(page) if "curl" in one[0]]
            for line, output in asked:
                done = subprocess.run(
                    ["sh", "-c", line.replace("http://127.0.0.1:8080", gateway)],
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    timeout=_MAX_S,
                )
                assert done.stdout == output
    assert asked


def test_fake_provider_of_the_page_answers_on_its_port() -> None:
    ((line, _),) = commands((DOCS / "pytest.md").read_text("utf-8"))
    port = free_port()
    asked = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}]}
    with (
        process(line.replace("port=8000", f"port={port}"), "running on"),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        for _ in range(2):
            answered = client.post("/v1/chat/completions", json=asked)
            assert answered.json()["choices"][0]["message"]["content"] == "It snows."


def test_configuration_of_logging_is_valid() -> None:
    (text,) = blocks(DEPLOY, "json")
    log = logging.getLogger("streamnorm")
    level = log.level
    try:
        logging.config.dictConfig(json.loads(text))
        (handler,) = log.handlers
        record = logging.LogRecord("a", logging.INFO, "f", 1, "said", (), None)
        assert json.loads(handler.format(record))["message"] == "said"
    finally:
        log.handlers.clear()
        log.setLevel(level)


def test_deployment_gives_the_gateway_its_time() -> None:
    text, *_ = blocks(DEPLOY, "yaml")
    pod = yaml.safe_load(text)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    grace: float = next(
        float(str(field))
        for name, field in zip(
            Config.__struct_fields__[1:], Config.__struct_defaults__, strict=True
        )
        if name == "drain_grace_s"
    )
    assert pod["terminationGracePeriodSeconds"] > grace + 5
    # hypercorn's own grace is 3 s, and then it cuts what runs without an event.
    (seconds,) = re.findall(r"hypercorn .* --graceful-timeout (\d+)", DEPLOY)
    assert int(seconds) >= grace + 5
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz"
    port = container["ports"][0]["containerPort"]
    arguments = container["args"]
    assert arguments[:2] == ["streamnorm", "serve"]
    assert arguments[arguments.index("--port") + 1] == str(port)


def test_proxies_and_the_autoscaler_of_the_page_suit_the_gateway() -> None:
    _, nginx_ingress, alb, autoscaler = (yaml.safe_load(text) for text in blocks(DEPLOY, "yaml"))
    (nginx,) = blocks(DEPLOY, "nginx")
    config = Config(upstreams={})
    waits = [nginx_ingress[f"nginx.ingress.kubernetes.io/proxy-{name}-timeout"] for name in SIDES]
    waits += re.findall(r"proxy_(?:read|send)_timeout (\d+)s;", nginx)
    assert len(waits) == 4
    assert all(int(wait) > config.first_byte_s for wait in waits)
    size = f"{config.max_body_bytes >> 20}m"
    assert nginx_ingress["nginx.ingress.kubernetes.io/proxy-body-size"] == size
    assert f"client_max_body_size {size};" in nginx
    # Else nginx asks no gateway for 10 s where both were restarted within that time.
    servers = re.findall(r"^    server \d.*;$", nginx, re.MULTILINE)
    assert len(servers) == 2
    assert all(server.endswith(" max_fails=0;") for server in servers)
    assert all("timeout_seconds=60" in value or "least_outst" in value for value in alb.values())
    (metric,) = autoscaler["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] in METRICS
    assert int(metric["pods"]["target"]["averageValue"]) < config.max_streams


@pytest.mark.slow
def test_workers_start_with_the_command_of_the_page(tmp_path: Path) -> None:
    line, *_ = (line for line, _ in commands(section("Several workers", DEPLOY)))
    config, *_ = blocks((DOCS / "gateway" / "routing.md").read_text("utf-8"), "toml")
    (tmp_path / "gateway.toml").write_text(config)
    (tmp_path / "log.json").write_text(blocks(DEPLOY, "json")[0])
    (tmp_path / "metrics").mkdir()
    port = free_port()
    line = line.replace("STREAMNORM_CONFIG=gateway.toml ", "").replace("8080", str(port))
    settings = {
        "STREAMNORM_CONFIG": tmp_path / "gateway.toml",
        "ANTHROPIC_API_KEY": "sk-ant-0123456789",
        "PROMETHEUS_MULTIPROC_DIR": tmp_path / "metrics",
    }
    shell = " ".join(f"{name}={value}" for name, value in settings.items())
    with (
        process(f"env {shell} {line}", "Application startup complete"),
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            # uvicorn says that it has started before it listens.
            transport=httpx.HTTPTransport(retries=6),
            timeout=30,
        ) as client,
    ):
        assert client.get("/healthz").status_code == 200
        for _ in range(8):
            assert client.post("/v1/messages", json={}).status_code == 400
        # A worker counts a request once its answer was sent.
        for _ in range(50):
            line = counted_requests(client)
            if line.endswith(" 8.0"):
                break
            time.sleep(0.02)
    assert 'outcome="refused"' in line
    assert line.endswith(" 8.0")


def counted_requests(client: httpx.Client) -> str:
    """Return the line of the metrics that counts the requests."""
    lines = client.get("/metrics").text.splitlines()
    (line,) = (one for one in lines if one.startswith("streamnorm_requests_total"))
    return line
