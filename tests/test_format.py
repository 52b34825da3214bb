"""Numbers to text and back: correctly rounded, the same bytes as the C library, whatever the locale and threads."""

from __future__ import annotations

import math
import os
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jamma._core import format as fmt
from jamma._core import parse

FORMS = {"e6": "%.6e", "g10": "%.10g"}


def python_lines(values, form):
    return "".join([form % v + "\n" for v in values.tolist()])


def assert_same(values, form):
    mine, theirs = fmt._write_many(values, form), python_lines(values, FORMS.get(form, "%.3f"))
    if mine != theirs:
        wrong = [(v, a, b) for v, a, b in zip(values, mine.split("\n"), theirs.split("\n"), strict=False) if a != b]
        pytest.fail(f"{len(wrong)} of {len(values)}: {wrong[:3]}")


@pytest.mark.parametrize("form", FORMS)
def test_random_bit_patterns(form):
    """Every exponent, both signs, subnormals."""
    bits = np.random.default_rng(1).integers(0, 2**64, size=1_000_000, dtype=np.uint64)
    values = bits.view(np.float64)
    fmt._count_slow()
    assert_same(values[np.isfinite(values)], form)
    assert fmt._count_slow() < 10  # the fast path is the one that was tested


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(20))
def test_more_random_bit_patterns(form, seed):
    bits = np.random.default_rng(100 + seed).integers(0, 2**64, size=2_000_000, dtype=np.uint64)
    values = bits.view(np.float64)
    assert_same(values[np.isfinite(values)], form)


@pytest.mark.parametrize("form", FORMS)
def test_every_binary_exponent_and_its_neighbours(form):
    """Powers of two are where the choice of the decimal exponent is closest."""
    powers = np.ldexp(1.0, np.arange(-1074, 1024))
    values = np.concatenate([powers, np.nextafter(powers, 0), np.nextafter(powers, np.inf)[:-1]])
    assert_same(np.concatenate([values, -values]), form)


@pytest.mark.parametrize("form", FORMS)
def test_every_power_of_ten_and_its_neighbours(form):
    powers = np.array([float(f"1e{k}") for k in range(-323, 309)])
    values = [powers]
    for _ in range(3):
        values += [np.nextafter(values[-1], 0), np.nextafter(values[0], np.inf)]
    almost = np.array([float(f"9.9999995e{k}") for k in range(-320, 308)])
    assert_same(np.concatenate([*values, almost, np.nextafter(almost, 0), np.nextafter(almost, 10**300)]), form)


def test_exact_ties_go_to_even():
    """k + 1/2 with seven digits before the half is exact in binary; printf rounds it to the even digit."""
    digits = np.random.default_rng(2).integers(10**6, 10**7, size=20_000)
    for scale in (1.0, 2.0**20, 2.0**-20, 5.0**3):
        assert_same((digits + 0.5) * scale, "e6")
    fmt._count_slow()
    assert fmt._write(1234566.5, "e6") == "1.234566e+06"
    assert fmt._write(1234567.5, "e6") == "1.234568e+06"
    assert fmt._count_slow() == 2
    assert_same(np.random.default_rng(3).integers(10**9, 10**10, size=20_000) + 0.5, "g10")


def test_numbers_that_were_printed_with_few_digits():
    """What lists of weights and p-values look like: near-ties in decimal that are not ties in binary."""
    rng = np.random.default_rng(4)
    texts = [
        f"{a}5e{b}" for a, b in zip(rng.integers(10**6, 10**7, 50_000), rng.integers(-30, 10, 50_000), strict=True)
    ]
    assert_same(np.array([float(t) for t in texts]), "e6")
    short = np.array([float(f"{a}e{b}") for a in range(1, 1000) for b in range(-12, 12)])
    assert_same(short, "e6")
    assert_same(short, "g10")


def test_frequencies():
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 4000, size=200_000)
    assert_same(rng.integers(0, 2 * counts + 1) / (2 * counts), "f3")
    assert_same(np.arange(20_001) / 16_000, "f3")  # with exact ties
    assert_same(np.nextafter(np.arange(1, 2001) / 2000, 0), "f3")
    assert_same(np.nextafter(np.arange(1, 2001) / 2000, 2), "f3")
    assert_same(rng.random(100_000) * 10.0 ** rng.integers(-8, 14, 100_000), "f3")
    assert_same(np.array([0.0, -0.0, 1.0, -0.25, 0.0005, 0.00049999, 5e-324, 999.9996]), "f3")
    assert fmt._write(1e15, "f3") == "1.000000e+15"


def test_values_that_are_not_finite_and_zero():
    for form in ("e6", "f3", "g10"):
        assert fmt._write(math.nan, form) == "nan"
        assert fmt._write(-math.nan, form) == "nan"
        assert fmt._write(math.inf, form) == "inf"
        assert fmt._write(-math.inf, form) == "-inf"
    assert fmt._write(0.0, "e6") == "0.000000e+00"
    assert fmt._write(-0.0, "e6") == "-0.000000e+00"
    assert fmt._write(0.0, "g10") == "0"


