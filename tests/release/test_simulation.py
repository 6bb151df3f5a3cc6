"""The three roles composed: what the servers open is the sketch of the clients' data plus noise, exactly."""

import io
import json
import zipfile

import msgspec
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmpc.base.errors import BatchMismatch, GuaranteeError, InputError, OverflowRisk, SimulationOnly
from dpmpc.base.randomness import Stream
from dpmpc.data import Schema
from dpmpc.linear.contributions import Rows, SecondMoments, contribution_from
from dpmpc.linear.encoding.fixed_point import FixedPoint
from dpmpc.linear.noise import DiscreteGaussian, DiscreteLaplace, noise_from
from dpmpc.linear.sharing.batch import FileShare
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release import simulation as model
from dpmpc.release.analyst import open_sums
from dpmpc.release.client import BLOCK, Client, share_batch
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from dpmpc.release.server import simulation_keys, transform
from support.rejections import blames, rejects
from support.unverified import unverified

NAMES = ("a", "b", "y")


def rows_of(clients, seed=0, columns=3):
    return np.random.default_rng(seed).uniform(-1, 1, (clients, columns))


def task_of(clients=600, **choices):
    choices = {"sketch": "osnap", "rows": 12, "sparsity": 3, "simulation_seed": 7, **choices}
    return design(ReleaseSpec.of(Schema.unit(NAMES), clients, 1.0, 1e-6, **choices))


def recorded(noise):
    """The same noise, and a list that will hold everything that it draws: the oracle of the exactness tests."""
    twin, drawn = noise_from(noise.describe()), []

    def sample(shape, stream=None, threads=1):
        drawn.append(noise.sample(shape, stream, threads))
        return drawn[-1].copy()

    twin.sample = sample
    return twin, drawn


EXACT = [
    {"sketch": "osnap", "rows": 12, "sparsity": 3},
    {"sketch": "osnap", "rows": 12, "sparsity": 3, "ring": "mersenne61"},
    {"sketch": "osnap", "rows": 12, "sparsity": 3, "copies": "each"},
    {"sketch": "osnap", "rows": 12, "sparsity": 3, "noise_by": "servers", "servers": 2},
    {"sketch": "sum", "rows": None, "sparsity": None, "noise_by": "servers", "noise": "skellam"},
    {"sketch": "countsketch", "rows": 12, "sparsity": None},
    {"sketch": "sum", "rows": None, "sparsity": None},
    {"sketch": "sum", "rows": None, "sparsity": None, "sharing": "shamir", "servers": 5},
    {"sketch": "osnap", "rows": 12, "sparsity": 3, "sharing": "shamir"},
    {"sketch": "osnap", "rows": 12, "sparsity": 3, "balanced": False, "servers": 2},
    {"sketch": "osnap", "rows": 12, "sparsity": 3, "noise": "discrete-laplace"},
    {"sketch": "sum", "rows": None, "sparsity": None, "noise": "discrete-laplace", "ring": "mersenne61"},
    {"sketch": "rademacher", "rows": 12, "sparsity": None},
    {"sketch": "rademacher", "rows": 12, "sparsity": None, "noise": "discrete-laplace", "ring": "mersenne61"},
]


@pytest.mark.parametrize("choices", EXACT)
def test_the_opened_sketch_is_the_integer_sketch_plus_noise_exactly(choices):
    task = task_of(**choices)
    noise, drawn = recorded(task.noise)
    rows = rows_of(task.clients)
    release = model.run(msgspec.structs.replace(task, noise=noise), rows, stream=Stream.from_seed(3))
    encoded = task.statistic.encode(rows, task.encoding).astype(object)
    of_servers = [part for part in drawn if part.ndim == 2]
    of_clients = [part for part in drawn if part.ndim == 3] or [np.zeros(task.share_shape, np.int64)]
    assert len(of_servers) == (task.trust.servers if task.servers_add_noise else 0)
    copies = np.concatenate(of_clients).astype(object) + encoded[:, None, :]
    copies = np.broadcast_to(copies, (task.clients, task.sketch.sparsity, task.width))
    expected = sum(of_servers, np.zeros(release.sums.shape, object))
    places, signs = task.sketch.entries(0, task.clients)
    for copy in range(task.sketch.sparsity):
        np.add.at(expected, places[:, copy], copies[:, copy] * signs[:, copy, None].astype(object))
    assert (release.sums.astype(object) == expected).all()


