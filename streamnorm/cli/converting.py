"""The commands that convert files of other tools: `streamnorm import` and `streamnorm export`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from streamnorm.cli import console
from streamnorm.cli.recordings import explain_no_recordings

if TYPE_CHECKING:
    from streamnorm.recording import Recording


_STATUSES = {0: "done", 2: "wrong usage, or a file that cannot be read or written"}


def add_commands(add_parser: console.AddParser) -> None:
    """Add `import` and `export`."""
    importing = add_parser(
        "import",
        help="make recordings of a cassette or a HAR",
        description="Make recordings of a YAML cassette (vcrpy, cassetter) or a HAR file, and\n"
        "name each on stdout.",
        epilog=console.format_statuses(_STATUSES),
    )
    importing.add_argument("file", metavar="FILE", help="the cassette or HAR")
    importing.add_argument("--out", required=True, metavar="DIR", help="where to write recordings")
    importing.set_defaults(run=_import)
    exporting = add_parser(
        "export",
        help="write recordings as a HAR",
        description="Write recordings as a HAR file.",
        epilog=console.format_statuses(_STATUSES),
    )
    exporting.add_argument(
        "paths", nargs="+", metavar="PATH", help="a recording's stream, or a directory of them"
    )
    exporting.add_argument("--out", required=True, metavar="FILE", help="the .har to write")
    exporting.set_defaults(run=_export)


def _import(arguments: argparse.Namespace) -> int:
    from streamnorm.recording.importing import import_file

    present: list[Recording] = []
    imported = import_file(Path(arguments.file), Path(arguments.out), on_present=present.append)
    for recording in imported:
        console.write([os.fsencode(recording.path or recording.name), b"\n"])
    if present:
        console.print_status(f"already in {arguments.out}: {len(present)} of {len(imported)}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from streamnorm.recording.importing import export_har
    from streamnorm.recording.library import Library

    recordings: list[Recording] = []
    for path in arguments.paths:
        found = Library(path).recordings
        if not found:
            raise explain_no_recordings(path)
        recordings += found
    export_har(recordings, Path(arguments.out))
    console.write([os.fsencode(arguments.out), b"\n"])
    return 0
