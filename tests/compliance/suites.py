"""The suites that judge a gateway's answers, and where they are installed.

llm-comply (https://pypi.org/project/llm-comply/) and the compliance suite of Open Responses
(https://github.com/openresponses/openresponses), which is on no registry: it runs from a
checkout.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from clients import installs

__all__ = ["LLM_COMPLY", "OPEN_RESPONSES", "Result", "Suite", "install"]

_FOLDER = installs.FOLDER.with_name("compliance")
_LLM_COMPLY = "llm-comply==0.5.0"
_PACKAGES = ("tsx@4.23.15", "zod@3.25.76")
_RUN_S = 120  # seconds that a suite may take
_WHOLE_S = 600  # seconds that an installation may take

# Options of llm-comply by the client's dialect.  The names are of models that reason: it asks no
# other for that.
_FORMATS: dict[str, list[str]] = {
    "openai_chat": ["--format", "openai-chat", "-m", "gpt-5"],
    "openai_responses": ["--format", "open-responses", "-m", "gpt-5"],
    "anthropic": [
        *("--format", "anthropic", "-m", "claude-sonnet-4-6", "--auth-header", "x-api-key"),
        *("--no-bearer", "-H", "anthropic-version:2023-06-01"),
    ],
    "gemini": [
        *("--format", "google-genai", "-m", "gemini-3-pro"),
        *("--auth-header", "x-goog-api-key", "--no-bearer"),
    ],
}


class Result(NamedTuple):
    """What a suite says of one of its tests.

    Attributes:
        name: Name of the test.
        errors: What was wrong; nothing if it passed.
    """

    name: str
    errors: list[str]


class Explained(NamedTuple):
    """Failures that are expected; `docs/compliance.md` says more.

    Attributes:
        tests: Pattern of the names of the tests.
        errors: Pattern of each of their errors.
        reason: Why they fail.
        upstreams: Pattern of the dialects of the upstreams with which they fail.
    """

    tests: str
    errors: str
    reason: str
    upstreams: str = "*"


class Suite(NamedTuple):
    """A suite.

    Attributes:
        name: Its name.
        clients: Dialects of the clients that it plays.
        explained: Its failures that are expected.
    """

    name: str
    clients: tuple[str, ...]
    explained: tuple[Explained, ...]

    def expects(self, result: Result, upstream: str) -> bool:
        """Return whether a failure is expected with an upstream of a dialect."""
        return any(
            fnmatch(result.name, known.tests)
            and fnmatch(upstream, known.upstreams)
            and all(re.search(known.errors, error) for error in result.errors)
            for known in self.explained
        )

    def missing(self, checkout: Path | None) -> str:
        """Return what is missing for a run; nothing if all is there."""
        if self is LLM_COMPLY:
            return "" if _llm_comply().exists() else _not_installed("llm-comply")
        if checkout is None:
            return "--open-responses names no checkout of it"
        if not (checkout / "bin" / "compliance-test.ts").exists():
            return f"{checkout} is no checkout of it"
        if installs.node() is None:
            return "no Node of version 22 or newer"
        return "" if _tsx().exists() else _not_installed("tsx")

    def run(self, client: str, url: str, checkout: Path | None) -> list[Result]:
        """Run the suite against a gateway.

        Args:
            client: Dialect of the client that it plays.
            url: URL of the gateway, without a path.
            checkout: The checkout of Open Responses.

        Raises:
            subprocess.TimeoutExpired: It takes too long.
            ValueError: It reports no results.
        """
        if self is LLM_COMPLY:
            base = url if client == "gemini" else f"{url}/v1"
            said = _output([_llm_comply(), *_FORMATS[client], "-u", base, "-k", "key", "--json"])
            return [Result(test["id"], test.get("errors", [])) for test in said["results"]]
        program = ["bin/compliance-test.ts", "-u", f"{url}/v1", "-k", "key", "-m", "gpt-5"]
        modules = {"NODE_PATH": str(_FOLDER / "node_modules")}
        node = installs.node()
        assert node is not None
        said = _output([node, _tsx(), *program, "--json"], cwd=checkout, **modules)
        return [
            Result(
                test["id"], [] if test["status"] == "passed" else test.get("errors") or ["not run"]
            )
            for test in said["results"]
        ]


# Its input begins with what the assistant said, as Amazon Bedrock lets no conversation begin.
_ASSISTANT_FIRST = Explained(
    "assistant-phase",
    "HTTP 400|^response.output is missing or empty|^expected status='completed'",
    "a conversation that the assistant begins, which Amazon Bedrock refuses",
    "bedrock_converse",
)

LLM_COMPLY = Suite(
    "llm-comply 0.5.0",
    tuple(_FORMATS),
    (
        Explained(
            "anth-*",
            r" is a required property$|^content\.\d+: \{.* is not valid under any of the given",
            "a schema that Anthropic's own answers do not fulfil",
        ),
        _ASSISTANT_FIRST,
    ),
)
OPEN_RESPONSES = Suite(
    "Open Responses",
    ("openai_responses",),
    (_ASSISTANT_FIRST,),
)


def install() -> None:
    """Install what the suites need.  No script of a package runs.

    Raises:
        subprocess.CalledProcessError: It cannot be installed here.
    """
    venv.create(_FOLDER / "venv", with_pip=True)
    pip = [_FOLDER / "venv" / "bin" / "python", "-m", "pip", "install", "-q", _LLM_COMPLY]
    subprocess.run(pip, check=True, timeout=_WHOLE_S)
    npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"]
    subprocess.run([*npm, *_PACKAGES], cwd=_FOLDER, check=True, timeout=_WHOLE_S)


def _llm_comply() -> Path:
    return _FOLDER / "venv" / "bin" / "llm-comply"


def _tsx() -> Path:
    return _FOLDER / "node_modules" / "tsx" / "dist" / "cli.mjs"


def _not_installed(what: str) -> str:
    return f"no {what} in {_FOLDER}: run.py --install installs it"


def _output(command: list[Any], cwd: Path | None = None, **environ: str) -> Any:
    """Return the JSON that a command writes, whatever its exit status."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        timeout=_RUN_S,
        check=False,
    )
    return json.loads(done.stdout)