@given(st.integers(2, 5), st.integers(1, 5000), st.sampled_from(["ring64", "mersenne61"]))
@settings(max_examples=10, deadline=None)
def test_shares_of_blocks_open_to_the_same_release(servers, chunk, ring):
    task = task_of(clients=700, servers=servers, ring=ring)
    rows = rows_of(700)
    stream = Stream.from_seed(5)
    keys = simulation_keys(task, stream)
    shares = share_batch(task, rows, stream=stream)
    parts = [transform(task, share, simulation_key=key, threads=2) for share, key in zip(shares, keys, strict=True)]
    whole = open_sums(task, parts)
    again = model.run(task, rows, stream=Stream.from_seed(5), threads=2)
    assert (whole.sums == again.sums).all()


@pytest.mark.parametrize("sharing", ["additive", "shamir"])
def test_shares_of_blocks_may_go_straight_to_files(tmp_path, sharing):
    task = task_of(clients=BLOCK + 11, sharing=sharing, copies="each")
    rows = rows_of(task.clients)
    in_memory = share_batch(task, rows, stream=Stream.from_seed(6))

    def storage(server):
        return FileShare.create(tmp_path / f"share-{server}", task.share_shape, task.encoding.ring)

    in_files = share_batch(task, rows, stream=Stream.from_seed(6), storage=storage)
    assert len(list(tmp_path.iterdir())) == (3 if sharing == "shamir" else 1)
    for one, other in zip(in_memory, in_files, strict=True):
        assert (one.rows(0, task.clients) == other.rows(0, task.clients)).all()


def test_a_batch_of_several_blocks_is_seamless():
    task = task_of(clients=BLOCK + 11, sparsity=1)
    release = model.run(task, np.zeros((task.clients, 3)), stream=Stream.from_seed(1))
    assert np.abs(release.sketch).max() < 8 * np.sqrt(release.noise_variance.max())


def test_reports_of_single_clients_open_to_their_sum():
    task = task_of(clients=40, sketch="sum", rows=None, sparsity=None)
    client = Client(task, Stream.from_seed(2))
    totals = None
    for row in np.full((40, 3), 0.25):
        shares = client.report(row[None])
        totals = (
            shares if totals is None else [task.encoding.ring.add(a, b) for a, b in zip(totals, shares, strict=True)]
        )
    release = open_sums(task, [total[0] for total in totals])
    first_moments = release.sketch[0, :3] / np.sqrt(2)
    assert np.abs(first_moments - 10).max() < 6 * np.sqrt(release.noise_variance[0])


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "copies", "noise_by"),
    [
        ("discrete-gaussian", "each", "clients"),
        ("skellam", "each", "clients"),
        ("discrete-gaussian", "one", "clients"),
        ("skellam", "auto", "servers"),
    ],
)
def test_released_noise_has_the_stated_variance_row_by_row(noise, copies, noise_by):
    """1000 releases; per row within 8 % (over 7 sd of a variance of 9000 entries),
    overall 2 %, KS p > .01, correlation between rows < .13. Fixed seed; a false alarm of the KS test has probability
    1 %.
    """
    task = design(
        ReleaseSpec.of(
            Schema.unit(NAMES),
            60,
            1.0,
            1e-3,
            **{"sketch": "osnap", "rows": 6, "sparsity": 2, "balanced": False, "simulation_seed": 1},
            **{"noise": noise, "copies": copies, "noise_by": noise_by},
        )
    )
    stream = Stream.from_seed(12)
    stack = np.array([model.run(task, np.zeros((60, 3)), stream=stream).sketch for _ in range(1000)])
    matrix = task.sketch.to_csc().toarray().astype(float)
    covariance = (
        task.noise.variance
        * {
            ("clients", "each"): np.diag(np.abs(matrix).sum(axis=1)),
            ("clients", "one"): matrix @ matrix.T + 3 * np.eye(6),
            ("servers", "auto"): 3 * np.eye(6),
        }[noise_by, copies]
    )
    covariance *= task.sketch.scale**2 / 4.0**16
    expected = np.diag(covariance)
    np.testing.assert_allclose(Release(task, np.zeros((6, 3), np.int64)).noise_variance, expected)
    ratios = stack.var(axis=0).mean(axis=1) / expected
    assert np.abs(ratios - 1).max() < 0.08
    assert abs(ratios.mean() - 1) < 0.02
    standardised = stack[:, :, 0] / np.sqrt(expected)
    assert scipy.stats.kstest(standardised[:, 0], "norm").pvalue > 0.01
    surplus = np.corrcoef(standardised.T) - covariance / np.sqrt(np.outer(expected, expected))
    assert np.abs(surplus).max() < 0.13


