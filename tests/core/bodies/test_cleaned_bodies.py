"""Values of a written body that JSON does not have."""

from __future__ import annotations

import pytest

from streamnorm import EncodeError
from streamnorm._core.bodies import fields
from streamnorm._core.losses import Losses


def test_value_that_json_lacks_is_refused() -> None:
    with pytest.raises(EncodeError, match="a value that JSON does not have"):
        fields.clean_body({"a": object()}, Losses())
