"""The tail of the chi-square distribution against scipy's."""

from __future__ import annotations

import pytest
from scipy.special import chdtrc

from calibody.estimate.chi_square import exceeded


@pytest.mark.parametrize("dof", [1, 2, 3, 20, 21, 500, 1961])
def test_the_tail_is_that_of_scipy(dof: int) -> None:
    for share in (0.0, 0.3, 0.9, 1.0, 1.1, 2.0, 10.0):
        assert exceeded(dof, share * dof) == pytest.approx(float(chdtrc(dof, share * dof)), rel=1e-9, abs=1e-300)