@pytest.mark.statistical
def test_released_laplace_noise_is_laplace():
    """400 releases of 30 rows of 3 entries, in each of which exactly m shares meet. False alarms: the KS test one in a
    million, the variance (kurtosis 6) at 5 standard errors.
    """
    task = design(
        ReleaseSpec.of(
            Schema.unit(NAMES),
            600,
            1.0,
            0,
            sketch="countsketch",
            rows=30,
            noise="discrete-laplace",
            balanced=True,
            simulation_seed=1,
        )
    )
    assert task.noise.shares == 20
    client = Client(task, Stream.from_seed(13))
    rows = np.zeros((600, 3))
    releases = [
        Release(task, task.encoding.ring.lift(task.sketch.apply(client.randomize(rows)))).sketch for _ in range(400)
    ]
    noise = np.array(releases)
    variance = Release(task, np.zeros((30, 3), np.int64)).noise_variance[0]
    assert variance == pytest.approx(2 * 6.0**2, rel=1e-6)  # b = 2 p / epsilon in normalised units
    assert (noise**2).mean() == pytest.approx(variance, rel=5 * np.sqrt(5 / noise.size))
    assert scipy.stats.kstest(noise.ravel() / 6, "laplace").pvalue > 1e-6


def test_an_increased_occupancy_cannot_wrap_around():
    schema = Schema.unit(NAMES)
    with rejects("mersenne61", OverflowRisk):
        design(ReleaseSpec.of(schema, 1_000_000, 1.0, 1e-7, sketch="sum", fractional_bits=42, ring="mersenne61"))


def test_clients_do_not_take_a_servers_word_for_the_noise():
    task = task_of()
    weakened = unverified(task, noise=DiscreteGaussian(task.noise.sigma / 2))
    with rejects("epsilon", GuaranteeError):
        weakened.verify()
    with rejects("task"):
        Client(weakened)
    pure = task_of(noise="discrete-laplace")
    for scale, shares in ((pure.noise.scale / 2, pure.noise.shares), (pure.noise.scale, pure.noise.shares + 1)):
        with pytest.raises(GuaranteeError, match=r"promised|shares"):
            unverified(pure, noise=DiscreteLaplace(scale, shares)).verify()


def test_seeded_randomness_is_refused_outside_simulations():
    task = msgspec.structs.replace(task_of(), simulation=False)
    with rejects("Client", SimulationOnly, given="a seeded stream keeps no secret; use Stream.from_os()"):
        Client(task, Stream.from_seed(1))
    assert not Client(task).stream.simulation


