"""Manhattan and QQ plots: the right numbers drawn, small figures of many variants, any chromosome names."""

from __future__ import annotations

import math
import os
import sys
import time

import numpy as np
import pytest

from jamma.core.errors import InputError, OutputError, UsageError
from jamma.plot import default_picture, plot_association
from jamma.plot_points import (
    Points,
    choose_column,
    chromosome_key,
    fill_positions,
    genome_positions,
    lambda_gc,
    lead_variants,
    order_statistic_quantile,
    qq_points,
    read_points,
    thin,
)

HEADS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def write_result(path, p, chrom=None, ps=None, extra="", column="p_wald"):
    n = len(p)
    chrom = ["1"] * n if chrom is None else chrom
    ps = np.arange(1, n + 1) if ps is None else ps
    head = f"chr\trs\tps\taf\t{column}{chr(9) + 'neg_log10_p' if extra else ''}\n"
    rows = (f"{c}\trs{i}\t{x}\t0.5\t{v}{extra and chr(9) + str(extra[i])}\n"
            for i, (c, x, v) in enumerate(zip(chrom, ps, p, strict=True)))  # fmt: skip
    path.write_text(head + "".join(rows))
    return path


def test_natural_order_of_chromosomes():
    names = ["MT", "10", "X", "2", "1", "Y", "scaffold_10", "scaffold_9", "0", "XY", "chr3", "Un", "22"]
    assert sorted(names, key=chromosome_key) == [
        "1", "2", "chr3", "10", "22", "X", "Y", "XY", "MT", "Un", "scaffold_9", "scaffold_10", "0"
    ]  # fmt: skip
    assert sorted(["2L", "X", "4", "3R", "2R", "3L"], key=chromosome_key) == ["4", "X", "2L", "2R", "3L", "3R"]


def test_column_choice(tmp_path):
    path = write_result(tmp_path / "a", ["0.5"], extra=["0.30103"])
    assert choose_column(path) == ("neg_log10_p", True)
    assert choose_column(path, "p_wald") == ("neg_log10_p", True)
    path = write_result(tmp_path / "b", ["0.5"], column="p_score")
    assert choose_column(path) == ("p_score", False)
    with pytest.raises(UsageError, match="no column p_lrt"):
        choose_column(path, "p_lrt")
    with pytest.raises(UsageError, match="no column of p-values"):
        choose_column(write_result(tmp_path / "c", ["1"], column="beta"))


def test_points(tmp_path):
    p = ["0.1", "nan", "0.01", "0.000000e+00", "1.5", "1"]
    path = write_result(tmp_path / "a", p, chrom=["X", "X", "2", "10", "2", "2"], ps=[5, 6, 9, 7, 8, 1])
    points = read_points(path, "p_wald", False)
    assert points.chromosomes == ["2", "10", "X"]
    assert points.code.tolist() == [2, 0, 1, 0]
    np.testing.assert_allclose(points.y, [1, 2, -math.log10(5e-324), 0], atol=1e-12)
    assert points.names == {0: "rs0", 1: "rs2", 2: "rs3", 3: "rs5"}
    assert (points.n_without, points.n_zero, points.n_unplaced) == (2, 1, 0)
    with pytest.raises(InputError, match="none of its 2 rows has a number"):
        read_points(write_result(tmp_path / "b", ["nan", "7"]), "p_wald", False)


def test_names_of_the_lowest_p_values_are_kept(tmp_path, monkeypatch):
    from jamma.io import arrays

    monkeypatch.setattr(arrays, "BLOCK_BYTES", 5000)
    p = np.random.default_rng(0).random(3000)
    p[[17, 1234, 2999]] = 1e-9, 1e-8, 1e-10
    points = read_points(write_result(tmp_path / "a", p), "p_wald", False, 2)
    assert [points.names[i] for i in (17, 1234, 2999)] == ["rs17", "rs1234", "rs2999"]


def test_variants_without_a_position_lie_between_their_neighbours():
    code = np.array([0, 1, 0, 1, 0, 1, 2, 2], dtype=np.int32)
    ps = np.array([10.0, -9, 0, 100, 30, -9, 0, 0])
    got, n = fill_positions(code, ps)
    assert got.tolist() == [10, 100, 20, 100, 30, 100, 1, 2]
    assert n == 5
    assert fill_positions(code, np.abs(ps) + 1)[1] == 0


