"""The command that searches recordings for secrets: `streamnorm scan`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from streamnorm.cli import console

if TYPE_CHECKING:
    from streamnorm.recording.scanning import Finding


_UNREADABLE = 2
_FOUND = 7
_STATUSES = {
    0: "no secret was found",
    _UNREADABLE: "wrong usage, or a file that cannot be read",
    _FOUND: "a secret was found",
}


def add_commands(add_parser: console.AddParser) -> None:
    """Add `scan`."""
    scan = add_parser(
        "scan",
        help="find secrets in recordings",
        description="Find keys, tokens and other secrets in recordings, cassettes and HAR files,\n"
        "and name file, place and kind of each on stdout. No secret is shown.",
        epilog=console.format_statuses(_STATUSES),
    )
    scan.add_argument("paths", nargs="+", metavar="PATH", help="a directory, or a file")
    scan.add_argument("--json", action="store_true", help="write one line of JSON")
    scan.set_defaults(run=_scan)


def _scan(arguments: argparse.Namespace) -> int:
    from streamnorm.recording.scanning import scan_file

    files = _find_files(arguments.paths)
    findings: list[Finding] = []
    is_unreadable = False
    for file in files:
        found: list[Finding] = []
        try:
            # What was found before an error is told.
            found.extend(scan_file(file))
        except OSError as exc:
            console.print_error(f"{file}: {exc.strerror}")
            is_unreadable = True
        if not arguments.json:
            console.print_lines(f"{file}: {finding.place}: {finding.kind}" for finding in found)
        findings += found
    if arguments.json:
        documents = [
            {"file": str(finding.file), "place": finding.place, "kind": finding.kind}
            for finding in findings
        ]
        console.print_json({"files": len(files), "findings": documents})
    console.print_status(_summarise(len(files), findings))
    if findings:
        return _FOUND
    return _UNREADABLE if is_unreadable else 0


def _find_files(paths: list[str]) -> list[Path]:
    from streamnorm.recording.scanning import find_files

    files: dict[Path, None] = {}
    with console.convert_os_errors():
        for path in map(Path, paths):
            path.stat()
            files |= dict.fromkeys(find_files(path))
    return list(files)


def _summarise(files: int, findings: list[Finding]) -> str:
    if not findings:
        return f"no secrets in {files} {'file' if files == 1 else 'files'}"
    leaky = len({finding.file for finding in findings})
    secrets = "1 secret" if len(findings) == 1 else f"{len(findings)} secrets"
    return f"{secrets} in {leaky} of {files} {'file' if files == 1 else 'files'}"