@pytest.mark.parametrize("noise", ["gaussian", "gamma-laplace"])
def test_floating_point_noise_has_no_place_in_a_task(noise):
    with rejects("noise", expected="an integer noise"):
        task_of(noise=noise)


def test_tasks_survive_their_json_form_and_agree_on_their_digest():
    for choices in EXACT:
        task = task_of(**choices)
        again = Task.from_dict(json.loads(json.dumps(task.to_dict())))
        assert again.digest == task.digest
        assert again.guarantee == task.guarantee
    assert task_of(simulation_seed=8).digest != task_of(simulation_seed=7).digest


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        (lambda fields: fields.pop("noise"), "task"),
        (lambda fields: fields["trust"].update(corrupt_servers=None), "corrupt_servers"),
        (lambda fields: fields.update(extra=1), "task"),
        (lambda fields: fields.update(format=99), "task"),
        (lambda fields: fields["statistic"].update(name="median"), "statistic"),
        (lambda fields: fields.update(calibration="best"), "calibration"),
        (lambda fields: fields.update(simulation=0), "task"),
        (lambda fields: fields.update(simulation=[]), "task"),
    ],
)
def test_tasks_with_wrong_fields_are_refused(change, argument):
    fields = task_of().to_dict()
    change(fields)
    with rejects(argument):
        Task.from_dict(fields)


@pytest.mark.parametrize("sharing", ["additive", "shamir"])
def test_the_guarantee_says_what_is_assumed_of_the_servers_conduct(sharing):
    task = task_of(sharing=sharing, servers=5)
    assert task.guarantee.assumptions[0] == task.scheme.conduct == sharing
    assert ("semi-honest" in str(task.guarantee)) == (sharing == "additive")
    kept = {
        "additive": "at least one of the servers keeps its shares",
        "shamir": "at least 3 of the servers keep their shares",
    }
    assert kept[sharing] in str(task.guarantee)


def test_shares_of_another_shape_are_refused():
    task, other = task_of(), task_of(clients=601)
    shares = share_batch(other, rows_of(601), stream=Stream.from_seed(1))
    with pytest.raises(BatchMismatch, match="share: shape"):
        transform(task, shares[0])
    sums = [transform(other, share) for share in shares]
    with pytest.raises(BatchMismatch, match="shares: 2 given"):
        open_sums(other, sums[:2])
    with blames(1, BatchMismatch):
        open_sums(other, [sums[0], sums[1][:3], sums[2]])
    with rejects("rows", given="shape (601, 3)"):
        share_batch(task, rows_of(601))


# --- second moments ---------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(0, 2**32), st.one_of(st.none(), st.floats(0.2, 3.0)))
@settings(deadline=None)
def test_second_moments_never_move_more_than_their_sensitivity(columns, seed, radius):
    rng = np.random.default_rng(seed)
    encoding = FixedPoint(10)
    contribution = SecondMoments(radius)
    rows = rng.choice([-1.0, 1.0, 0.3], (40, columns))
    encoded = contribution.encode(rows, encoding)
    bound = contribution.sensitivity(columns, encoding)
    for other in encoded:
        moved = (encoded - other).astype(float)
        assert np.linalg.norm(moved, axis=1).max() <= bound.l2
        assert np.abs(moved).sum(axis=1).max() <= bound.l1
        assert np.abs(moved).max() <= bound.linf
    assert np.abs(encoded).max() <= contribution.largest_entry(encoding)


def test_second_moments_sensitivity_is_attained():
    contribution, encoding = SecondMoments(), FixedPoint(20)
    extreme = contribution.encode(np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0]]), encoding).astype(float)
    assert np.linalg.norm(extreme[0] - extreme[1]) == pytest.approx(contribution.sensitivity(3, encoding).l2, rel=1e-5)


