"""Launching an agent against a gateway: its environment, options and process.

The command stays in the process group of this process, so that the keys of the terminal reach it
(Ctrl-C, Ctrl-Z) and it may read from the terminal.  Signals to this process alone are passed on,
and this process stops when the command stops: the shell then sees one job.  Windows has none of
these signals.

A command that is no agent known here gets the variables that the official SDKs read.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import termios
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from streamnorm.cli.console import UsageError, print_error

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from streamnorm.gateway import Config

_NOT_FOUND = 127  # as a shell reports them
_NOT_EXECUTABLE = 126
_SIGNALED = 128
_STDIN = 0

# The terminal sends these to all processes in its foreground.
_KEYS = {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP}
_PASSED = {*_KEYS, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
_HANDLED = {*_PASSED, signal.SIGCHLD}
# Python ignores them, which a command must not inherit.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

_PROVIDER = "streamnorm"  # in the configurations of Codex and opencode
_KEY = "STREAMNORM_KEY"
_WILDCARDS = frozenset("*?")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class ForegroundCommand:
    """A child process that waits for `run` and then executes a command as the foreground job.

    It is forked at once, while this process has one thread, and begins at `run`.  It ends
    with this process, however that ends, where the system can do that (Linux).

    Args:
        command: The program, which is searched for in `PATH`, and its arguments.
        environ: The environment.
    """

    def __init__(self, command: list[str], environ: Mapping[str, str]) -> None:
        self._terminal = termios.tcgetattr(_STDIN) if os.isatty(_STDIN) else None
        # A signal that is blocked waits for `sigwait`, or for the command that unblocks it.
        self._mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        # Some systems discard a signal that is ignored, even while it is blocked.
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        begin, self._begin = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._begin)
            self._become(command, environ, begin)
        os.close(begin)
        self._ended: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the child process if its command has not started.

        A signal that comes after its end changes nothing of its exit status.
        """
        os.close(self._begin)
        if self._ended is None:
            os.waitpid(self._pid, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask_before)

    def run(self) -> int:
        """Start the command, wait for its end, and return its exit status as a shell does."""
        with suppress(BrokenPipeError):  # somebody has killed it before its start
            os.write(self._begin, b"\n")
        while self._ended is None:
            number, is_passed = self._wait_for_signal()
            if number == signal.SIGCHLD:
                self._follow()
            elif is_passed:
                os.kill(self._pid, number)
        if not os.WIFSIGNALED(self._ended):
            return os.waitstatus_to_exitcode(self._ended)
        self._restore_terminal()
        return _SIGNALED + os.WTERMSIG(self._ended)

    def _wait_for_signal(self) -> tuple[int, bool]:
        """Wait for a signal; return it, and whether to pass it on to the command."""
        if sys.platform == "darwin":  # which does not report the sender
            key = signal.sigwait(_HANDLED)
            return key, key not in _KEYS or not _is_in_foreground()
        info = signal.sigwaitinfo(_HANDLED)
        is_of_kernel = info.si_code > 0
        is_of_command = info.si_pid == self._pid  # to its whole group
        number = info.si_signo
        return number, not (number in _KEYS and (is_of_kernel or is_of_command))

    def _follow(self) -> None:
        """Record the command's end; stop this process while the command is stopped."""
        pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        if not pid:
            return
        if not os.WIFSTOPPED(status):
            self._ended = status
            return
        # To this thread: the next line runs when this process goes on.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        pid, status = os.waitpid(self._pid, os.WNOHANG | os.WCONTINUED)
        if not pid:  # a shell continues both, others this process alone
            os.kill(self._pid, signal.SIGCONT)
        elif not os.WIFCONTINUED(status):
            self._ended = status

    def _restore_terminal(self) -> None:
        """Restore the terminal's modes, which a killed command leaves changed.

        A shell does so only for a job that ends by a signal itself.
        """
        if self._terminal is not None and _is_in_foreground():
            termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._terminal)

    def _become(self, command: list[str], environ: Mapping[str, str], begin: int) -> NoReturn:
        """Wait for `run`, then execute the command in this child process; exit without `run`."""
        status = 1
        try:
            _end_with_parent()
            if os.read(begin, 1):
                for number in _IGNORED_BY_PYTHON:
                    signal.signal(number, signal.SIG_DFL)
                if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                    signal.signal(signal.SIGINT, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_SETMASK, self._mask_before)
                os.execvpe(command[0], command, environ)  # noqa: S606 - no shell
        except (FileNotFoundError, NotADirectoryError):
            print_error(f"{command[0]}: command not found")
            status = _NOT_FOUND
        except OSError as exc:
            print_error(f"{command[0]}: {exc.strerror}")
            status = _NOT_EXECUTABLE
        finally:
            os._exit(status)