def make_points(code, ps, y):
    code = np.asarray(code, dtype=np.int32)
    names = [str(c + 1) for c in range(int(code.max()) + 1)]
    return Points(names, code, np.asarray(ps, dtype=float), np.asarray(y, dtype=float), {}, 0, 0)


def test_chromosomes_do_not_overlap():
    points = make_points([0, 0, 1, 2, 2], [5, 1005, 7, 1, 501], np.ones(5))
    x, starts = genome_positions(points)
    assert x[0] == starts[0] == 0
    assert x[1] == 1000
    assert (np.diff(starts) > 0).all()
    for c in range(3):
        inside = x[points.code == c]
        assert starts[c] <= inside.min()
        assert inside.max() < starts[c + 1]


def test_thinning_keeps_one_variant_of_every_cell():
    rng = np.random.default_rng(1)
    x, y = np.sort(rng.random(300_000)) * 3e9, rng.exponential(0.434, 300_000)
    y[777] = 30
    top, grid = 33.0, (160, 70)
    shown = thin(x, y, top, grid)

    def cells(rows):
        a = ((x[rows] - x.min()) * ((grid[0] - 1) / np.ptp(x))).astype(int)
        return set(zip(a.tolist(), (y[rows] * ((grid[1] - 1) / top)).astype(int).tolist(), strict=True))

    assert cells(shown) == cells(slice(None))
    assert len(shown) == len(cells(slice(None)))
    assert 777 in shown
    assert thin(x[:100], y[:100], top).tolist() == list(range(100))


def test_genomic_control():
    stats = pytest.importorskip("scipy.stats")
    chi2 = np.random.default_rng(2).chisquare(1, 20_001) * 1.3
    y = -np.log10(stats.chi2.sf(chi2, 1))
    assert lambda_gc(y) == pytest.approx(np.median(chi2) / stats.chi2.median(1), rel=1e-6)
    assert lambda_gc(np.zeros(5)) == 0


