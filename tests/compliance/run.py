"""Have independent suites judge the gateway's answers to clients of each dialect.

    python tests/compliance/run.py [--client DIALECT] [--upstream DIALECT]
        [--open-responses CHECKOUT] [--install]

Each suite plays the clients that it knows, against `streamnorm serve` in front of a scripted
upstream of each dialect; clients of the Responses API also against a gateway that stores.
Prints a table of the tests that passed, and ends with status 1 if one failed that is not
explained.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from compliance import suites
from compliance.suites import LLM_COMPLY, OPEN_RESPONSES, Result, Suite
from compliance.upstream import upstream
from support.bedrock.signatures import KEY_ID, SECRET
from support.bedrock.upstream import SignedApp
from support.cli.servers import provider, running

_CLIENTS = ("openai_chat", "openai_responses", "anthropic", "gemini")
_REGION = "eu-west-1"
_AWS = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
_BEDROCK = "bedrock_converse"
_SOCKETS = "responses_websocket"
# Settings of each upstream, in TOML.
_UPSTREAMS = {
    **{name: f'dialect = "{name}"' for name in (*_CLIENTS, "gemini_interactions")},
    _BEDROCK: f'dialect = "{_BEDROCK}"\nkey = "aws"\nregion = "{_REGION}"',
    _SOCKETS: 'dialect = "openai_responses"\ntransport = "websocket"',
}
_MEMORY = "memory:"
_STATES = {"openai_responses": ("", _MEMORY)}  # by the client's dialect; "" stores nothing
_SEAL_KEY = "STREAMNORM_COMPLIANCE_KEY"  # variable of a key for compacted conversations
_SHOWN = 200


class _Cell(NamedTuple):
    """One run of a suite."""

    suite: Suite
    client: str
    upstream: str
    state: str

    def run(self, checkout: Path | None) -> list[Result]:
        app: Any = upstream()
        if self.upstream == _BEDROCK:
            app = SignedApp(app, _REGION)
        with (
            provider(app, has_websockets=self.upstream == _SOCKETS) as url,
            tempfile.NamedTemporaryFile("w", suffix=".toml") as config,
        ):
            config.write(f'seal_key = "env:{_SEAL_KEY}"\n')
            if self.state:
                config.write(f'state = "{self.state}"\n')
            config.write(f'[upstreams.only]\nbase_url = "{url}"\n{_UPSTREAMS[self.upstream]}\n')
            config.flush()
            with running("serve", "--config", config.name) as gateway:
                return self.suite.run(self.client, gateway.url, checkout)


def _cells(chosen: list[Suite], clients: list[str], upstreams: list[str]) -> Iterator[_Cell]:
    for suite in chosen:
        for client in suite.clients:
            for name in _UPSTREAMS:
                if (not clients or client in clients) and (not upstreams or name in upstreams):
                    for state in _STATES.get(client, ("",)):
                        yield _Cell(suite, client, name, state)


def _report(cell: _Cell, results: list[Result]) -> int:
    """Print a row, and return the number of failures that are not explained."""
    failed = [result for result in results if result.errors]
    unexplained = [result for result in failed if not cell.suite.expects(result, cell.upstream)]
    passed = f"{len(results) - len(failed)} of {len(results)}"
    where = f"{cell.suite.name:17} {cell.client:17} {cell.upstream:19} {cell.state or '-':8}"
    print(f"{where} {passed:>8}  {len(failed) - len(unexplained):9}", flush=True)
    for result in unexplained:
        print(f"    {result.name}: {'; '.join(result.errors)[:_SHOWN]}", flush=True)
    return len(unexplained)


def main() -> int:
    """Run the suites, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=_CLIENTS, action="append", default=[])
    parser.add_argument("--upstream", choices=_UPSTREAMS, action="append", default=[])
    parser.add_argument(
        "--open-responses",
        type=Path,
        default=os.environ.get("OPEN_RESPONSES"),
        help="a checkout of github.com/openresponses/openresponses (or OPEN_RESPONSES)",
    )
    parser.add_argument("--install", action="store_true", help="install what the suites need")
    options = parser.parse_args()
    os.environ.update({_SEAL_KEY: secrets.token_hex(32), **_AWS})
    checkout: Path | None = options.open_responses and Path(options.open_responses).resolve()
    if options.install:
        suites.install()
    chosen: list[Suite] = []
    for suite in (LLM_COMPLY, OPEN_RESPONSES):
        if reason := suite.missing(checkout):
            print(f"skipped: {suite.name}: {reason}")
        else:
            chosen.append(suite)
    cells = [*_cells(chosen, options.client, options.upstream)]
    titles = f"{'suite':17} {'client':17} {'upstream':19} {'state':8}"
    print(f"{titles} {'passed':>8}  {'explained':>9}")
    unexplained = 0
    for number, cell in enumerate(cells, 1):
        progress = f"{number}/{len(cells)}, {unexplained} failures not explained"
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
        results = cell.run(checkout)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        unexplained += _report(cell, results)
    for suite in chosen:
        for known in suite.explained:
            print(f"explained: {suite.name}: {known.tests}: {known.reason}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