def _end_with_parent() -> None:
    """Make this process receive SIGTERM when its parent ends, even by SIGKILL."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _is_in_foreground() -> bool:
    return os.isatty(_STDIN) and os.tcgetpgrp(_STDIN) == os.getpgrp()


class Launch(NamedTuple):
    """A command with its environment."""

    command: list[str]
    environ: dict[str, str]


class _Variables(NamedTuple):
    """Environment variables that an agent reads.

    Attributes:
        urls: Variables of base URLs, each with the path of the gateway's URL.
        keys: Variables of the gateway's key.
        other_keys: Variables of keys that the agent prefers, or would send in addition.
        elsewhere: Variables that make the agent ask another server.
    """

    urls: Mapping[str, str] = {}
    keys: tuple[str, ...] = (_KEY,)
    other_keys: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


_ANTHROPIC_ELSEWHERE = (
    "ANTHROPIC_UNIX_SOCKET",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_GATEWAY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_VERTEX",
)
_GOOGLE_ELSEWHERE = ("GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI")

_VARIABLES = {
    "claude": _Variables(
        urls={"ANTHROPIC_BASE_URL": ""},
        other_keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        elsewhere=_ANTHROPIC_ELSEWHERE,
    ),
    "codex": _Variables(),
    "gemini": _Variables(
        urls={"GOOGLE_GEMINI_BASE_URL": ""},
        keys=("GEMINI_API_KEY",),
        other_keys=("GOOGLE_API_KEY",),
        elsewhere=_GOOGLE_ELSEWHERE,
    ),
    "opencode": _Variables(),
}
_OF_SDKS = _Variables(
    urls={"OPENAI_BASE_URL": "/v1", "ANTHROPIC_BASE_URL": "", "GOOGLE_GEMINI_BASE_URL": ""},
    keys=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"),
    other_keys=("ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY"),
    elsewhere=("OPENAI_API_BASE", *_ANTHROPIC_ELSEWHERE, *_GOOGLE_ELSEWHERE),
)

# Of Gemini CLI's settings, which may have comments.
_AUTH_TYPE = re.compile(r'"selectedType"\s*:\s*"([^"]*)"')
_GEMINI_API_KEY = "gemini-api-key"


def launch(
    command: Sequence[str], environ: Mapping[str, str], url: str, key: str | None, config: Config
) -> Launch:
    """Return a command and environment that make an agent use a gateway.

    Args:
        command: The command.
        environ: The environment of the user.
        url: URL of the gateway, without a path.
        key: The key of the gateway; None = the command sends the key that it has.
        config: The configuration of the gateway.

    Raises:
        UsageError: opencode needs the name of a model, and there is none; or the settings of
            Gemini CLI have it ask another server.
    """
    program, *arguments = command
    name = Path(program).name
    variables = _VARIABLES.get(name, _OF_SDKS)
    removed = {*variables.elsewhere}
    changed = {variable: url + path for variable, path in variables.urls.items()}
    if key is not None:
        removed |= {*variables.other_keys}
        changed |= dict.fromkeys(variables.keys, key)
    has_key = key is not None
    match name:
        case "claude":
            changed_settings = _make_claude_settings(changed, removed, has_key=has_key)
            arguments = ["--settings", json.dumps(changed_settings), *arguments]
        case "codex":
            arguments = [*_make_codex_options(url, has_key=has_key), *arguments]
        case "gemini":
            _check_gemini_settings(environ)
        case "opencode":
            content = _make_opencode_config(url, arguments, config, has_key=has_key)
            changed["OPENCODE_CONFIG_CONTENT"] = json.dumps(content)
        case _:
            pass
    changed |= _bypass_proxies(environ)
    left = {variable: value for variable, value in environ.items() if variable not in removed}
    return Launch([program, *arguments], left | changed)


def _make_claude_settings(
    changed: Mapping[str, str], removed: Iterable[str], *, has_key: bool
) -> dict[str, object]:
    """Return Claude Code settings that override the user's settings.

    Variables in the settings override the environment.  Every user of the machine can read the
    command line: the key is in a variable, and a command prints it.  Of an ANTHROPIC_API_KEY that
    it does not know, Claude Code would ask the user whether to use it.
    """
    environ = {name: value for name, value in changed.items() if name != _KEY}
    environ |= dict.fromkeys(sorted(removed), "")
    settings: dict[str, object] = {"env": environ}
    if has_key:
        settings["apiKeyHelper"] = f"printenv {_KEY}"
    return settings


def _make_codex_options(url: str, *, has_key: bool) -> list[str]:
    """Return Codex options, which the user's later options override.

    Every user of the machine can read the command line: the key is in a variable.
    """
    provider = {"name": _PROVIDER, "base_url": f"{url}/v1", "wire_api": "responses"}
    fields = [f'{name}="{value}"' for name, value in provider.items()]
    fields.append(f'env_key="{_KEY}"' if has_key else "requires_openai_auth=true")
    return [
        *("-c", f'model_provider="{_PROVIDER}"'),
        *("-c", f"model_providers.{_PROVIDER}={{{','.join(fields)}}}"),
    ]


def _check_gemini_settings(environ: Mapping[str, str]) -> None:
    """Check that Gemini CLI's settings select no login, which no variable could override.

    Raises:
        UsageError: They choose a login, with which Gemini CLI asks Google.
    """
    home = Path(environ.get("GEMINI_CLI_HOME") or Path.home())
    for folder in (Path(), home):  # the settings of a project win
        path = folder / ".gemini" / "settings.json"
        try:
            found = _AUTH_TYPE.search(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        if found is None:
            continue
        if found[1] != _GEMINI_API_KEY:
            raise UsageError(
                f"gemini: {path}: security.auth.selectedType {found[1]!r}, "
                f"expected {_GEMINI_API_KEY!r}"
            )
        return


def _make_opencode_config(
    url: str, arguments: Sequence[str], config: Config, *, has_key: bool
) -> dict[str, object]:
    """Return an opencode configuration with the gateway as its only provider.

    opencode asks only for models of its configuration.
    """
    models = list(dict.fromkeys([*_find_named_models(arguments), *_find_configured_models(config)]))
    if not models:
        raise UsageError(
            f"opencode: no model, expected -m {_PROVIDER}/NAME or a --config with models"
        )
    options = {"baseURL": f"{url}/v1"}
    if has_key:
        options["apiKey"] = f"{{env:{_KEY}}}"
    provider = {
        # Sends the signatures of reasoning back.
        "npm": "@ai-sdk/anthropic",
        "name": _PROVIDER,
        "options": options,
        "models": {model: {"name": model} for model in models},
    }
    default = f"{_PROVIDER}/{models[0]}"
    return {
        "enabled_providers": [_PROVIDER],
        "provider": {_PROVIDER: provider},
        # Those of the user are of other providers.
        "model": default,
        "small_model": default,
    }


def _find_named_models(arguments: Sequence[str]) -> list[str]:
    """Return the gateway's models named in opencode's arguments."""
    prefixes = (f"{_PROVIDER}/", f"--model={_PROVIDER}/")
    return [
        argument.removeprefix(prefix)
        for argument in arguments
        for prefix in prefixes
        if argument.startswith(prefix) and argument != prefix
    ]


def _find_configured_models(config: Config) -> Iterator[str]:
    """Yield the model names of the entries; for a wildcard, the upstream names that match it."""
    for entry in config.models:
        names = [name for name in (entry.match, entry.alias) if name is not None]
        plain = [name for name in names if _WILDCARDS.isdisjoint(name)]
        groups = [[to] if isinstance(to, str) else to for to in entry.to]
        asked = [name.partition("/")[2] for group in groups for name in group]
        yield from plain or [name for name in asked if name and fnmatchcase(name, entry.match)]


def _bypass_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that exempt the gateway from proxies."""
    if not any(name.lower() in _PROXIES for name in environ):
        return {}
    listed = environ.get("no_proxy") or environ.get("NO_PROXY")
    exceptions = ",".join(filter(None, (listed, "127.0.0.1")))
    return {"no_proxy": exceptions, "NO_PROXY": exceptions}