@given(st.floats())
@settings(max_examples=300)
def test_any_double(x):
    if math.isnan(x):
        return
    assert fmt._write(x, "e6") == f"{x:.6e}"
    assert fmt._write(x, "g10") == f"{x:.10g}"


@given(st.integers(-(2**53), 2**53))
def test_any_integer(x):
    assert fmt._write(float(x), "int") == str(x)


def test_reading_what_python_writes():
    """repr, 17 digits, 10 digits: the same double, the fast path taken."""
    bits = np.random.default_rng(6).integers(0, 2**64, size=50_000, dtype=np.uint64)
    values = bits.view(np.float64)
    for x in values[np.isfinite(values)].tolist():
        for text in (repr(x), f"{x:.16e}", f"{x:.10g}"):
            assert parse.read_number(text.encode()) == float(text), text


def test_reading_numbers_between_two_doubles():
    """Halfway points of neighbouring doubles, exactly and one digit beside: ties go to even."""
    from decimal import Decimal, localcontext

    rng = np.random.default_rng(7)
    with localcontext() as context:
        context.prec = 800
        for x in (rng.random(300) * 10.0 ** rng.integers(-40, 40, 300)).tolist():
            middle = (Decimal(x) + Decimal(math.nextafter(x, math.inf))) / 2
            for text in (f"{middle:e}", f"{middle:.18e}", f"{middle:.30e}"):
                assert parse.read_number(text.encode()) == float(text), text


@pytest.mark.parametrize(
    "text", ["1e400", "-1e400", "1e-400", "0e999999999999999999", "1" + "0" * 400, "0." + "0" * 400 + "1e400",
             "00012", "+5", "-.5", "5.", "1E+05", "0x", "123456789012345678901234567890", "9" * 30 + "e-50", "1e-320",
             "4.9e-324", "2.4703282292062327e-324", "1.7976931348623159e308"],
)  # fmt: skip
def test_reading_odd_numbers(text):
    try:
        expected = float(text)
    except ValueError:
        expected = None
    assert parse.read_number(text.encode()) == expected


@pytest.mark.parametrize(
    "text", ["", "-", "+", ".", "e5", "-e5", "1e", "1e+", "1.2.3", "1,5", "12a", "nano", "NA", "--1"]
)
def test_not_numbers(text):
    assert parse.read_number(text.encode()) is None


def test_words():
    assert math.isnan(parse.read_number(b"nan"))
    assert math.isnan(parse.read_number(b"-NaN"))
    assert parse.read_number(b"Infinity") == math.inf
    assert parse.read_number(b"-inf") == -math.inf


@given(st.text(alphabet="0123456789.eE+-naif \t", max_size=30))
@settings(max_examples=500)
def test_reading_agrees_with_python_or_refuses(text):
    got = parse.read_number(text.encode())
    try:
        expected = float(text) if text == text.strip() else None
    except ValueError:
        expected = None
    if expected is None or math.isnan(expected):
        assert got is None or math.isnan(got)
    else:
        assert struct.pack("d", got) == struct.pack("d", expected)


LOCALE_CODE = """
import locale, sys
locale.setlocale(locale.LC_NUMERIC, "xx")
assert locale.localeconv()["decimal_point"] == ","
from jamma._core import format as fmt
from jamma._core import parse
assert fmt._write(1234566.5, "e6") == "1.234566e+06"
assert fmt._write(0.0007, "f3") == "0.001"
assert parse.read_number(b"1.2345678901234567890123e-5") == 1.2345678901234567890123e-5
assert parse.read_number(b"-1.5e-400") == 0
assert parse.read_number(b"1,5") is None
assert fmt._count_slow() == 2
assert parse._count_slow() == 2
"""


def test_locale_with_a_decimal_comma(tmp_path):
    """The slow paths ask the C library, whose point follows the locale."""
    command = ["localedef", "-c", "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "xx")]
    if shutil.which("localedef") is None or subprocess.run(command, capture_output=True).returncode > 1:
        pytest.skip("localedef cannot make a German locale here")
    environment = {**os.environ, "LOCPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-P", "-c", LOCALE_CODE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def row_inputs(m, seed=8):
    rng = np.random.default_rng(seed)
    texts = [t.encode() for i in range(m) for t in (f"chr{i}\trs{'x' * (i % 7)}\t{i}", "A\tG" if i % 2 else "AT\té")]
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in texts])]).astype(np.int64)
    values = np.stack([rng.integers(0, 99, m).astype(float), rng.random(m), rng.normal(size=m) * 1e-8])
    if m > 3:
        values[2, 3] = np.nan
    return b"".join(texts), offsets, values


