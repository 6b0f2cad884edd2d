"""The solver on its own: the Lotka-Volterra problem of Bock with its printed solution and covariance, bounds, and bad problems."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from calibody.errors import CalibodyError, NumericalError, told
from calibody.solve import condensed
from calibody.solve.arrow import Arrow, bounded
from calibody.solve.condensed import Linearisation
from calibody.solve.gauss_newton import AbstractProblem, Iteration, Settings, _alternates, minimise
from calibody.solve.globalisation import Globalisation

Y1 = np.array([1, 0.997829, 2.366363, 6.448709, 5.225859, 2.617129, 1.324945, 1.071534, 1.058930, 3.189685, 6.790586])
Y2 = np.array([1, 2.249977, 3.215969, 1.787353, 1.050747, 0.215085, 0.109813, 1.276422, 2.493237, 3.079619, 1.665567])
PER_SECOND = 100
N = 10 * PER_SECOND + 1
H = 1.0 / PER_SECOND


def rate(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.stack([-x[0] + p[0] * x[0] * x[1], x[1] - p[1] * x[0] * x[1]])


def rate_by_state(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    one = np.ones_like(x[0])
    return np.array([[-one + p[0] * x[1], p[0] * x[0]], [-p[1] * x[1], one - p[1] * x[0]]])


def rate_by_parameters(x: np.ndarray) -> np.ndarray:
    zero = 0.0 * x[0]
    return np.array([[x[0] * x[1], zero], [zero, -x[0] * x[1]]])


class LotkaVolterra(AbstractProblem):
    """Hermite-Simpson collocation (fourth order) as the exact constraints."""

    def __init__(self, upper: float = np.inf) -> None:
        self.lower, self.upper, self.scale = np.zeros(2), np.array([upper, np.inf]), np.ones(2)

    def values(self, x: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, b = x[:, :-1], x[:, 1:]
        fa, fb = rate(a, theta), rate(b, theta)
        middle = (a + b) / 2 + H / 8 * (fa - fb)
        C = (b - a) / H - (fa + 4 * rate(middle, theta) + fb) / 6
        return np.concatenate([(x[0, ::PER_SECOND] - Y1) / 0.1, (x[1, ::PER_SECOND] - Y2) / 0.2]), C.T.ravel()

    def linearise(self, x: np.ndarray, theta: np.ndarray) -> Linearisation:
        F, C = self.values(x, theta)
        a, b = x[:, :-1], x[:, 1:]
        fa, fb = rate(a, theta), rate(b, theta)
        m = (a + b) / 2 + H / 8 * (fa - fb)
        A, B, M = rate_by_state(a, theta), rate_by_state(b, theta), rate_by_state(m, theta)
        one = np.eye(2)[:, :, None]

        def times(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
            return np.einsum("ijk,jlk->ilk", X, Y)

        Ja = -one / H - (A + 4 * times(M, one / 2 + H / 8 * A)) / 6
        Jb = one / H - (B + 4 * times(M, one / 2 - H / 8 * B)) / 6
        Jp = (
            -(rate_by_parameters(a) + rate_by_parameters(b) + 4 * (rate_by_parameters(m) + times(M, H / 8 * (rate_by_parameters(a) - rate_by_parameters(b)))))
            / 6
        )
        k = np.arange(N - 1)
        rows, columns, values = [], [], []
        for i in range(2):
            for j in range(2):
                rows += [2 * k + i] * 2
                columns += [2 * k + j, 2 * k + 2 + j]
                values += [Ja[i, j], Jb[i, j]]
        Cx = sp.csr_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(2 * (N - 1), 2 * N))
        samples = 2 * PER_SECOND * np.arange(11)
        Fx = sp.csr_matrix((np.repeat([10.0, 5.0], 11), (np.arange(22), np.concatenate([samples, samples + 1]))), shape=(22, 2 * N))
        return Linearisation(F, Fx, np.zeros((22, 2)), C, Cx, Jp.transpose(2, 0, 1).reshape(-1, 2))

    def move(self, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        return x + d.reshape(N, 2).T


def first() -> np.ndarray:
    t = np.linspace(0, 10, N)
    return np.stack([np.interp(t, np.arange(11), Y1), np.interp(t, np.arange(11), Y2)])


@pytest.mark.parametrize("guess", [(0.5, 0.5), (1.0, 1.0), (0.1, 0.1)])
def test_lotka_volterra(guess: tuple[float, float]) -> None:
    solution = minimise(LotkaVolterra(), first(), np.array(guess))
    assert solution.converged and len(solution.history) <= 10
    np.testing.assert_allclose(solution.theta, (0.69397115, 0.34092149), atol=1e-7)
    assert 2 * solution.cost == pytest.approx(23.030871, abs=2e-6)
    assert solution.last is not None
    covariance = 2 * solution.cost / 18 * np.linalg.inv(solution.last.information)
    np.testing.assert_allclose(covariance, [[6.31059e-4, 8.10761e-6], [8.10761e-6, 1.44984e-5]], rtol=1e-5)


def test_an_active_bound() -> None:
    solution = minimise(LotkaVolterra(upper=0.65), first(), np.array((0.5, 0.5)))
    assert solution.converged and solution.theta[0] == 0.65
    free = minimise(LotkaVolterra(), first(), np.array((0.5, 0.5)))
    assert solution.cost > free.cost


def test_it_says_when_it_gives_up() -> None:
    solution = minimise(LotkaVolterra(), first(), np.array((0.5, 0.5)), Settings(iterations=2))
    assert not solution.converged and "2 iterations" in solution.status


class Bent(AbstractProblem):
    """A residual like dry friction, `100 t/sqrt(1 + t^2)`: Gauss-Newton goes from t to -t^3, hardly nearer from side to side where |t| is a little less than one."""

    lower, upper, scale = np.full(1, -np.inf), np.full(1, np.inf), np.full(1, 10.0)

    def values(self, x: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.concatenate([100.0 * theta / np.sqrt(1.0 + theta**2), x]), np.zeros(0)

    def linearise(self, x: np.ndarray, theta: np.ndarray) -> Linearisation:
        Fx, Ft = sp.csr_matrix(np.array([[0.0], [1.0]])), np.array([[100.0 * float((1.0 + theta[0] ** 2) ** -1.5)], [0.0]])
        return Linearisation(self.values(x, theta)[0], Fx, Ft, np.zeros(0), sp.csr_matrix((0, 1)), np.zeros((0, 1)))

    def move(self, x: np.ndarray, d: np.ndarray) -> np.ndarray:
        return x + d


def test_a_step_back_is_halved() -> None:
    found = minimise(Bent(), np.zeros(1), np.array([0.995]))
    assert found.converged and abs(found.theta[0]) < 1e-6
    assert [i.length for i in found.history[:2]] == [1.0, 0.5] and len(found.history) <= 5  # nine without


@pytest.mark.parametrize("repeats", [2, 4])
@pytest.mark.parametrize("sides", [2, 3, 4])
def test_going_round_is_seen(sides: int, repeats: int) -> None:
    """Points that come back after as many steps as a kink has sides, soon enough, and not before."""
    points = [np.array([float(k % sides)]) for k in range(sides + repeats)]
    history = [Iteration(k, 0.0, 0.0, 1.0, 1.0, 0.0, theta) for k, theta in enumerate(points)]
    assert _alternates(history, np.eye(1), repeats)  # type: ignore[arg-type]
    assert not _alternates(history[:-1], np.eye(1), repeats)  # type: ignore[arg-type]
    history[-1].theta = points[-1] + 0.1
    assert not _alternates(history, np.eye(1), repeats)  # type: ignore[arg-type]


def test_bounded_quadratic_programmes_satisfy_their_conditions() -> None:
    """Random programmes: within bounds, free slopes zero, slopes at bounds pointing outwards."""
    rng = np.random.default_rng(4)
    for _ in range(300):
        p = int(rng.integers(1, 9))
        A = rng.normal(size=(p + 2, p))
        H_, g = A.T @ A, 3 * rng.normal(size=p)
        lower, upper = -rng.uniform(0, 1, p), rng.uniform(0, 1, p)
        d, _ = bounded(Arrow.dense(H_), g, lower, upper, np.ones(p))
        slope = H_ @ d + g
        assert np.all(d >= lower - 1e-12) and np.all(d <= upper + 1e-12)
        inside = (d > lower + 1e-12) & (d < upper - 1e-12)
        np.testing.assert_allclose(slope[inside], 0.0, atol=1e-8 * max(1.0, np.abs(g).max()))
        assert np.all(slope[d <= lower + 1e-12] >= -1e-8) and np.all(slope[d >= upper - 1e-12] <= 1e-8)


@pytest.mark.parametrize(("n", "half", "rhs"), [(50, 13, 3), (333, 20, 5), (1000, 70, 1)])
def test_a_band_by_panels_is_the_band(n: int, half: int, rhs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(n)
    offsets = range(-half, half + 1)
    K = sp.diags([rng.normal(size=n - abs(k)) * (rng.random(n - abs(k)) < 0.5) for k in offsets], list(offsets))  # type: ignore[arg-type]
    K, b = sp.csr_matrix(K + K.T), rng.normal(size=(n, rhs))
    found = []
    pattern = condensed.Pattern(condensed.places_of(K), n, sp.csr_matrix((0, n)), np.arange(n, dtype=float))
    for narrow in (0, n):
        monkeypatch.setattr(condensed, "NARROW", narrow)
        band = condensed._Band(pattern, K.data, condensed.MANY)
        assert band.factored and (band.panels is not None) == (narrow == 0)
        found.append((band.solve(b.copy()), band.solve(b[:, 0].copy()), band.log_determinant))
    for x, one, _ in found:
        assert np.abs(K @ x - b).max() < 1e-9 and np.abs(one - x[:, 0]).max() < 1e-9 * np.abs(x).max()
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-12)


def test_entries_that_happen_to_be_zero_make_no_new_pattern() -> None:
    """Products of sparse matrices leave out what is zero by chance: patterns were made anew in every step, and kept."""
    rng, n = np.random.default_rng(4), 40
    C, when = sp.csr_matrix(np.eye(3, n, n - 3)), np.arange(n + 3, dtype=float)
    full = sp.diags([np.ones(n - abs(k)) for k in range(-3, 4)], list(range(-3, 4)), format="csr")  # type: ignore[arg-type]
    kept = condensed._Patterns()
    patterns = []
    for _ in range(30):
        P = full.copy()
        P.data = rng.normal(size=P.nnz) * (rng.random(P.nnz) < 0.97)
        P.eliminate_zeros()
        patterns.append(kept(P, C, when))
        entries, K = patterns[-1].of_P(P), np.zeros((n, n))
        K[np.divmod(patterns[-1].places, n)] = entries
        np.testing.assert_array_equal(K, P.toarray())
    assert len(kept.found) == 1 and patterns[-1] is patterns[-2]
    wide = sp.csr_matrix(np.ones((n, n)))
    assert kept(wide, C, when) is not patterns[-1] and kept(full, C, when).half == patterns[-1].half < kept(wide, C, when).half


def test_patterns_are_kept_for_runs_side_by_side() -> None:
    """Threads that look for other patterns do not change what is kept while one counts it."""
    n, kept, before = 6, condensed._Patterns(), sys.getswitchinterval()
    P, when = sp.csr_matrix(np.eye(n)), np.arange(n + 1, dtype=float)

    def sought(k: int) -> int:
        C = sp.csr_matrix((np.ones(2), ([0, 0], [k % n, (k // n) % n])), shape=(1, n))
        return kept(P, C, when + 0.01 * k).size

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(sought, range(1500))) == {n + 1}
    finally:
        sys.setswitchinterval(before)
    assert len(kept.found) == condensed.PATTERNS


def test_states_of_several_runs_are_damped_each_by_its_own() -> None:
    rng, sizes = np.random.default_rng(5), (6, 9)

    def some(*shape: int) -> np.ndarray:
        return rng.normal(size=shape)

    parts = tuple(Linearisation(some(n + 2), sp.csr_matrix(some(n + 2, n)), some(n + 2, 2), some(2), sp.csr_matrix(some(2, n)), some(2, 2)) for n in sizes)
    runs = condensed.Runs(np.zeros(0), sp.csr_matrix((0, 2)), parts, (np.arange(2), np.arange(2)), 2)
    F, Ft, C, Ct = (np.concatenate([getattr(part, name) for part in parts]) for name in ("F", "Ft", "C", "Ct"))
    Fx, Cx = (sp.block_diag([getattr(part, name) for part in parts], format="csr") for name in ("Fx", "Cx"))
    damping, bounds = rng.uniform(0.0, 3.0, sum(sizes)), np.full(2, np.inf)
    found = [condensed.step(lin, np.zeros(2), -bounds, bounds, np.ones(2), np.ones(2), states=damping) for lin in (runs, Linearisation(F, Fx, Ft, C, Cx, Ct))]
    for name in ("states", "multipliers", "parameters"):
        np.testing.assert_allclose(*(getattr(x, name) for x in found), rtol=1e-8, atol=1e-10, err_msg=name)


def test_a_matrix_that_cannot_be_factored_is_no_mistake_of_the_user() -> None:
    """It has an exception of its own; at the door of an estimator that becomes a sentence."""
    assert not issubclass(NumericalError, CalibodyError)
    with pytest.raises(CalibodyError, match="singular") as sentence, told():
        raise condensed.singular()
    assert isinstance(sentence.value.__cause__, NumericalError)


def test_a_variable_without_room_is_on_its_bound_whichever_way_it_is_pulled() -> None:
    H, scale, room = np.array([[2.0, 0.5], [0.5, 1.0]]), np.ones(2), np.array([0.0, 10.0])
    for pull in (1.0, -1.0):
        d, fixed = bounded(H, np.array([pull, 1.0]), -room, room, scale)
        assert fixed.tolist() == [True, False] and d == pytest.approx([0.0, -1.0])


class Toothed(Bent):
    """A parabola, and teeth whose slopes lead nowhere but are as steep."""

    lower, upper, scale = np.full(1, -np.inf), np.full(1, np.inf), np.full(1, 1.0)
    FINE = 1e-3

    def values(self, x: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.array([10.0 * theta[0], 1.0 + 0.004 * np.sin(theta[0] / self.FINE), x[0]]), np.zeros(0)

    def linearise(self, x: np.ndarray, theta: np.ndarray) -> Linearisation:
        Ft = np.array([[10.0], [0.004 / self.FINE * np.cos(theta[0] / self.FINE)], [0.0]])
        return Linearisation(self.values(x, theta)[0], sp.csr_matrix(np.array([[0.0], [0.0], [1.0]])), Ft, np.zeros(0), sp.csr_matrix((0, 1)), np.zeros((0, 1)))


@pytest.mark.parametrize("start", [0.31, 0.3125, 0.73])
def test_a_step_along_a_tooth_that_leads_up_is_not_taken(start: float) -> None:
    found, lost = (
        minimise(Toothed(), np.zeros(1), np.array([start]), Settings(globalisation=Globalisation("natural", False), tolerance=1e-6, jagged=jagged))
        for jagged in (True, False)
    )
    near = 0.03  # the bottom of the parabola is at 0 and 0.5; which tooth ends the way to it hangs on the last digit of a sine
    assert found.converged and found.history[-1].length == 0.0 and abs(found.theta[0]) < near and found.cost < 0.5 * ((10.0 * near) ** 2 + 1.004**2)
    assert not lost.converged and len(lost.history) == 60
