"""What public facts, specifications and accountants refuse, and what a release without noise promises."""

import dataclasses
import math
from fractions import Fraction

import msgspec
import pytest

from dpmpc.base.errors import GuaranteeError, InputError
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.noise import FAMILIES, Noise
from dpmpc.linear.noise.floating import Gaussian
from dpmpc.privacy import gaussian
from dpmpc.privacy.accountants import Accountant, _mu_above, accountant_of
from dpmpc.privacy.calibration import NoisePlacement
from dpmpc.privacy.composition import ZCDPBudget, _left, rho_of_sum
from dpmpc.privacy.guarantee import NoGuarantee
from dpmpc.privacy.specification import Budget, Mechanism, ReleaseSpec, TrustModel, choices_of
from dpmpc.privacy.task import PublicFacts, Task, VerifiedTask, require_verified
from dpmpc.release.planning import design
from support.rejections import rejects

COLUMNS = Schema.unit(["x", "y"])


def task(clients=1000, **choices):
    return design(ReleaseSpec.of(COLUMNS, clients, 1.0, 1e-6, **choices))


@pytest.mark.parametrize(
    ("changed", "rejection"),
    [
        ({"trust": TrustModel()}, {"argument": "corrupt_servers", "given": "None"}),
        (
            {"sharing": "shamir"},
            {"argument": "ring", "given": "'ring64'", "expected": "'mersenne61'", "condition": "with Shamir shares"},
        ),
        ({"noise": Gaussian(10.0)}, {"argument": "noise", "given": "gaussian", "expected": "an integer noise"}),
        ({"sharing": "parity"}, {"argument": "sharing", "given": "'parity'"}),
        ({"calibration": "none"}, {"argument": "calibration", "given": "'none'"}),
        ({"simulation": 1}, {"argument": "simulation", "given": "1"}),
    ],
)
def test_public_facts_that_do_not_belong_together_are_refused(changed, rejection):
    with rejects(**rejection):
        msgspec.structs.replace(task(sketch="sum"), **changed)


def test_what_clients_prove_is_in_the_field_and_noised_by_servers():
    proved = task(sketch="sum", proved=True, noise_by="servers")
    with rejects("ring", expected="'mersenne61'"):
        msgspec.structs.replace(proved, encoding=task(sketch="sum").encoding)
    with rejects("noise_by", expected="'servers'"):
        msgspec.structs.replace(proved, noising=NoisePlacement("clients"))


def test_a_task_without_noise_promises_nothing():
    silent = task(sketch="sum").without_noise()
    assert silent.noiseless
    assert isinstance(silent.guarantee, NoGuarantee)
    assert isinstance(silent.guarantee_under("semi-honest"), NoGuarantee)
    assert silent.guarantee.headline == "guarantee: none, for any of 1,000 clients"
    assert "no one is protected" in str(silent.guarantee)
    assert silent.guarantee.composition is None
    assert silent.epsilon_against(0) == math.inf
    assert silent.noise.variance == silent.noise.tail(1000, 50.0) == 0.0
    assert silent.noise.sample(3, Stream.from_seed(1)).tolist() == [0, 0, 0]
    assert isinstance(silent.verify(), VerifiedTask)
    with rejects("noise", GuaranteeError, expected="some"):
        msgspec.structs.replace(silent, simulation=False).require_enough_noise()


def test_tasks_are_equal_by_their_digests():
    one, again = task(sketch="sum"), task(sketch="sum")
    assert one == again
    assert hash(one) == hash(again)
    assert one not in (one.without_noise(), "task")
    assert require_verified(one) is one
    with rejects("task", given="a Task given, a VerifiedTask expected, as task.verify() returns it"):
        require_verified(Task.from_dict(one.to_dict()))


def test_what_takes_long_to_check_is_refused_before_it_is_checked():
    assert task(sketch="sum").check_seconds == 0.0
    each, one = (task(sketch="osnap", rows=300, sparsity=4, copies=copies) for copies in ("each", "one"))
    assert 0 < each.check_seconds < one.check_seconds  # overlaps of rows are inverted for one copy
    assert one.require_checkable(one.check_seconds) is one
    with pytest.raises(InputError, match="1,000 clients in 4 of 300 rows each given"):
        one.require_checkable(0.0)


def test_public_facts_have_to_say_what_they_promise():
    class Bare(PublicFacts, frozen=True, kw_only=True):
        epsilon: float
        delta: float
        simulation: bool

    bare = Bare(epsilon=1.0, delta=0.0, simulation=True)
    for promised in (lambda: bare.guarantee, bare.require_enough_noise, bare.prove_no_overflow):
        with pytest.raises(NotImplementedError):
            promised()


