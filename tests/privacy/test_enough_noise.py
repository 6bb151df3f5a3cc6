"""Whether noise gives what is promised, without the search for the least epsilon and without SciPy."""

import decimal
import json
import math
import subprocess
import sys
from fractions import Fraction

import msgspec
import pytest
import scipy.special
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpmpc import privacy
from dpmpc.base.errors import GuaranteeError
from dpmpc.data import Schema
from dpmpc.linear.noise import DiscreteGaussian
from dpmpc.privacy import gaussian
from dpmpc.privacy.gaussian import epsilon_of_mu, mu_of_budget
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design
from support.rejections import rejects
from support.unverified import unverified

CLIENTS = 2000
CHOICES = [
    {},
    {"noise_by": "servers"},
    {"sketch": "osnap", "rows": 60},
    {"sketch": "osnap", "rows": 60, "copies": "each"},
    {"noise": "skellam"},
    {"noise": "discrete-laplace"},
    {"corrupt_clients": 200, "dropouts": 100},
]


def task_of(**choices):
    return design(ReleaseSpec.of(Schema.unit(["a", "b"]), CLIENTS, 1.0, 1e-6, **choices))


def complementary_error(x):
    """erfc to 60 digits: 1 - erf by its series, sum_n x^(2n+1) 2^n / (2n+1)!! e^(-x^2) 2/sqrt(pi)."""
    term = total = x
    n = 0
    while abs(term) > decimal.Decimal(10) ** -180:
        n += 1
        term = term * 2 * x * x / (2 * n + 1)
        total += term
    pi = decimal.Decimal(
        "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
    )
    return 1 - 2 * total * (-x * x).exp() / pi.sqrt()


def exact_delta(mu, epsilon):
    """The curve of Balle and Wang, Theorem 8, in decimals."""
    with decimal.localcontext(prec=160):
        mu, epsilon = decimal.Decimal(mu), decimal.Decimal(epsilon)
        root = decimal.Decimal(2).sqrt()
        first = complementary_error((epsilon / mu - mu / 2) / root)
        return (first - epsilon.exp() * complementary_error((epsilon / mu + mu / 2) / root)) / 2


@settings(max_examples=60, deadline=None)
@given(mu=st.floats(1e-3, 20), epsilon=st.floats(0.0, 8.0))
@example(mu=0.236704, epsilon=1.0)
def test_nothing_is_proven_of_a_smaller_delta_than_the_exact_one(mu, epsilon):
    """To the last digit: delta is the double above the exact one, or the next."""
    if epsilon / mu > 8:
        return
    exact = exact_delta(mu, epsilon)
    ours = decimal.Decimal(gaussian.delta_of_mu(mu, epsilon))
    assert exact <= ours <= exact * (1 + decimal.Decimal("1e-15")) + decimal.Decimal("5e-324")


@given(epsilon=st.floats(0.05, 20), delta=st.floats(1e-12, 0.1))
def test_an_honest_mu_is_enough_and_the_next_double_is_not(epsilon, delta):
    mu = mu_of_budget(epsilon, delta)
    assert gaussian.delta_of_mu(mu, epsilon) <= delta
    assert gaussian.delta_of_mu(math.nextafter(mu, 1e3), epsilon) > delta
    assert epsilon_of_mu(mu, delta) <= epsilon
    assert gaussian.delta_of_mu(mu, math.nextafter(epsilon_of_mu(mu, delta), 0.0)) > delta


@pytest.mark.parametrize("choices", CHOICES, ids=repr)
def test_a_task_is_refused_just_when_its_guarantee_is(choices):
    task = task_of(**choices)
    assert task.verify() is task
    mere = unverified(task)
    assert mere.verify() is mere.verify() == task  # once
    achieved = task.guarantee.achieved_epsilon
    for factor, refused in ((1.0000001, False), (0.9999999, True), (0.5, True)):
        promised = unverified(task, epsilon=achieved * factor)
        for check in (promised.verify, lambda promised=promised: promised.guarantee):
            if refused:
                with pytest.raises(GuaranteeError, match=f"epsilon: {promised.epsilon:g} promised, but"):
                    check()
            else:
                check()


def test_what_a_static_coalition_takes_of_delta_is_not_spent_again():
    """Noise for the whole of delta, where a part of it is the chance that the coalition is well placed."""
    choices = {"sketch": "osnap", "rows": 60, "copies": "each", "corrupt_clients": 20, "coalition": "static"}
    delta = 1.5 * task_of(**choices).trust.failure
    task = design(ReleaseSpec.of(Schema.unit(["a", "b"]), CLIENTS, 1.0, delta, **choices))
    exposure = task.noising.exposure(task.sketch, task.trust)
    least = privacy.accountant_of(task.noise.name).least(exposure, task.sensitivity, task.epsilon, delta)
    assert least.variance < task.noise.variance
    with pytest.raises(GuaranteeError):
        unverified(task, noise=least).verify()


def test_noise_so_narrow_that_nothing_is_proven_is_refused():
    task = task_of(noise_by="servers")
    with pytest.raises(GuaranteeError, match="gives epsilon = inf"):
        unverified(task, noise=DiscreteGaussian(0.3)).verify()


def test_the_public_matrix_is_measured_once(monkeypatch):
    task = Task.from_dict(task_of(sketch="osnap", rows=60, copies="each").to_dict())
    measured = []
    honest = type(task.noising).exposure
    monkeypatch.setattr(type(task.noising), "exposure", lambda *given: measured.append(given) or honest(*given))
    assert task.verify().verify().guarantee.epsilon == 1.0
    assert len(measured) == 1


@pytest.mark.parametrize("choices", CHOICES, ids=repr)
def test_a_server_verifies_an_honest_task_without_scipy(choices):
    """Loading it takes a fifth of a second of every server, more than a small fit."""
    code = (
        "import json, sys; from dpmpc.privacy.task import Task\n"
        "Task.from_dict(json.loads(sys.argv[1])).verify()\n"
        "sys.exit('scipy' in sys.modules)"
    )
    description = json.dumps(task_of(**choices).to_dict())
    subprocess.run([sys.executable, "-c", code, description], check=True, timeout=60)


def test_a_threshold_that_shamir_shares_do_not_have_is_refused():
    """By the constructor: noise alone states nothing about the shares."""
    task = task_of(sharing="shamir")
    with rejects("threshold", given="0"):
        unverified(task, trust=msgspec.structs.replace(task.trust, corrupt_servers=0))


@pytest.mark.parametrize("epsilon", [1e13, 1e16, 1e20, 1e100, 1e300])
def test_at_an_epsilon_without_digits_delta_is_still_the_exact_one(epsilon):
    """Phi(-x) at x = epsilon/mu - mu/2, whose two parts are all but the same; e^epsilon Phi(-y) is less than 1/mu."""
    mu = math.sqrt(2 * epsilon)
    x = float(Fraction(epsilon) / Fraction(mu) - Fraction(mu) / 2)
    assert gaussian.delta_of_mu(mu, epsilon) == pytest.approx(scipy.special.ndtr(-x), rel=1e-6, abs=1e-6)
    assert gaussian.delta_of_mu(mu * 1.001, epsilon) == 1.0
    assert gaussian.delta_of_mu(mu * 0.999, epsilon) == 0.0
    assert gaussian.delta_of_mu(1e-3, 1e308) == 0.0


def test_two_huge_numbers_that_cancel_keep_their_digits():
    """Without rounding x = epsilon/mu - mu/2 is 0 here, and Phi(-x) = 1/2."""
    assert gaussian.delta_of_mu(2.0**200, 2.0**399) == pytest.approx(0.5, rel=1e-15)
