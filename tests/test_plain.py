"""The NumPy modules against the compiled ones, function by function."""

from __future__ import annotations

import numpy as np
import pytest

from jamma._core import distributions, format, genotypes, kinship, likelihood, parse, rotate
from jamma._plain import distributions as plain_distributions
from jamma._plain import format as plain_format
from jamma._plain import genotypes as plain_genotypes
from jamma._plain import kinship as plain_kinship
from jamma._plain import likelihood as plain_likelihood
from jamma._plain import parse as plain_parse
from jamma._plain import rotate as plain_rotate
from jamma.lmm import search
from jamma.lmm.null_model import fit_null_model
from jamma.lmm.schema import STATISTICS

from .lmm_problems import make_hard_case, make_tables, node_sums

pytestmark = pytest.mark.usefixtures("one_blas_thread")


@pytest.fixture
def calls():
    rng = np.random.default_rng(5)
    calls = rng.binomial(2, rng.uniform(0, 1, (300, 1)), (300, 61)).astype(np.int8)
    calls[rng.random(calls.shape) < 0.04 * (np.arange(300)[:, None] % 3)] = -127
    calls[0] = -1
    return calls


def both_fits(problem, x, mode, monkeypatch):
    """Statistics, -log10 p and reasons by the kernel and by NumPy."""
    tables, basis = make_tables(problem)
    sums, null = node_sums(tables, basis, problem, x), fit_null_model(tables)
    compiled = search.fit_variants(tables, null, *sums, mode)
    with monkeypatch.context() as patch:
        patch.setattr(likelihood, "Search", plain_likelihood.Search)
        return compiled, search.fit_variants(tables, null, *sums, mode)


@pytest.mark.parametrize("mode", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(0, 48, 5))
def test_search(mode, seed, monkeypatch):
    """To 1e-9 (lambda, where the likelihood is nearly flat, 1e-8), with variants that cannot be tested."""
    p = make_hard_case(seed)
    rng = np.random.default_rng(seed)
    strong = p.y + 0.05 * p.y.std() * rng.normal(size=len(p.y))
    x = np.column_stack([p.x, strong, p.y, p.w[:, -1], np.full(len(p.y), np.nan), rng.normal(size=(len(p.y), 300))])
    (one, one_p, why), (two, two_p, why_two) = both_fits(p, x - x.mean(0), mode, monkeypatch)
    assert np.array_equal(why, why_two)
    assert set(why[p.x.shape[1] :]) >= {0, 1, 2, 3}
    scales = {name: np.abs(one[name]) for name in STATISTICS[mode]}
    if "beta" in scales:
        scales["beta"] = np.maximum(scales["beta"], one["se"])
    for name, scale in scales.items():
        tolerance = 1e-8 if name in ("l_remle", "l_mle") else 1e-9
        assert np.array_equal(np.isnan(one[name]), np.isnan(two[name])), name
        assert np.nanmax(np.abs(one[name] - two[name]) / scale) < tolerance, name
    np.testing.assert_allclose(two_p, one_p, rtol=1e-9, atol=1e-13)


def test_search_of_each_variant_alone(monkeypatch):
    """The same bits in any company."""
    p = make_hard_case(19)
    monkeypatch.setattr(likelihood, "Search", plain_likelihood.Search)
    tables, basis = make_tables(p)
    x = np.random.default_rng(1).normal(size=(len(p.y), 300))
    sums, null = node_sums(tables, basis, p, x), fit_null_model(tables)
    together = search.fit_variants(tables, null, *sums, 4)[0]
    for k in (0, 7, 255, 256, 299):
        alone = search.fit_variants(tables, null, *(s[k : k + 1] for s in sums), 4)[0]
        assert all(alone[name][0] == together[name][k] for name in STATISTICS[4])


def test_genotypes(calls):
    mask = (np.arange(61) % 4 > 0).astype(np.uint8)
    for chosen in (None, mask):
        assert np.array_equal(plain_genotypes.count_calls(calls, chosen), genotypes.count_calls(calls, chosen))
    for arguments in ((0.05, 0.01), (0.0, 0.2), (1.0, 0.0), (0.05, 0.4, 1, True)):
        counts, reason, packed = plain_genotypes.sweep(calls, *arguments)
        expected_counts, expected_reason, expected = genotypes.sweep(calls, *arguments)
        assert np.array_equal(counts, expected_counts)
        assert np.array_equal(reason, expected_reason)
        assert np.array_equal(packed.decode(), expected.decode())
    some = np.array([5, 3, 8])
    one, two = plain_genotypes.pack_calls(calls, some), genotypes.pack_calls(calls, some)
    assert len(one) == len(two) == 3
    assert np.array_equal(one.take(np.array([2, 0])).decode(), two.take(np.array([2, 0])).decode())
    assert np.array_equal(one.decode(1, 2), two.decode(1, 2))


