"""The provenance of a release: an in-toto statement with a predicate of SLSA 1.

https://slsa.dev/spec/v1.0/provenance, read 2026-11-28.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from release.artifacts import sha256

__all__ = ["NOT_ATTESTED", "Build", "statement"]

#: What a reader of the statement must not take it for.
NOT_ATTESTED = (
    "The statement is not signed: whoever can change the files can change it.",
    "No hosted service made the build: the builder is the command, on the machine of its caller.",
    "The commit is the one that the clone names; no signature of it was checked.",
    "Build tools come from a package index by version, without pinned hashes.",
)


class Build(NamedTuple):
    """What a release was built from, and with what.

    Attributes:
        repository: URL of the repository.
        commit: Hash of the commit.
        epoch: Seconds since 1970 of the commit, which all files of the release have.
        tools: Versions of the build tools, by name.
        python: Version of the Python that ran them.
        started, finished: Times of the build, in RFC 3339.
    """

    repository: str
    commit: str
    epoch: int
    tools: Mapping[str, str]
    python: str
    started: str
    finished: str


def statement(build: Build, files: list[Path]) -> str:
    """Return the statement on the files of a build, as JSON."""
    source = f"git+{build.repository}"
    command = f"{build.repository}/blob/{build.commit}/tests/release/run.py"
    tools = [
        {"uri": f"pkg:pypi/{name}@{version}", "name": name}
        for name, version in sorted(build.tools.items())
    ]
    predicate: dict[str, Any] = {
        "buildDefinition": {
            "buildType": command,
            "externalParameters": {"source": source, "commit": build.commit},
            "internalParameters": {"SOURCE_DATE_EPOCH": build.epoch, "python": build.python},
            "resolvedDependencies": [
                {"uri": source, "digest": {"gitCommit": build.commit}},
                *tools,
            ],
        },
        "runDetails": {
            "builder": {"id": command},
            "metadata": {"startedOn": build.started, "finishedOn": build.finished},
        },
        "streamnorm_notAttested": NOT_ATTESTED,
    }
    whole = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": sha256(path)}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": predicate,
    }
    return json.dumps(whole, indent=2) + "\n"
