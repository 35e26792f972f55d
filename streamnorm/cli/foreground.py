"""A command that runs in the foreground of the terminal instead of this process.

The command stays in the process group of this process, so that the keys of the terminal reach it
(Ctrl-C, Ctrl-Z) and it may read from the terminal.  Signals to this process alone are passed on,
and this process stops when the command stops: the shell then sees one job.  Windows has none of
these signals.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from streamnorm.cli.console import print_error

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


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


class ForegroundCommand:
    """A command that waits for its start, as a child of this process.

    It is forked at once, while this process has one thread, and begins at `run`.  It ends
    with this process, however that ends, where the system can do that (Linux).

    Args:
        command: The program, which is searched for in `PATH`, and its arguments.
        environ: Its environment.
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
        """End the command if it has not begun.

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
        """Wait for a signal; return it, and whether the command has not got it as well."""
        if sys.platform == "darwin":  # which does not report the sender
            key = signal.sigwait(_HANDLED)
            return key, key not in _KEYS or not _is_in_foreground()
        info = signal.sigwaitinfo(_HANDLED)
        is_of_kernel = info.si_code > 0
        is_of_command = info.si_pid == self._pid  # to its whole group
        number = info.si_signo
        return number, not (number in _KEYS and (is_of_kernel or is_of_command))

    def _follow(self) -> None:
        """Note the end of the command, or stop for as long as it is stopped."""
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
        """Restore the modes of the terminal, which a command that was killed could not do.

        A shell does so only for a job that ends by a signal itself.
        """
        if self._terminal is not None and _is_in_foreground():
            termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._terminal)

    def _become(self, command: list[str], environ: Mapping[str, str], begin: int) -> NoReturn:
        """Become the command once it may begin; end if it may not."""
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
    """Have this process end by SIGTERM once its parent has ended, even by SIGKILL."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _is_in_foreground() -> bool:
    return os.isatty(_STDIN) and os.tcgetpgrp(_STDIN) == os.getpgrp()
