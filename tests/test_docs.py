"""Every code block of the README and of the site's pages runs, and their tables are the code's."""

from __future__ import annotations

import ast
import inspect
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module, util
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple, get_args

import pytest
from support.cli.servers import provider, running
from support.public_modules import MODULES

import streamnorm
from streamnorm import StreamnormError
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.events import ErrorKind
from streamnorm._core.losses import Capabilities
from streamnorm._registry import DIALECTS
from streamnorm.gateway import Gateway, read_config
from streamnorm.testing import FakeProvider

ROOT = Path(__file__).parent.parent
_MAX_S = 600  # of a command, on a machine that does other work
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(
        page
        for folder in ("", "api/", "clients/", "gateway/", "migrate/", "rules/")
        for page in sorted(DOCS.glob(f"{folder}*.md"))
    ),
]
# Their commands and programs run in `test_docs_migrate`.
MIGRATIONS = {page.name for page in PAGES if page.parent.name == "migrate"}
# Drawings, and what `test_docs_gateway` and `test_docs_migrate` check.
NOT_RUN = ("text", "jsx", "toml", "json", "yaml", "nginx", "mermaid")


def load_render() -> Any:
    spec = util.spec_from_file_location("render", ROOT / "docs" / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "docs"))
    spec.loader.exec_module(module)
    return module


render = load_render()


@cache
def rendered_pages() -> dict[Path, str]:
    return dict(render.pages())


class Block(NamedTuple):
    """A code block of a page; one with the title of a file is an excerpt of it."""

    page: str
    number: int
    language: str
    title: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"


def _blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found = re.findall(r'^```(\w*)(?: title="(.*)")?\n((?s:.*?))^```$', text, re.MULTILINE)
        assert len(found) * 2 == len(re.findall("^```", text, re.MULTILINE)), page
        for number, (language, title, code) in enumerate(found, 1):
            yield Block(page.name, number, language, title, code)


BLOCKS = list(_blocks())


def blocks(language: str, page: str = "") -> list[Block]:
    return [block for block in BLOCKS if block.language == language and page in block.page]


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command, with the programs of this Python first on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        timeout=_MAX_S,
    )


def test_every_block_is_of_a_kind_that_runs() -> None:
    assert {block.language for block in BLOCKS} <= {"python", "console", "sh", *NOT_RUN}
    assert {block.page for block in blocks("sh")} == {"README.md"}


EXCERPTS = [block for block in BLOCKS if block.title]
PROGRAMS = [block for block in blocks("python") if not block.title and block.page not in MIGRATIONS]
SCRIPTS = [block for block in PROGRAMS if "def test_" not in block.code]
TESTS = [block for block in PROGRAMS if "def test_" in block.code]


def each_program(programs: list[Block]) -> pytest.MarkDecorator:
    """Return the decorator that runs a test with each program; those of the site are slow."""
    return pytest.mark.parametrize(
        "block",
        [
            pytest.param(
                block, marks=[] if block.page == "README.md" else pytest.mark.slow, id=str(block)
            )
            for block in programs
        ],
    )


@pytest.mark.parametrize("block", EXCERPTS, ids=str)
def test_excerpt_stands_in_its_file(block: Block) -> None:
    assert f"\n{block.code}" in (ROOT / block.title).read_text(encoding="utf-8")


@each_program(SCRIPTS)
def test_program_runs(block: Block, tmp_path: Path) -> None:
    """The programs of the README run without a clone, those of the site in one."""
    where = tmp_path if block.page == "README.md" else ROOT
    done = run(sys.executable, "-W", "error", "-c", block.code, cwd=where)
    assert done.stderr == ""
    assert done.stdout != ""


def test_killed_producer_of_the_page_is_missed_by_its_lease() -> None:
    """The program kills it while it waits for the provider, and no time-out ends the stream."""
    (block,) = [block for block in blocks("python", "streams") if "SIGKILL" in block.code]
    done = run(sys.executable, "-W", "error", "-c", block.code)
    assert "connection lost: its producer died after 3 events" in done.stdout