@pytest.mark.parametrize("m", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("n_threads", [1, 2, 8])
def test_rows(m, n_threads):
    text, offsets, values = row_inputs(m)
    rows = np.arange(m, dtype=np.int64)[::-1].copy()
    expected = []
    for i, r in enumerate(rows):
        a, b = (text[offsets[2 * r + k] : offsets[2 * r + k + 1]].decode() for k in (0, 1))
        last = "nan" if np.isnan(values[2, i]) else f"{values[2, i]:.6e}"
        expected.append(f"{a}\t{int(values[0, i])}\t{b}\t{values[1, i]:.3f}\t{last}\n")
    got = b"".join(fmt.format_rows(text, offsets, rows, b"AdBfe", values, n_threads))
    assert got.decode() == "".join(expected)


def test_p_values_below_the_smallest_double():
    assert fmt._write_p(0.0, 400.5) == "3.162278e-401"
    assert fmt._write_p(0.0, 12345.0) == "1.000000e-12345"
    assert fmt._write_p(1e-320, 320.0) == "1.000000e-320"  # a subnormal has too few digits of its own
    assert fmt._write_p(0.0, 400 + 1e-9) == "1.000000e-400"  # the mantissa rounds to ten
    assert fmt._write_p(0.05, 1.30103) == "5.000000e-02"
    assert fmt._write_p(math.nan, math.nan) == "nan"
    assert fmt._write_p(0.0, math.nan) == "0.000000e+00"
    values = np.array([[0.0, 0.25], [333.25, 0.602]])
    text, offsets, _ = row_inputs(2)
    rows = np.arange(2, dtype=np.int64)
    got = b"".join(fmt.format_rows(text, offsets, rows, b"Ap", values)).split(b"\n")
    assert [row.split(b"\t")[-1] for row in got[:2]] == [b"5.623413e-334", b"2.500000e-01"]


def test_rows_out_of_range_are_refused():
    text, offsets, values = row_inputs(4)
    for rows in ([0, 1, 2, 4], [0, 1, 2, -1]):
        with pytest.raises(ValueError, match="variants"):
            fmt.format_rows(text, offsets, np.array(rows, dtype=np.int64), b"AdBfe", values)
    with pytest.raises(ValueError, match="expected 2"):
        fmt.format_rows(text, offsets, np.arange(4), b"AdBf", values)
    with pytest.raises(ValueError, match="outside"):
        fmt.format_rows(text[:-1], offsets, np.arange(4), b"AdBfe", values)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_matrix_text(n_threads):
    a = np.random.default_rng(9).normal(size=(17, 5)) * 10.0 ** np.arange(-10, 15, 5)
    a[3, 2] = 0
    for array in (a, np.asfortranarray(a), a[::2, ::-1]):
        expected = "".join("\t".join(f"{v:.10g}" for v in row) + "\n" for row in array)
        assert b"".join(fmt.format_matrix(array, n_threads)).decode() == expected


def test_lines():
    assert parse.line_starts(b"").tolist() == [0]
    assert parse.line_starts(b"a\n\nbc\n").tolist() == [0, 2, 3, 6]
    assert parse.line_starts(b"a\nbc").tolist() == [0, 2, 5]


@pytest.mark.parametrize("n_threads", [1, 4])
def test_numbers_of_lines(n_threads):
    data = b" 1 2\t3\r\n,4,,5 , 6\n\n7 x 9\n1 2\n1 2 3 4\n-1e3 +2 .5"
    starts = parse.line_starts(data)
    out = np.zeros((7, 3))
    counts, bad = parse.parse_numbers(data, starts, out, n_threads)
    assert counts.tolist() == [3, 3, 0, 3, 2, 4, 3]
    assert bad.tolist() == [-1, -1, -1, 1, -1, -1, -1]
    assert out[[0, 1, 5, 6]].tolist() == [[1, 2, 3], [4, 5, 6], [1, 2, 3], [-1000, 2, 0.5]]


def test_columns_of_a_table():
    data = b"1\trs1\t0.5\tA\r\n1\trs2\tnan\tB\n2\t\t1e-5\tC\n2\trs4\tx\tD\nshort"
    starts = parse.line_starts(data)
    names, numbers = np.zeros((5, 2), dtype=np.int64), np.zeros(5)
    counts = parse.parse_table(data, starts, [1, 2], [names, numbers])
    assert counts.tolist() == [4, 4, 4, -3, 1]
    assert [data[a:b] for a, b in names[:3]] == [b"rs1", b"rs2", b""]
    assert numbers[0] == 0.5
    assert np.isnan(numbers[1])
    chrom = np.zeros((5, 2), dtype=np.int64)
    parse.parse_table(data, starts, [0], [chrom])
    assert parse.runs(data, chrom).tolist() == [0, 2, 4]