def test_second_moments_put_back_together_are_the_gram_matrix():
    rows = rows_of(50)
    encoding = FixedPoint(30)
    summed = SecondMoments().encode(rows, encoding).sum(axis=0) / 2.0**30
    gram = SecondMoments.matrix(summed, 50)
    extended = np.column_stack([np.ones(50), rows])
    assert gram == pytest.approx(extended.T @ extended, abs=1e-6)


def test_statistics_are_values():
    assert contribution_from(Rows(1.5).describe()) == Rows(1.5)
    assert hash(Rows(1.5)) == hash(Rows(1.5))
    assert Rows() != SecondMoments()
    assert "radius=2.0" in repr(Rows(2))
    for radius in (0, -1, float("nan"), float("inf")):
        with rejects("radius"):
            Rows(radius)


def test_ball_clipping_lowers_the_noise():
    wide, narrow = task_of(), task_of(radius=0.5)
    assert narrow.noise.variance < wide.noise.variance / 11
    encoded = Client(narrow, Stream.from_seed(1)).encode(rows_of(600))
    assert np.linalg.norm(encoded / 2.0**16, axis=1).max() <= 0.5


# --- release files --------------------------------------------------------------------------------------------------


@pytest.fixture
def release():
    task = task_of()
    return model.run(task, rows_of(task.clients), stream=Stream.from_seed(4))


def test_releases_survive_their_file(tmp_path, release):
    path = tmp_path / "release.dpmpc"
    release.save(path)
    again = Release.load(path)
    assert (again.sums == release.sums).all()
    assert again.guarantee == release.guarantee
    assert again.columns == NAMES
    assert again.task.digest == release.task.digest
    assert [entry.name for entry in tmp_path.iterdir()] == ["release.dpmpc"]
    assert "600 clients" in repr(again)


def test_a_release_that_cannot_be_written_leaves_nothing(tmp_path, release, monkeypatch):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zipfile.ZipFile.writestr", full)
    with pytest.raises(OSError, match="No space"):
        release.save(tmp_path / "release.dpmpc")
    assert list(tmp_path.iterdir()) == []


def test_the_intercepts_column_is_public_and_exact(release):
    ones = release.task.sketch.to_csc() @ np.ones(release.clients) * release.task.sketch.scale
    assert release.ones == pytest.approx(ones)