@each_program(TESTS)
def test_example_tests_pass(block: Block, tmp_path: Path) -> None:
    """A body alone is a recording, and answers every request."""
    (tmp_path / "test_agent.py").write_text(block.code, encoding="utf-8")
    if "weather" in block.code:
        (tmp_path / "recordings").mkdir()
        body = ROOT / "recordings/openai_chat/openai/one-tool.sse"
        (tmp_path / "recordings" / "weather.sse").write_bytes(body.read_bytes())
    done = run(sys.executable, "-W", "error", "-m", "pytest", "-q", "test_agent.py", cwd=tmp_path)
    assert f"{block.code.count('def test_')} passed" in done.stdout


class Command(NamedTuple):
    """A command of a page, and what the page shows of its output."""

    block: Block
    line: str
    output: str

    def __str__(self) -> str:
        return f"{self.block}-{' '.join(self.line.split()[:3])}"


def _commands() -> Iterator[Command]:
    for block in blocks("console"):
        if block.page in MIGRATIONS:
            continue
        for text in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
            line, _, output = text.partition("\n")
            yield Command(block, line, output)


COMMANDS = list(_commands())
_SERVING = [
    command for command in COMMANDS if command.line.split()[1] in ("record", "replay", "serve")
]
# `test_docs_gateway` runs those of the gateway's page in its sessions.  A line that several pages
# have is run with the configuration of one; the others are read.
SERVING = [
    *{command.line: command for command in _SERVING if command.block.page != "gateway.md"}.values()
]
CONFIGURED = [command for command in _SERVING if "gateway.toml" in command.line]
RUNNING = [command for command in COMMANDS if command.line.startswith("streamnorm run ")]
# Others ask a server that runs, or run another program: see `test_docs_gateway`.
ENDING = [
    command
    for command in COMMANDS
    if command not in (*_SERVING, *RUNNING) and command.line.startswith("streamnorm ")
]


@pytest.mark.parametrize("command", ENDING, ids=str)
def test_command_gives_the_output_of_the_page(command: Command) -> None:
    done = run("sh", "-c", command.line)
    assert done.returncode == (3 if "cut" in command.line else 0)
    assert done.stdout != ""
    assert command.output in ("", done.stdout)