def test_rotation(calls):
    rng = np.random.default_rng(2)
    basis, columns, h = rng.normal(size=(61, 61)), rng.normal(size=(7, 61)), rng.random((61, 16))
    packed = plain_genotypes.pack_calls(calls)
    xx, xz = plain_rotate.rotate_sums(packed, basis, columns, h)
    expected_xx, expected_xz = rotate.rotate_sums(genotypes.pack_calls(calls), basis, columns, h)
    np.testing.assert_allclose(xx, expected_xx, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(xz, expected_xz, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(plain_rotate.rotate_calls(columns, packed), expected_xz, rtol=1e-11, atol=1e-11)
    alone = plain_rotate.rotate_sums(packed.take(np.array([280])), basis, columns, h)
    assert np.array_equal(alone[0][0], xx[280])


def test_kinship():
    rng = np.random.default_rng(3)
    half, row_terms = rng.normal(size=(300, 300)), rng.normal(size=300)
    expected = half.copy()
    plain_kinship.finish(half, row_terms, 2.5, 7.0)
    kinship.finish(expected, row_terms, 2.5, 7.0)
    assert np.array_equal(half, expected)


def test_tails():
    f = np.array([0.0, 1e-9, 0.3, 4.0, 80.0, 4000.0, np.inf])
    for name, arguments in (("f_sf", (f, 97)), ("f_logsf", (f, 97)), ("chi2_1_sf", (f,)), ("chi2_1_logsf", (f,))):
        got, expected = (getattr(module, name)(*arguments) for module in (plain_distributions, distributions))
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def text_of(pieces):
    return b"".join(bytes(piece) for piece in pieces)


def test_rows_of_text():
    values = np.array([
        [3, 0, 120, 7], [1.5, np.nan, -0.0, 1e300], [0.4995, np.inf, 1e16, 0.0005],
        [0.05, 0.0, 1e-320, 0.0], [1.30103, 400.5, 320.0, 400 + 1e-9],
    ])  # fmt: skip
    names = (["1", "X", "é", "2"], ["rs1", "a b", "", "rs4"], np.array([1, 5, 2**40, 0]), list("ACGT"), list("TGCA"))
    index = np.array([2, 0, 3, 1])
    text, offsets = plain_format.variant_texts(*names, index)
    expected_text, expected_offsets = format.variant_texts(*names, index)
    assert bytes(text) == bytes(expected_text)
    assert np.array_equal(offsets, expected_offsets)
    rows = np.arange(4)
    one = plain_format.format_rows(text, offsets, rows, b"AdBefp", values)
    assert text_of(one) == text_of(format.format_rows(text, offsets, rows, b"AdBefp", values))
    with pytest.raises(UnicodeEncodeError):
        plain_format.variant_texts(["\udcff"], ["r"], np.array([1]), ["A"], ["C"], np.array([0]))
    matrix = np.append(np.random.default_rng(1).normal(size=197), [np.nan, 0.0, 1e-7]).reshape(20, 10)
    assert text_of(plain_format.format_matrix(matrix)) == text_of(format.format_matrix(matrix))


@pytest.mark.parametrize("end", ["", "\n"])
def test_numbers_of_lines(end):
    lines = ["1 2,3\t4", "", " -1e-3 x 5", "nan Inf -infinity 1_0", "1. .5 . 1e 0x1 +2E+3 7\r", "1\x0b2 3"]
    data = ("\n".join(lines) + end).encode()
    starts = plain_parse.line_starts(data)
    assert np.array_equal(starts, parse.line_starts(data))
    found = []
    for module in (plain_parse, parse):
        out = np.full((len(starts) - 1, 4), -9.0)
        found.append([*module.parse_numbers(data, starts, out), out])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    for word in " ".join(lines).split(" "):
        np.testing.assert_array_equal(plain_parse.read_number(word.encode()), parse.read_number(word.encode()))


def test_columns_of_a_table():
    data = b"a\t1\tx\t2.5\r\nb\t\tx\t3\nb\t7\tx\nb\t8\tyy\tz\n"
    starts = parse.line_starts(data)
    found = []
    for module in (plain_parse, parse):
        outputs = [np.zeros((4, 2), np.int64), np.zeros(4), np.zeros(4)]
        counts = module.parse_table(data, starts, [0, 1, 3], outputs)
        found.append([counts, *outputs, module.runs(data, outputs[0])])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
