"""Text, .fam, .bim and lists of variants: what is read, and what is said of files that are wrong."""

from __future__ import annotations

import gzip
import os
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jamma.core.errors import InputError
from jamma.io import text
from jamma.io.tables import read_bim, read_fam, read_variant_list

FAM = "f1 i1 0 0 1 0.5 NA\nf2 i2 0 0 2 -9 1\nf3 i3 0 0 0 1e-3 -9.00\n"
BIM = "1\trs1\t0\t100\tA\tG\nX\trs2\t0.5\t2000\tC\tT\n"


# --- text -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("tail", ["", "END", "ENDEND  ENDEND"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_line_ends_bom_gzip(write, end, tail, pack, bom):
    content = bom + ("a b\n\nc" + tail).replace("END", "\n").replace("\n", end).encode()
    assert list(text.lines(write("t.txt", pack(content)))) == [(1, "a b"), (2, ""), (3, "c")]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_pipe(tmp_path, pack):
    """A list may come from ``<(command)``, which cannot be read twice."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(pack(b"rs1\nrs2\n"),))
    writer.start()
    assert list(text.lines(pipe)) == [(1, "rs1"), (2, "rs2")]
    writer.join()


def test_blocks_cut_anywhere(write, monkeypatch):
    path = write("t.txt", "a\r\nbb\rccc\n\n\r\ndddd\r\n\r\n")
    whole = list(text.lines(path))
    assert whole == [(1, "a"), (2, "bb"), (3, "ccc"), (4, ""), (5, ""), (6, "dddd")]
    for size in range(1, 12):
        monkeypatch.setattr(text, "BLOCK_BYTES", size)
        assert list(text.lines(path)) == whole


def test_bytes_that_are_not_utf8_survive(write):
    fam = read_fam(write("t.fam", b"f\xe9 i\xff 0 0 1 1\n"))
    assert (fam.fid[0] + fam.iid[0]).encode("utf-8", "surrogateescape") == b"f\xe9i\xff"
    assert text.show(fam.iid[0]) == r"i\xff"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a b\x00\n", "t.txt:1: byte 0x00, expected text"),
        (b"a\nb\nc\x1b\n", "t.txt:3: byte 0x1b, expected text"),
        ("a b\n".encode("utf-16"), "t.txt: text in UTF-16, expected UTF-8; save it as UTF-8"),
        (gzip.compress(b"a b\n" * 1000)[:-9], "t.txt: damaged or incomplete gzip file"),
        (b"\x1f\x8b" + b"z" * 40, "t.txt: damaged or incomplete gzip file"),
    ],
)
def test_not_text(write, content, expected, problems):
    assert problems(lambda p: list(text.lines(p)), write("t.txt", content))[0].startswith(expected)


def test_no_such_file(tmp_path, write, problems):
    write("pheno.txt", "1\n")
    assert problems(read_fam, tmp_path / "pheno.tx") == ["pheno.tx: no such file; did you mean pheno.txt?"]
    assert "there is no folder" in problems(read_fam, tmp_path / "nowhere" / "x.fam")[0]
    assert problems(read_fam, tmp_path / "folder\0name")[0].endswith("cannot be opened (embedded null byte)")
    (tmp_path / "d.fam").mkdir()
    assert problems(read_fam, tmp_path / "d.fam") == ["d.fam: a folder, expected a file"]


def test_gzip_bomb_and_endless_line_are_refused(write, monkeypatch, problems):
    monkeypatch.setattr(text, "FREE_EXPANSION_BYTES", 1 << 21)
    bomb = write("t.gz", gzip.compress(b"1\n" * (1 << 22)))
    assert "more than 100 times its size" in problems(lambda p: sum(1 for _ in text.lines(p)), bomb)[0]
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 1 << 21)
    long = write("t.txt", b"x" * (1 << 22))
    assert "expected a text table" in problems(lambda p: list(text.lines(p)), long)[0]


@pytest.mark.parametrize("token", ["1", "-1.5", "+.5", "1.", "1e5", "1E-300", "0", "-0"])
def test_numbers(token):
    assert text.parse_number(token) == float(token)


@pytest.mark.parametrize(
    "token", ["", "1_000", "0x1A", "inf", "nan", "1e999", "1,5", "1.5D+3", "١", "1e", "--1", "1 2"]
)
def test_not_numbers(token):
    assert text.parse_number(token) is None


def test_decimal_comma_is_named():
    assert text.not_a_number("1,5").endswith("write the decimal comma as a point: 1.5")


def test_messages_are_printable_and_bounded():
    assert text.show("a\tb\x1b[31m") == r"a\tb\x1b[31m"
    assert len(text.show("x" * 10_000)) == text.MAX_TOKEN_SHOWN
    assert text.some(["a", "b", "c", "d"]) == "a, b, c, ..."
    assert text.plural(1, "row") == "1 row"
    assert text.plural(1940, "row") == "1,940 rows"


# --- .fam -------------------------------------------------------------------------------------------------------


def test_fam(write):
    fam = read_fam(write("t.fam", FAM))
    assert (fam.fid, fam.iid) == (["f1", "f2", "f3"], ["i1", "i2", "i3"])
    assert (fam.n_samples, fam.n_phenotypes, fam.warnings) == (3, 2, ())
    table = fam.phenotypes([2, 1])
    np.testing.assert_array_equal(table.values, [[np.nan, 0.5], [1, np.nan], [np.nan, 1e-3]])
    assert (table.names, table.warnings) == (("2", "1"), ())


def test_fam_foreign_missing(write):
    table = read_fam(write("t.fam", "f a 0 0 1 nan\nf b 0 0 1 .\nf c 0 0 1 3\n")).phenotypes([1])
    assert np.isnan(table.values[:, 0]).tolist() == [True, True, False]
    assert "2 values NaN, nan or '.' taken as missing" in table.warnings[0]


@pytest.mark.parametrize("spaced", ["F 1\tI 1\t0\t0\t1\t2.5", "F 1\tI 1\t0\t0\t1\t2.5 "])
def test_fam_ids_with_spaces_between_tabs(write, spaced):
    fam = read_fam(write("t.fam", spaced + "\nF2\tI2\t0\t0\t1\t3\n"))
    assert (fam.fid, fam.iid, fam.phenotypes([1]).values.ravel().tolist()) == (["F 1", "F2"], ["I 1", "I2"], [2.5, 3])


def test_fam_phenotypes_appended_with_other_separators(write):
    fam = read_fam(write("t.fam", "F\tI\t0\t0\t1\t2.5 1.5  0.5\n"))
    assert fam.phenotypes([1, 2, 3]).values.tolist() == [[2.5, 1.5, 0.5]]


@pytest.mark.parametrize("name", ["1_3", "a/b:c;d", "é", "日本", "'q\"", "a,b", "#x", "1e5", "NA", "-9", "a\u00a0b"])
def test_any_printable_id(write, name):
    fam = read_fam(write("t.fam", f"{name} {name} 0 0 1 1\n{name} {name} 0 0 1 2\n"))
    assert fam.fid == fam.iid == [name, name]
    assert fam.warnings[0].endswith(
        f"1 individual with FID and IID of an earlier row ({text.show(name)} {text.show(name)})"
    )
    bim = read_bim(write("t.bim", f"{name} {name} 0 1 {name} {name}\n" * 2))
    assert bim.chrom == bim.rs == bim.allele1 == bim.allele0 == [name, name]
    assert len(bim.warnings) == 1


def test_fam_problems_all_told(write, problems):
    content = "#FID IID P M S P\nf1 i1 0 0 1 1\n\nf2 i2 0 0 1\nf3 i3\nf4 i4 0 0 1 1 1\nf5 i5 0 0 1 1\n"
    assert problems(read_fam, write("t.fam", content)) == [
        "t.fam:1:1: '#FID', expected a family ID; a .fam has no header: delete the row",
        "t.fam:3: blank line, expected an individual; delete it",
        "t.fam:4: 5 columns, expected 6 as in the first row; IDs with spaces need tabs between the columns",
        "t.fam:5: 2 columns, expected at least 6 (FID IID father mother sex phenotype)",
        "t.fam:6: 7 columns, expected 6 as in the first row; IDs with spaces need tabs between the columns",
    ]
    assert problems(read_fam, write("t.fam", "\n \n")) == ["t.fam: empty, expected a row for each individual"]


def test_phenotype_problems_all_told(write, problems):
    fam = read_fam(write("t.fam", "f a 0 0 1 x 1\nf b 0 0 1 1,5 inf\nf c 0 0 1 1e999 1\n"))
    assert problems(lambda _: fam.phenotypes([1, 2]), fam.path) == [
        "t.fam:1:6: 'x', expected a number or NA; write NA where the value is missing",
        "t.fam:2:6: '1,5', expected a number or NA; write the decimal comma as a point: 1.5",
        "t.fam:2:7: 'inf', expected a number or NA; write NA where the value is missing",
        "t.fam:3:6: '1e999', expected a number or NA that a 64-bit float can hold",
    ]
    assert problems(lambda _: fam.phenotypes([0, 3, 1, 1]), fam.path) == [
        "t.fam: phenotype column 0 was asked for, the file has 2 phenotype columns; columns are numbered from 1",
        "t.fam: phenotype column 3 was asked for, the file has 2 phenotype columns; columns are numbered from 1",
        "t.fam: phenotype column 1 was asked for 2 times; name each column once",
    ]


def test_fam_without_phenotypes(write, problems):
    fam = read_fam(write("t.fam", "f i 0 0 1\n"))
    assert fam.n_phenotypes == 0
    assert problems(lambda _: fam.phenotypes([1]), fam.path) == [
        "t.fam: phenotype column 1 was asked for, the file has no phenotype; columns are numbered from 1"
    ]


def test_fam_that_changes_is_noticed(write, problems):
    fam = read_fam(write("t.fam", FAM))
    write("t.fam", "f1 i1 0 0 1 0.5 NA\n")
    assert problems(lambda _: fam.phenotypes([1]), fam.path)[0].startswith("t.fam:1: ends here")
    write("t.fam", "f1 i1 0 0 1\n" * 3)
    assert problems(lambda _: fam.phenotypes([1]), fam.path)[0].startswith("t.fam:1: shorter than")


def test_many_problems_are_counted_not_kept(write, problems):
    lines = problems(read_fam, write("t.fam", "f i 0 0 1 1\n" + "f i\n" * 5000))
    assert len(lines) == 21
    assert lines[-1] == "t.fam: and more like these; reading stopped there"


# --- .bim -------------------------------------------------------------------------------------------------------


def test_bim(write):
    bim = read_bim(write("t.bim", BIM))
    assert (bim.chrom, bim.rs, bim.allele1, bim.allele0) == (["1", "X"], ["rs1", "rs2"], ["A", "C"], ["G", "T"])
    assert bim.ps.dtype == np.int64
    assert bim.ps.tolist() == [100, 2000]
    assert (bim.n_variants, bim.warnings) == (2, ())


def test_bim_odd_but_right(write):
    content = "1 rs1 0 1e+05 A G\n2\trs 2\t0\t-7\tA\tG G\n3 . NA 9007199254740991 <DEL> *\n3 . . 0 A A\n"
    bim = read_bim(write("t.bim", content))
    assert bim.ps.tolist() == [100_000, -7, 2**53 - 1, 0]
    assert (bim.rs, bim.allele0) == (["rs1", "rs 2", ".", "."], ["G", "G G", "*", "A"])
    assert bim.warnings == ()


def test_bim_problems_all_told(write, problems):
    content = "CHR SNP CM BP A1 A2\n1 rs1 0 100 A\n\n1 rs3 0 1.5 A G\n1 rs4 x 1 A G\n1 rs5 0 1_0 A G\n1 rs6 0 1 A G C\n"
    assert problems(read_bim, write("t.bim", content)) == [
        "t.bim:1:4: 'BP', expected a position in base pairs (a whole number); a .bim has no header: delete the row",
        "t.bim:2: 5 columns, expected 6 (chromosome, ID, cM, position, allele1, allele0)",
        "t.bim:3: blank line, expected a variant; delete it",
        "t.bim:4:4: '1.5', expected a position in base pairs (a whole number)",
        "t.bim:5:3: 'x', expected a genetic distance (a number; 0 if unknown)",
        "t.bim:6:4: '1_0', expected a position in base pairs (a whole number)",
        "t.bim:7: 7 columns, expected 6 (chromosome, ID, cM, position, allele1, allele0)",
    ]
    assert problems(read_bim, write("t.bim", "")) == ["t.bim: empty, expected a row for each variant"]
    assert "'99999999999999999999'" in problems(read_bim, write("t.bim", f"1 a 0 {'9' * 20} A G\n"))[0]
    assert "'1" in problems(read_bim, write("t.bim", f"1 a 0 {'1' * 6000} A G\n"))[0]


def test_bim_blocks_cut_anywhere(write, monkeypatch, problems):
    path = write("t.bim", BIM * 5 + "7 é 0 1 A G\n" + BIM + "\n\n")
    whole = read_bim(path)
    assert whole.n_variants == 13
    for size in (1, 7, 23, 40):
        monkeypatch.setattr(text, "BLOCK_BYTES", size)
        again = read_bim(path)
        assert (again.chrom, again.rs, again.ps.tolist()) == (whole.chrom, whole.rs, whole.ps.tolist())
    broken = write("t.bim", BIM + "\n\n\n" + BIM)
    for size in (1, 7, 23, 1000):
        monkeypatch.setattr(text, "BLOCK_BYTES", size)
        assert [p.split(":")[1] for p in problems(read_bim, broken)] == ["3", "4", "5"]


def test_bim_repeated_ids(write):
    bim = read_bim(write("t.bim", "".join(f"1 {r} 0 1 A G\n" for r in ["a", "b", "a", ".", ".", "b", "a", "c"])))
    assert bim.warnings[0].endswith("t.bim: 3 variants with the ID of an earlier row (a, b, a)")


def test_bim_memory_is_a_small_factor(write):
    path = write("t.bim", "".join(f"1\trs{i}\t0\t{i}\tA\tG\n" for i in range(50_000)))
    read_bim(path)
    tracemalloc.start()
    read_bim(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * path.stat().st_size + 8 * text.BLOCK_BYTES * 8


# --- lists ------------------------------------------------------------------------------------------------------


def test_variant_list(write, problems):
    path = write("l.txt", "rs1 0.5\n\n  rs2\trs3\r\nrs1\na,b\n")
    assert list(read_variant_list(path)) == ["rs1", "rs2", "a,b"]
    assert list(read_variant_list(path, all_tokens=True)) == ["rs1", "0.5", "rs2", "rs3", "a,b"]
    assert problems(read_variant_list, write("l.txt", "\n")) == ["l.txt: empty, expected a variant ID on each line"]


# --- hostile bytes ----------------------------------------------------------------------------------------------

PIECES = [
    *(
        b"1",
        b"rs1",
        b"0",
        b"-9",
        b"NA",
        b"A",
        b" ",
        b"\t",
        b"\n",
        b"\r",
        b"\r\n",
        b",",
        b'"',
        b"1e999",
        b"1_0",
        b"\xff",
    ),
    *(b"f i 0 0 1 1\n", b"1 r 0 1 A G\n", b"IID\tx\n", b"\xc3\xa9", b"\xef\xbb\xbf", b"\x00", b"\x1f\x8b"),
    *(b"\xc2\xa0", b"\xe2\x80\xa8", b"\x85", b"\xed\xa0\x80"),
]
BYTES = st.one_of(st.binary(max_size=300), st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join))


def result_or_problems(read, *args, **kwargs):
    """What a reader returns, or None after it raised `InputError` with a fit list of problems."""
    try:
        return read(*args, **kwargs)
    except InputError as error:
        found = error
    assert 0 < len(found.problems) <= 2 * text.MAX_PROBLEMS_SHOWN
    assert all(line.isprintable() for line in found.problems)
    return None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=BYTES, packed=st.booleans())
def test_hostile_bytes(tmp_path, content, packed, problems):
    path = tmp_path / "hostile"
    path.write_bytes(gzip.compress(content) if packed else content)
    fam = result_or_problems(read_fam, path)
    if fam is not None:
        assert len(fam.fid) == fam.n_samples > 0
        for c in range(1, min(fam.n_phenotypes, 3) + 1):
            table = result_or_problems(fam.phenotypes, [c])
            assert table is None or len(table.values) == fam.n_samples
    bim = result_or_problems(read_bim, path)
    if bim is not None:
        assert {len(bim.chrom), len(bim.ps), len(bim.allele1), len(bim.allele0)} == {bim.n_variants}
    result_or_problems(read_variant_list, path)
