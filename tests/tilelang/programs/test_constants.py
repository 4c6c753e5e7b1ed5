"""Constants that survive being printed."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("compiler")


@pytest.fixture
def constant():
    from tileops_tilelang.programs.constants import constant

    return constant


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.5, 3.0, 1e-3, 1e20])
def test_a_number_of_few_digits_is_a_constant(constant, value):
    assert float(constant(value).value) == pytest.approx(value, rel=2.0**-24)


@pytest.mark.parametrize("value", [16777217.0 * 3, 1 / 3])
def test_a_number_that_printing_would_change_is_refused(constant, value):
    with pytest.raises(ValueError, match="seven digits"):
        constant(value)