@pytest.mark.parametrize("command", SERVING, ids=str)
def test_serving_command_listens(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On any free port, with recordings of this repository, or the configuration of the page."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    _, *arguments = command.line.replace("'", "").split()
    arguments[arguments.index("--port") + 1] = "0"
    found = ROOT / "recordings/openai_chat/openai"
    config = tmp_path / "gateway.toml"
    paths = {
        "recordings/agent": tmp_path if "record" in arguments else found,
        "gateway.toml": config,
    }
    if "gateway.toml" in arguments:
        config.write_text(blocks("toml", command.block.page)[0].code, encoding="utf-8")
    arguments = [str(paths.get(one, one)) for one in arguments]
    with running(*arguments) as server:
        assert server.url.startswith("http://127.0.0.1:")
        server.end(signal.SIGINT)


@pytest.mark.parametrize("command", CONFIGURED, ids=str)
def test_configuration_of_a_serving_command_starts(command: Command, tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(blocks("toml", command.block.page)[0].code, encoding="utf-8")
    assert Gateway(read_config(config), environ={"ANTHROPIC_API_KEY": "sk-ant-0123456789"})


@pytest.mark.skipif(sys.platform == "win32", reason="a command for POSIX")
@pytest.mark.parametrize("command", RUNNING, ids=str)
def test_agent_of_the_page_is_run(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program in the agent's place, and a provider in that of each upstream."""
    arguments = command.line.split()
    agent = arguments[arguments.index("--") + 1]
    (tmp_path / agent).write_text('#!/bin/sh\necho "$0 runs"\n', encoding="utf-8")
    (tmp_path / agent).chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with provider(FakeProvider("").app()) as url:
        line = local(command.line, url)
        if "gateway.toml" in line:
            config = local(blocks("toml", command.block.page)[0].code, url)
            (tmp_path / "gateway.toml").write_text(config, encoding="utf-8")
        done = run("sh", "-c", line, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / agent} runs\n"


def local(text: str, url: str) -> str:
    """Return a text in which all upstreams are a provider of a test."""
    return text.replace("http://127.0.0.1:8000", url).replace("https://api.anthropic.com", url)


def test_numbers_of_the_readme_are_what_its_commands_print() -> None:
    """`ls` names the servers, `streamnorm inspect` counts the recordings."""
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    recordings = ROOT / "recordings"
    chat, anthropic = (
        {folder.name for folder in (recordings / dialect).iterdir()}
        for dialect in ("openai_chat", "anthropic")
    )
    assert "OpenAI and some thirty compatible servers" in text
    assert 30 <= len(chat - {"openai", "gateway"}) < 35
    assert "Anthropic, Bedrock, Vertex and eight compatible servers" in text
    vendors = {"anthropic", "bedrock", "vertex"}
    # Two folders hold streams of no server in particular.
    assert len(anthropic - vendors - {"proxy", "streamnorm"}) == 8
    assert "`ls recordings/openai_chat recordings/anthropic`" in text
    (count,) = re.findall(r"more than (\d+) recordings \(`streamnorm inspect recordings`", text)
    suffixes = (".sse", ".eventstream", ".ws.jsonl")
    found = sum(path.name.endswith(suffixes) for path in recordings.rglob("*.*"))
    assert int(count) < found <= int(count) + 20


def test_shell_blocks_are_the_two_commands() -> None:
    """Installing needs a network, so here only what follows it runs; `.ci/run` runs all."""
    main_job, tests = (
        [command.strip() for command in block.code.split("&&")] for block in blocks("sh")[:2]
    )
    assert [command.split()[0] for command in main_job] == [
        "python3",
        ".venv/bin/pip",
        ".venv/bin/streamnorm",
    ]
    done = run("sh", "-c", main_job[-1].removeprefix(".venv/bin/"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert tests[-1].startswith(".venv/bin/python -m pytest")
    assert len(tests) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="a command for POSIX")
def test_pasted_block_needs_the_package_alone(tmp_path: Path) -> None:
    """The third shell block runs in an empty folder, and prints what the README shows."""
    (block,) = blocks("sh")[2:]
    shown = next(one for one in blocks("text", "README.md") if one.number > block.number)
    python = ".venv/bin/python "
    assert block.code.startswith(python)
    code = block.code.replace(python, f"{sys.executable} -W error ", 1)
    done = run("sh", "-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == shown.code


def test_first_example_of_the_site_is_short() -> None:
    assert len(blocks("python", "index")[0].code.splitlines()) <= 18


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_programs_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`(?:python )?((?:tests|docs|recordings|streamnorm)/[\w./-]+)", text):
        assert (ROOT / path).exists(), path


# Rendered tables


def test_tables_are_rendered_from_the_code() -> None:
    for page, text in rendered_pages().items():
        assert page.read_text(encoding="utf-8") == text, "run python docs/render.py"


def test_rows_of_rendered_tables_are_whole() -> None:
    for text in rendered_pages().values():
        for table in re.findall(
            r"^<!-- rendered: \w+ -->\n((?s:.*?))^<!-- end -->$", text, re.MULTILINE
        ):
            columns = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(columns) == 1, table[:200]


def test_every_table_stands_in_one_page() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert sorted(re.findall(r"<!-- rendered: (\w+) -->", texts)) == sorted(render.TABLES)


def test_every_encodable_dialect_has_a_column() -> None:
    assert {target.dialect for target in render.TARGETS.values()} == {
        name for name, dialect in DIALECTS.items() if dialect.encoder is not None
    }


def test_loss_table_names_every_capability() -> None:
    # These lose nothing: they change how something is written, or which options matter.
    forms = {"dialect", "redacted_as_signature_of", "call_issuer"}
    assert set(render.FEATURES) == set(Capabilities.__struct_fields__) - forms


def test_every_kind_of_error_has_a_row() -> None:
    assert tuple(render.ERRORS) == get_args(ErrorKind)
    for _, name in render.ERRORS.values():
        assert issubclass(getattr(streamnorm, name), streamnorm.StreamnormError)


def _sources(*, bodies: bool) -> Iterator[str]:
    """Yield the modules of whole bodies, or all others."""
    for path in (ROOT / "streamnorm").rglob("*.py"):
        if bodies == (not {"bodies", "body"}.isdisjoint(path.parts)):
            yield path.read_text("utf-8")


_COUNTED = re.compile(r'losses\.(?:add|count)\(\s*"(\w+)"')


def test_every_loss_has_a_row() -> None:
    """Calls that count one, and what `lacking_feature` and the projector find lacking."""
    names = {"whitespace_text", "empty_block"}
    for text in _sources(bodies=False):
        names.update(_COUNTED.findall(text))
    names.update(re.findall(r'return "(\w+)"', inspect.getsource(Capabilities.lacking_feature)))
    # The way back of a request's tools is a part of bodies, and used for streams.
    of_bodies = {name for text in _sources(bodies=True) for name in _COUNTED.findall(text)}
    assert names <= set(render.LOSSES) <= names | of_bodies


def test_every_loss_of_a_request_has_a_row() -> None:
    """Some are not counted by their name alone, but all stand in the code."""
    text = "".join(_sources(bodies=True))
    found = {name for name in _COUNTED.findall(text) if name not in render.LOSSES}
    named = set(render.render_requests.LOSSES)
    assert found <= named
    assert {name for name in named if f'"{name}"' not in text} == set()


def test_features_of_requests_are_capabilities() -> None:
    features = set(render.render_requests.FEATURES)
    assert features <= set(BodyCapabilities.__struct_fields__)
    targets = [*render.render_requests.TARGETS]
    assert targets == ["Anthropic", "Chat", "Responses", "Gemini", "Interactions", "Converse"]


def _kinds(argument: ast.expr) -> Iterator[str]:
    match argument:
        case ast.Constant(str(kind)):
            yield kind
        case ast.IfExp(_, body, orelse):
            yield from _kinds(body)
            yield from _kinds(orelse)


def test_every_kind_of_note_has_a_row() -> None:
    kinds = set()
    for path in (ROOT / "streamnorm").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                kinds.update(_kinds(node.args[0]) if name in ("note", "_note", "Note") else ())
    assert kinds == set(render.NOTES)


# Links and the reference


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(page: Path) -> None:
    """The generator checks those of the site, and their anchors."""
    for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_reference_lists_every_public_name() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("api/*.md")))
    names = [name.rpartition(".") for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)]
    listed = {id(getattr(import_module(module), name)) for module, _, name in names}
    assert len(listed) == len(names)
    missing = [
        f"{module}.{name}"
        for module in MODULES
        for name in import_module(module).__all__
        if id(getattr(import_module(module), name)) not in listed
    ]
    # The parts of the decoder that the fast path uses.
    parts = ("Fragment", "RawFrame", "StrayLine", "is_whole")
    assert missing == [f"streamnorm.sse.{part}" for part in parts]


def exceptions_below(base: type[BaseException]) -> set[str]:
    """Return the names of the exceptions of the package that have a base."""
    below = {*base.__subclasses__()}
    names = {found.__name__ for found in below if found.__module__.startswith("streamnorm.")}
    return names.union(*(exceptions_below(found) for found in below))


def test_reference_lists_every_exception_that_leaves_the_package() -> None:
    for module in walk_packages(streamnorm.__path__, "streamnorm."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    text = (DOCS / "api" / "errors.md").read_text(encoding="utf-8")
    listed = {*re.findall(r"^::: [\w.]+\.(\w+)$", text, re.MULTILINE)}
    outcomes = {"Abandoned", "Completed", "Failed", "Outcome", "Truncated"}
    raised = exceptions_below(StreamnormError) - INTERNAL
    assert {"StreamnormError", *raised} == listed - outcomes


# Each is caught within the package; `FailedAnswer` is an `EncodeError` for callers.
INTERNAL = {
    *("FailedAnswer", "PlaybackReset", "PlaybackTimeout", "RefusedCall", "RequestRefused"),
    "_NeverBegins",
}


def groups(text: str, heading: str, page: str) -> dict[str, list[str]]:
    """Return the pages below each heading, by regular expressions with one group each."""
    found: dict[str, list[str]] = {}
    titles = re.split(heading, text, flags=re.MULTILINE)[1:]
    for title, below in zip(titles[::2], titles[1::2], strict=True):
        found[title] = list(dict.fromkeys(re.findall(page, below, re.MULTILINE)))
    return found


TASKS = ("Use it in a program", "Run a gateway", "Test with it", "Understand it")


def test_every_page_is_once_in_the_navigation_and_in_llms_txt() -> None:
    config = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    navigation, sections = config.split("\ntheme:")[0], config.split("llmstxt:")[1]
    pages = sorted(str(page.relative_to(DOCS)) for page in PAGES[1:])
    assert sorted(re.findall(r": ([\w/-]+\.md)$", navigation, re.MULTILINE)) == pages
    listed = re.findall(r"- ([\w/-]+\.md): ", sections)
    assert sorted([*listed, "CONTRIBUTING.md"]) == pages


def test_pages_are_ordered_by_the_same_tasks_everywhere() -> None:
    """In the navigation, in llms.txt, in the README and on the first page of the site."""
    config = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    navigation, sections = config.split("\ntheme:")[0], config.split("llmstxt:")[1]
    menu = groups(navigation, r"^  - (\w.*):$", r"^      - .*: ([\w/-]+\.md)$")
    assert tuple(menu)[: len(TASKS)] == TASKS
    listed = groups(sections, r"^        (\w.*):$", r"^          - ([\w/-]+\.md): ")
    first = groups((DOCS / "index.md").read_text("utf-8"), r"^## (.*)$", r"\]\(([\w/-]+\.md)")
    documentation = (ROOT / "README.md").read_text("utf-8").split("\n## Documentation\n")[1]
    readme = groups(documentation.split("\n## ")[0], r"^\*\*(.*)\*\*$", r"\]\(docs/([\w/-]+\.md)")
    others = {"api.md", "changelog.md", "CONTRIBUTING.md"}  # named below the last task
    for task in TASKS:
        assert listed[task] == menu[task]
        assert [page for page in first[task] if page not in others] == menu[task]
        assert [page for page in readme[task] if page not in others] == menu[task]


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_one_task(page: Path) -> None:
    """A page that grows beyond this has several; the changelog is read from its top."""
    lines = len(page.read_text(encoding="utf-8").splitlines())
    assert lines <= 450 or page.name == "changelog.md"


def test_pages_end_in_a_next_step() -> None:
    """A reader who has done the task of a page is told which page goes on."""
    config = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    menu = groups(config.split("\ntheme:")[0], r"^  - (\w.*):$", r"^      - .*: ([\w/-]+\.md)$")
    for name in ("index.md", "tour.md", *(page for task in TASKS for page in menu[task])):
        *_, last = (DOCS / name).read_text("utf-8").rstrip().split("\n\n")
        assert re.match(r"\*\*Next:\*\* (?s:.)*\]\([\w./#-]+\)", last), name


def test_readme_and_first_page_offer_the_same_parts() -> None:
    tables = [
        (path.read_text("utf-8").split("\n## Which part do I need?\n\n")[1].split("\n\n")[0])
        for path in (DOCS / "index.md", ROOT / "README.md")
    ]
    assert tables[0].count("\n| ") > 10
    assert tables[0] == tables[1].replace("](docs/", "](")


def contribution_files() -> list[str]:
    """Return the files that the tables of the contributing guide name."""
    guide = (DOCS / "CONTRIBUTING.md").read_text()
    rows = [line for line in guide.splitlines() if line.startswith("| ")]
    spans = [span for row in rows for span in re.findall(r"`([^`\s]+)`", row.split(" | ", 1)[-1])]
    return [span for span in spans if re.search(r"/$|\.(py|toml)$", span) and "<" not in span]


def test_files_of_the_contributing_guide_are_found() -> None:
    assert len(contribution_files()) > 40


@pytest.mark.parametrize("name", contribution_files())
def test_file_of_the_contributing_guide_exists(name: str) -> None:
    """A file of a dialect need not stand in the package of every dialect."""
    package = ROOT / "streamnorm"
    folders = [ROOT, package, *(package / "dialects").iterdir()]
    assert any((folder / name).exists() for folder in folders)