def rewrite(path, **members):
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content.update(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            if data is not None:
                archive.writestr(name, data)


def test_release_files_that_were_tampered_with_are_refused(tmp_path, release):
    path = tmp_path / "release.dpmpc"

    def fresh(change):
        release.save(path)
        with zipfile.ZipFile(path) as archive:
            fields = json.loads(archive.read("release.json"))
        change(fields)
        rewrite(path, **{"release.json": json.dumps(fields)})

    fresh(lambda fields: fields["task"]["noise"].update(sigma=1000.0))
    with pytest.raises(GuaranteeError):
        Release.load(path)
    fresh(lambda fields: fields["guarantee"].update(epsilon=0.1))
    with rejects("release"):
        Release.load(path)
    fresh(
        lambda fields: fields["guarantee"].update(achieved_epsilon=fields["guarantee"]["achieved_epsilon"] * (1 - 1e-6))
    )
    with rejects("release"):
        Release.load(path)
    fresh(lambda fields: fields["guarantee"].pop("slack"))
    with rejects("release"):
        Release.load(path)
    for change, why in (
        (lambda fields: fields.pop("task"), "not a release file"),
        (lambda fields: fields.pop("format"), "not a release file .*`format`"),  # as before version 0.8
        (lambda fields: fields.update(format=3), r"not a release file .*\$.format"),
        (lambda fields: fields.pop("guarantee"), "not a release file"),
        (lambda fields: fields["task"].update(noise=3), "noise: 3 given"),
    ):
        fresh(change)
        with pytest.raises(InputError, match=f"release: .*{why}"):
            Release.load(path)


def test_a_guarantee_may_differ_by_the_rounding_of_another_machine(tmp_path, release):
    """The eigenvalues of a sketch's overlaps depend in their last digits on the threads that compute them."""
    path = tmp_path / "release.dpmpc"
    release.save(path)
    with zipfile.ZipFile(path) as archive:
        fields = json.loads(archive.read("release.json"))
    fields["guarantee"]["achieved_epsilon"] *= 1 - 1e-14
    rewrite(path, **{"release.json": json.dumps(fields)})
    assert Release.load(path).guarantee == release.guarantee


@pytest.mark.parametrize("sums", [b"", b"\x93NUMPY", b"no array at all"])
def test_broken_sums_are_refused(tmp_path, release, sums):
    path = tmp_path / "release.dpmpc"
    release.save(path)
    rewrite(path, **{"sums.npy": sums})
    with rejects("release"):
        Release.load(path)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04broken"])
def test_files_that_are_no_release_are_refused(tmp_path, content):
    path = tmp_path / "broken"
    path.write_bytes(content)
    with rejects("release"):
        Release.load(path)
    with rejects("release"):
        Release.load(tmp_path / "absent")


def test_sums_that_only_a_pickle_can_hold_are_refused(tmp_path, release):
    path, objects = tmp_path / "release.dpmpc", io.BytesIO()
    np.save(objects, np.array([print], object))
    release.save(path)
    rewrite(path, **{"sums.npy": objects.getvalue()})
    with rejects("release"):
        Release.load(path)


def test_release_sums_have_to_match_the_task(release):
    with rejects("sums"):
        Release(release.task, release.sums[:3])
    with rejects("sums"):
        Release(release.task, release.sums.astype(float))


@pytest.mark.parametrize("columns", [1, 2, 3, 11])
def test_second_moments_are_numpys_products(columns):
    """Bit for bit: the kernel multiplies in the order of the formula."""
    z = np.random.default_rng(columns).uniform(-1, 1, (50, columns))
    first, second = np.triu_indices(columns)
    products = z[:, first] * z[:, second]
    products[:, first != second] *= np.sqrt(2)
    expected = FixedPoint(50).encode(np.hstack([z * np.sqrt(2), products]), -np.sqrt(2), np.sqrt(2))
    assert (SecondMoments().encode(z, FixedPoint(50)) == expected).all()


@pytest.mark.parametrize("contribution", [Rows(), Rows(0.7), SecondMoments(), SecondMoments(0.7)])
def test_raw_rows_are_encoded_block_by_block_as_at_once(contribution):
    schema = Schema.from_pair(["a", "b", "c"], (-2.0, 1.0))
    rows = np.random.default_rng(1).normal(size=(30_000, 3))
    out = np.empty((30_000, contribution.width(3)), np.int64)
    contribution.encode_raw(rows, schema, FixedPoint(20), out)
    assert (out == contribution.encode(schema.normalise(rows), FixedPoint(20))).all()


@pytest.mark.parametrize("choices", [{}, {"sketch": "sum", "rows": None, "sparsity": None}, {"noise_by": "servers"}])
def test_shares_do_not_depend_on_threads(choices):
    task = task_of(clients=BLOCK + 5000, **choices)
    rows = rows_of(task.clients)
    one, three = (share_batch(task, rows, stream=Stream.from_seed(4), threads=threads) for threads in (1, 3))
    for first, second in zip(one, three, strict=True):
        assert (first.rows(0, task.clients) == second.rows(0, task.clients)).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("choices", [{}, {"sketch": "sum", "rows": None, "sparsity": None}])
def test_a_bad_row_is_counted_over_the_whole_batch(choices, threads):
    task = task_of(clients=2 * BLOCK, **choices)
    rows = rows_of(task.clients)
    rows[BLOCK + 30_000, 1] = np.nan
    with rejects("X", given="column 'b', row 62769: nan"):
        share_batch(task, rows, stream=Stream.from_seed(4), threads=threads)