def test_a_guarantee_names_links_rows_and_several_sums():
    guarantee = task(sketch="sum").guarantee
    assert "secret-links" in guarantee.assumptions
    other = guarantee.over("links-of-mpyc")
    assert "links-of-mpyc" in other.assumptions
    assert "secret-links" not in other.assumptions
    assert "owner" in guarantee.statement("rows")
    assert repr(guarantee) == f"<Guarantee: {guarantee.headline}, {guarantee.neighbouring}>"
    assert msgspec.structs.replace(guarantee, sums=3).noise_text.startswith("3 sums with fresh")


def test_what_a_specification_refuses():
    parts = {"schema": COLUMNS, "clients": 10, "budget": Budget(1.0, 1e-6)}
    with rejects("budget", given="1.0", expected="a Budget"):
        ReleaseSpec(**{**parts, "budget": 1.0})
    with rejects(
        "contribution",
        given="'sum' given, one of the classes of dpmpc.linear.contributions expected, such as SecondMoments()",
    ):
        ReleaseSpec(**parts, contribution="sum")
    with pytest.raises(InputError, match="nonsense: given, one of "):
        ReleaseSpec.of(COLUMNS, 10, 1.0, 1e-6, nonsense=1)
    with rejects("calibration", given="'paper'", expected="'joint'"):  # of a noise from outside
        Accountant.as_in_paper(None, None, None, 1.0, 1e-6, None)

    class Plain(msgspec.Struct):
        undescribed: int = 0

    assert choices_of(Plain, Mechanism) == choices_of(Mechanism)


def test_bounds_are_rounded_to_the_safe_side():
    assert _left(1e-6, 0.0, [math.nextafter(1e-6, 1.0)]) == 0.0  # a rounding error is nothing spent
    assert _left(1e-6, 0.0, [1.1e-6]) < 0.0
    assert _mu_above(1.0, 1.0, Fraction(0)) == _mu_above(1.0, math.inf, Fraction(1)) == math.inf
    with rejects("sigma", GuaranteeError, given="0.4"):
        rho_of_sum(1.0, 0.4, 2, 3)
    assert gaussian.epsilon_of_mu(1e160, 1e-6) == math.inf
    with rejects("epsilon", given="nan"):
        gaussian.delta_of_mu(1.0, math.nan)
    assert gaussian._iterated(lambda here: 1.001 * here, 1.0) < math.inf  # a search that does not end is left


def test_digits_that_cancel_are_computed_again_with_more(monkeypatch):
    exact, asked = gaussian.curve(0.5, 2.0), []
    compute = gaussian._curve

    def cancelled(mu, epsilon, lost):
        asked.append(lost)
        return None if len(asked) == 1 else compute(mu, epsilon, lost)

    monkeypatch.setattr(gaussian, "_curve", cancelled)
    assert gaussian.curve(0.5, 2.0) == exact
    assert asked[1] == 2 * asked[0]
    assert compute(gaussian.Decimal("0.5"), gaussian.Decimal(2), 0) is None


def test_no_epsilon_is_infinite(monkeypatch):
    monkeypatch.setattr(gaussian, "delta_of_mu", lambda mu, epsilon: 1.0)
    assert gaussian.epsilon_of_mu.__wrapped__(1.0, 1e-6) == math.inf


def test_a_budget_of_zcdp_is_not_overdrawn():
    budget = ZCDPBudget(1.0)
    budget.spend(0.75, "a mean")
    with rejects("rho", given="-1 given for a mean, a number >= 0 expected"):
        budget.spend(-1.0, "a mean")
    with rejects(
        "rho", GuaranteeError, given="0.5 asked for a covariance, but 0.75 of 1 is spent: at most 0.25 expected"
    ):
        budget.spend(0.5, "a covariance")
    assert budget.spent == 0.75


def test_noise_of_servers_counts_as_many_as_are_honest():
    trust = TrustModel(servers=3, corrupt_servers=2)
    assert NoisePlacement("servers").honest_servers(trust) == trust.honest_servers == 1
    calibration = task(sketch="sum")._calibration
    starved = dataclasses.replace(calibration, delta=-1e-9)  # what was set aside is more than there is
    assert starved.epsilon_of(task(sketch="sum").noise) == math.inf


def test_the_facts_of_a_verified_task_are_no_verified_task():
    verified = task().verify()
    facts = verified.facts()
    assert type(facts) is Task
    assert facts.to_dict() == verified.to_dict()
    assert facts.verify() == verified
    with rejects("task"):
        require_verified(facts)


def test_a_noise_without_an_accountant_is_rejected(monkeypatch):
    class Silent(Noise):
        name, parameters = "silent", ()

    monkeypatch.setitem(FAMILIES.data, "silent", Silent)
    with rejects("noise", given="'silent' of None without an accountant"):
        accountant_of("silent")