@pytest.mark.parametrize("n", [1, 2, 10, 1000, 10_000_000])
def test_band_against_the_beta_distribution(n):
    stats = pytest.importorskip("scipy.stats")
    for rank in sorted({1, 2, 3, 7, 39, 40, 41, 100, 5000, n // 2, n - 3, n - 1, n} & set(range(1, n + 1))):
        for q in (0.025, 0.5, 0.975):
            expected = stats.beta.ppf(q, rank, n + 1 - rank)
            got = order_statistic_quantile(rank, n, q)
            assert got == pytest.approx(expected, rel=1e-3)
            assert 1 - got == pytest.approx(1 - expected, rel=1e-3)


def test_band_of_every_rank():
    stats = pytest.importorskip("scipy.stats")
    n = 2000
    _, _, low, high = qq_points(np.ones(n))
    rank = np.arange(1, n + 1)
    np.testing.assert_allclose(low, -np.log10(stats.beta.ppf(0.975, rank, n + 1 - rank)), atol=4e-3)
    np.testing.assert_allclose(high, -np.log10(stats.beta.ppf(0.025, rank, n + 1 - rank)), atol=4e-3)


def test_qq_ranks():
    y = np.random.default_rng(4).exponential(0.434, 50_000)
    expected, observed, _, _ = qq_points(y)
    assert len(expected) < 3100
    assert observed[0] == y.max()
    assert observed[-1] == y.min()
    np.testing.assert_array_equal(observed[:1000], np.sort(y)[::-1][:1000])
    assert (np.diff(expected) < 0).all()


def test_lead_variants():
    points = make_points([0, 0, 1, 1, 2], np.arange(5), [8, 9, 12, 11, 3])
    assert lead_variants(points, 7) == [2, 1]


@pytest.mark.parametrize("ending", HEADS)
def test_pictures(tmp_path, ending):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(5)
    p = np.maximum(rng.random(40_000), 1e-4)
    p[100] = 1e-12
    path = write_result(tmp_path / "a.assoc.txt", p, chrom=[str(1 + i // 3000) for i in range(40_000)])
    out = tmp_path / "deep" / f"picture.{ending}"
    summary = plot_association(path, out, n_threads=2)
    assert out.read_bytes().startswith(HEADS[ending])
    assert out.stat().st_size < 1_500_000
    assert os.listdir(out.parent) == [out.name]
    assert summary.n_variants == 40_000
    assert summary.n_significant == 1
    assert summary.top == (("rs100", "1", 101, pytest.approx(12)),)
    assert summary.threshold == 0.05 / 40_000
    assert summary.lambda_gc == pytest.approx(1, abs=0.05)
    if ending == "svg":  # no date, no random names inside
        first = out.read_bytes()
        plot_association(path, out)
        assert out.read_bytes() == first


@pytest.mark.parametrize(
    ("p", "chrom", "ps"),
    [(["0.5"], None, None), (["1", "1"], None, None), (["0.5"] * 3, ["a$b", "_", "%"], [0, 0, 0]),
     (["0.000000e+00", "0.5"], None, None), (["0.3"] * 2000, [f"scaffold_{i}" for i in range(2000)], None),
     (["0.3"] * 3, ["1"] * 3, [2**40, 5, -9])],
)  # fmt: skip
def test_odd_results(tmp_path, p, chrom, ps):
    pytest.importorskip("matplotlib")
    path = write_result(tmp_path / "a$b.txt", p, chrom, ps)
    summary = plot_association(path)
    assert summary.path == tmp_path / "a$b.png"
    assert summary.path.exists()


def test_mouse_hits_are_on_chromosome_17(shared_data, tmp_path):
    pytest.importorskip("matplotlib")
    summary = plot_association(shared_data / "gemma_reference" / "lmm4.assoc.txt.gz", tmp_path / "a.png")
    assert [row[1] for row in summary.top] == ["17"]
    assert summary.n_significant == 27
    assert summary.n_unplaced == 1668
    assert "10,768 variants by p_wald, lambda_GC 0.798, 27 beyond 4.6e-06" in str(summary)
    assert "  mCV22965443 on 17 at 34955627: -log10 p = 16.59" in str(summary)


def test_refusals(tmp_path, monkeypatch):
    path = write_result(tmp_path / "a", ["0.5"])
    with pytest.raises(UsageError, match=r"\.png, \.svg, \.pdf"):
        plot_association(path, tmp_path / "a.gif")
    with pytest.raises(UsageError, match="threshold 5"):
        plot_association(path, tmp_path / "a.png", threshold=5)
    (tmp_path / "b.png").mkdir()
    pytest.importorskip("matplotlib")
    with pytest.raises(OutputError, match="is a folder"):
        plot_association(path, tmp_path / "b.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"jamma\[plot\]"):
        plot_association(path, tmp_path / "c.png")
    assert sorted(os.listdir(tmp_path)) == ["a", "b.png"]


def test_default_names(tmp_path):
    for name, picture in (("x.assoc.txt", "x.assoc.png"), ("x.assoc.tsv.gz", "x.assoc.png"), ("x", "x.png")):
        assert default_picture(tmp_path / name) == tmp_path / picture


@pytest.mark.slow
def test_ten_million_rows(tmp_path):
    """Under 10 s and 2 GB."""
    resource = pytest.importorskip("resource")
    pytest.importorskip("matplotlib")
    p = np.random.default_rng(6).random(100_000)
    rows = "".join(
        f"{{c}}\trs{i}\t{i * 300}\t0\tA\tG\t0.500\t1e-02\t1e-02\t-1e+03\t1.0\t{v:.6e}\n" for i, v in enumerate(p)
    )
    with open(tmp_path / "a.assoc.txt", "w") as file:
        file.write("chr\trs\tps\tn_miss\tallele1\tallele0\taf\tbeta\tse\tlogl_H1\tl_remle\tp_wald\n")
        for c in range(100):
            file.write(rows.replace("{c}", str(c // 5 + 1)))
    start = time.perf_counter()
    summary = plot_association(tmp_path / "a.assoc.txt", n_threads=2)
    assert time.perf_counter() - start < 10
    assert summary.n_variants == 10_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2e6
