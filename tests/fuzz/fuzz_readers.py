"""Feed the readers with mutated files for a long time (libFuzzer through atheris; pytest does not run this).

usage: python tests/fuzz/fuzz_readers.py [TARGET ...] [--minutes 10] [--corpus FOLDER]

Targets are the keys of `SEEDS`; none given: all, one after the other. A reader may raise `InputError` with problems of
bounded length, and nothing else; it may not hang (20 s) nor use memory beyond 1 GiB for a file of at most 256 KiB. An
input that breaks a rule is left in the corpus folder (default: a new one of the system's), and the exit code is then 1.
Needs ``pip install atheris``.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

N, P = 5, 3  # individuals and variants of the fileset around the fuzzed file
FAM = "".join(f"f{k} i{k} 0 0 1 {k}.5 {k % 2}\n" for k in range(N))
BIM = "".join(f"{k}\trs{k}\t0\t{100 * k}\tA\tG\n" for k in range(P))
BED = b"\x6c\x1b\x01" + bytes(range(7, 7 + 2 * P))

SEEDS: dict[str, list[bytes]] = {
    "bed": [BED, BED[:-1], b"\x6c\x1b\x00" + BED[3:]],
    "bim": [BIM.encode(), BIM.replace("\t", " ").replace("\n", "\r\n").encode(), b"1\trs 1\t0.5\t1e+05\tA\tG\n"],
    "fam": [FAM.encode(), FAM.replace(" ", "\t").encode(), b"F 1\tI 1\t0\t0\t1\t-9\n", b"\xef\xbb\xbff i 0 0 1 NA\r\n"],
    "columns": [b"1 2\n" * N, b"1,NA\n-9,nan\n" * N, b"a\tb\n" + b"1\t2\n" * N, gzip.compress(b"1.5\n" * N)],
    "by_id": [
        b"FID\tIID\tx\ty\nf0\ti0\t1\tNA\nf1\ti1\t\t2\n",
        b'"IID","x","y"\n"i0",1,a\ni3,-9,b\n',
        b"#IID x y\ni0 1 2\n",
    ],
    "lists": [b"f0 i0\ni1\nrs1\n", b"#FID IID\nf0 i0\n"],
    "text_matrix": [b"1 2\n2 3\n", b"1\t0.5\r\n0.5,1e-3\r\n", b"nan 1\n1 1\n"],
    "npy_matrix": [],
    "pairs_matrix": [b"i0 i0 1\ni0 i1 0.5\ni1 i1 1\n"],
}


def readers(folder: Path) -> dict[str, Callable[[bytes], object]]:
    """The function that each target calls with the bytes of its file."""
    from jamma.io.by_id import match_individuals, read_table_by_id
    from jamma.io.columns import read_matrix
    from jamma.io.matrix import read_kinship
    from jamma.io.plink import load_plink_binary
    from jamma.io.tables import read_bim, read_fam, read_variant_list

    for name, content in (("s.fam", FAM.encode()), ("s.bim", BIM.encode())):
        (folder / name).write_bytes(content)
    fam = read_fam(folder / "s.fam")

    def put(name: str, content: bytes) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    def read_fam_and_phenotypes(content: bytes) -> None:
        table = read_fam(put("x.fam", content))
        table.phenotypes(range(1, min(3, table.n_phenotypes) + 1))

    def read_kinship_of_two(content: bytes, name: str, km: int) -> None:
        import numpy as np

        ids = {"fid": ["f0", "f1"], "iid": ["i0", "i1"], "index": np.arange(2), "km": km}
        read_kinship(put(name, content), n_total=2, **ids)

    def read_lists(content: bytes) -> None:
        read_variant_list(put("x.txt", content), all_tokens=True)
        match_individuals(folder / "x.txt", fam)

    return {
        "bed": lambda b: (put("s.bed", b), load_plink_binary(folder / "s")),
        "bim": lambda b: read_bim(put("x.bim", b)),
        "fam": read_fam_and_phenotypes,
        "columns": lambda b: read_matrix(put("x.txt", b), N, kind="covariate", text_columns=[2]),
        "by_id": lambda b: read_table_by_id(put("x.txt", b), fam, option="--covar", text_columns=["y"]),
        "lists": read_lists,
        "text_matrix": lambda b: read_kinship_of_two(b, "k.cXX.txt", 1),
        "npy_matrix": lambda b: read_kinship_of_two(b, "n.cXX.npy", 1),
        "pairs_matrix": lambda b: read_kinship_of_two(b, "p.txt", 2),
    }


def fuzz(target: str, minutes: float, corpus: Path) -> None:
    """Fuzz one target in this process; libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["jamma.io"]):
        import numpy as np

        folder = tempfile.TemporaryDirectory(
            prefix="jamma-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None
        )
        read = readers(Path(folder.name))[target]
    from jamma.core.errors import InputError

    if target == "npy_matrix":
        for array in (np.eye(2), np.eye(2, dtype=np.float32), np.asfortranarray(np.ones((2, 2))), np.ones(3)):
            buffer = io.BytesIO()
            np.save(buffer, array)
            SEEDS[target].append(buffer.getvalue())
    for k, seed in enumerate(SEEDS[target]):
        (corpus / f"seed-{k}").write_bytes(seed)

    def one_input(data: bytes) -> None:
        try:
            read(data)
        except InputError as error:
            if not 0 < len(error.problems) <= 64 or max(map(len, error.problems)) > 4000:
                raise AssertionError(
                    f"{len(error.problems)} problems, {max(map(len, error.problems))} characters"
                ) from error

    options = [f"-max_total_time={60 * minutes:.0f}", "-max_len=262144", "-timeout=20", "-rss_limit_mb=1024"]
    options += [f"-artifact_prefix={corpus}/", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one_input)
    atheris.Fuzz()


def main() -> int:
    """Run each target in a process of its own; print a line of figures for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", choices=[[], *SEEDS], default=[], metavar="TARGET")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each target")
    parser.add_argument("--corpus", type=Path, help="keep inputs here, and go on from those that are here")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    root = options.corpus or Path(tempfile.mkdtemp(prefix="jamma-corpus-"))
    if options.child:
        fuzz(options.target[0], options.minutes, root)
        return 0
    failed = 0
    for target in options.target or list(SEEDS):
        corpus = root / target
        corpus.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        command = [
            sys.executable,
            __file__,
            target,
            "--child",
            "--minutes",
            str(options.minutes),
            "--corpus",
            str(corpus),
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", done.stderr))
        runs, peak = stats.get("number_of_executed_units", "?"), stats.get("peak_rss_mb", "?")
        seconds = time.monotonic() - start
        print(f"{target}: {runs} inputs in {seconds:.0f} s, peak {peak} MiB, exit code {done.returncode}", flush=True)
        if done.returncode:
            failed += 1
            print(done.stderr[-4000:], f"inputs are in {corpus}", sep="\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
