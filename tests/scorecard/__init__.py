"""The scorecard: converted adversarial streams, judged as strict clients read them.

`cases.all_cases(source)` returns the streams of a source dialect, each with its whole message
written by hand.  A converter rewrites `Case.data` as a stream of a target dialect;
`judging.judge(case, target, out)` reads the bytes as a client of the target does, by code that
shares nothing with the package, and returns the faults.  A converter that returns a whole
message is judged by `judge_message(case, message)`; one that raised, by `judge_exception`.
`python -m tests.scorecard` prints the table of clean streams.
"""

import sys
from pathlib import Path

# The streams and their builders are imported as tests import them.
_TESTS = str(Path(__file__).parents[1])
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
