"""The Dockerfile of the gateway says what the pages and the package say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from release.container import base_image, choose_builder, prepare_context

ROOT = Path(__file__).parents[2]
FILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMAND = json.loads(re.findall(r"^CMD (\[.*\])$", FILE, re.MULTILINE)[0])
PROBE = json.loads(re.findall(r"^    CMD (\[.*\])$", FILE, re.MULTILINE)[0])


def test_image_runs_what_the_page_runs_on_kubernetes() -> None:
    page = (ROOT / "docs" / "gateway" / "deploy.md").read_text(encoding="utf-8")
    deployment, *_ = re.findall(r"^```yaml\n((?s:.*?))^```$", page, re.MULTILINE)
    (container,) = yaml.safe_load(deployment)["spec"]["template"]["spec"]["containers"]
    assert container["args"] == COMMAND
    assert container["image"].endswith(f"/streamnorm:{PROJECT['version']}")
    assert f"\nEXPOSE {COMMAND[COMMAND.index('--port') + 1]}\n" in FILE


def test_image_is_built_from_the_wheel_alone() -> None:
    assert re.findall(r"^COPY (?!--from)(.*)$", FILE, re.MULTILINE) == ["dist/*.whl /wheels/"]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[-2:] == ["*", "!dist/*.whl"]
    (extras,) = re.findall(r'"\$1\[([\w,]+)\]"', FILE)
    assert {*extras.split(",")} <= {*PROJECT["optional-dependencies"]}


def test_image_runs_as_a_user_that_is_a_number_and_not_root() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", FILE, re.MULTILINE)
    assert int(user) > 0


@contextmanager
def answering(status: int) -> Iterator[int]:
    """Answer each request at /healthz with a status; yield the port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        yield server.server_port
        thread.join()


@pytest.mark.parametrize(("status", "ends_with"), [(200, 0), (503, 1)])
def test_health_check_asks_whether_the_gateway_is_ready(status: int, ends_with: int) -> None:
    program, option, code = PROBE
    assert (program, option) == ("python", "-c")
    with answering(status) as port:
        done = subprocess.run([sys.executable, "-c", code.replace("8080", str(port))], timeout=60)
    assert done.returncode == ends_with


def test_context_of_the_image_is_its_file_and_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "streamnorm-1.0-py3-none-any.whl"
    wheel.write_bytes(b"")
    context = prepare_context(ROOT, wheel, tmp_path / "context")
    found = {str(path.relative_to(context)) for path in context.rglob("*") if path.is_file()}
    assert found == {"Dockerfile", ".dockerignore", f"dist/{wheel.name}"}


def test_machine_without_a_builder_is_found_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert base_image(FILE).startswith("docker.io/library/python:3.")
    assert choose_builder(base_image(FILE)) is None
