"""`inspect --html OUT`: write the page to a temporary file, which replaces OUT once complete."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streamnorm._registry import encoder
from streamnorm.cli import console
from streamnorm.cli.logs import redact
from streamnorm.cli.output_files import OutputFile
from streamnorm.recording.format import split_name

if TYPE_CHECKING:
    from streamnorm.inspect.report import Read, Report


def add_page_option(command: argparse.ArgumentParser) -> None:
    """Add `--html`."""
    command.add_argument(
        "--html",
        metavar="OUT",
        help="write a page for a browser, too: blocks, frames and, with --to, what DIALECT is\n"
        "sent; it loads nothing from elsewhere",
    )


class PageFile:
    """An HTML page that is written while its stream is read.

    Args:
        path: Path of the page; the file is private, as recordings are.
        name: Name of the stream.
        target: Dialect whose stream to show beside; None for none.
        redacts: Whether to write "x" for each byte of a secret.

    Raises:
        UsageError: The file cannot be written.
    """

    def __init__(self, path: Path, name: str, target: str | None, *, redacts: bool) -> None:
        from streamnorm.inspect.html_page import PageWriter
        from streamnorm.recording.secrets import Secrets

        self._path = path
        with console.convert_os_errors(path):
            self._out = OutputFile(path)
        self._is_complete = False
        self._redacts = redacts
        scrub = Secrets().scrub_text if redacts else None
        try:
            self._writer = PageWriter(self._write, name, target, scrub)
        except BaseException:
            self.close()
            raise

    def add(self, read: Read) -> None:
        """Add the frames and events of one chunk to the page."""
        self._writer.add(read)

    def finish(self, report: Report) -> None:
        """Write the end of the page."""
        self._writer.finish(redact(report) if self._redacts else report)
        self._is_complete = True

    def close(self) -> None:
        """Move a complete page to its path; delete an incomplete one."""
        with console.convert_os_errors(self._path):
            self._out.close(is_complete=self._is_complete)

    def _write(self, data: bytes) -> None:
        with console.convert_os_errors(self._path):
            self._out.file.write(data)


@contextmanager
def open_page(
    arguments: argparse.Namespace, name: str, *, redacts: bool = False
) -> Generator[PageFile | None]:
    """Open the page that `--html` names; None without the option.

    Args:
        arguments: The options of the command.
        name: Name of the stream.
        redacts: Whether to write "x" for each byte of a secret.

    Raises:
        UsageError: The page cannot be written, or is the file of the stream.
    """
    if arguments.html is None:
        yield None
        return
    path = Path(arguments.html)
    console.check_output("--html", arguments.html)
    if console.is_stdout(path) and not path.is_char_device():
        raise console.UsageError(f"--html: {path} is standard output, which has the report")
    if arguments.log is None and arguments.file != "-":
        companion = Path(split_name(Path(arguments.file))[0] + ".json")
        for used, name in ((Path(arguments.file), "stream"), (companion, "stream's companion")):
            if console.is_same_file(path, used):
                raise console.UsageError(f"--html: {path} is the {name}, expected another file")
    target = None if arguments.to is None else encoder(arguments.to).dialect
    with closing(PageFile(path, name, target, redacts=redacts)) as page:
        yield page
