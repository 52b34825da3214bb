"""Each kernel against the BLAS call that it replaces, in one run: a line each.

    python asv_bench/roofline.py [--threads N] [--repeats N] [--only WORD] [--levels] [--small] [--json FILE]

Every file of ``asv_bench/kernels`` has ``cases(n_threads, small)``, which yields `Case` objects. Kernel and BLAS call
run in turn, and the best time of each counts, so that another program on the machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from case import Case  # noqa: E402


def collect(n_threads: int, small: bool, only: str) -> Iterator[Case]:
    """The cases of all files in ``kernels`` whose name, or whose case's name, contains `only`."""
    for path in sorted((HERE / "kernels").glob("[!_]*.py")):
        spec = importlib.util.spec_from_file_location(f"kernels_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for case in module.cases(n_threads, small):
            if only in path.stem or only in case.name:
                yield case


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(case: Case, repeats: int) -> dict[str, object]:
    """Best times of kernel and BLAS in turn, their ratio, and how far apart the results are."""
    difference = case.difference(case.kernel(), case.blas())  # also warms both up
    kernel, blas = float("inf"), float("inf")
    for _ in range(repeats):
        kernel = min(kernel, seconds(case.kernel))
        blas = min(blas, seconds(case.blas))
    return {
        "case": case.name, "kernel_s": kernel, "blas_s": blas, "ratio": blas / kernel, "difference": difference,
        "per_item_us": 1e6 * kernel / case.n_items if case.n_items else None, "at_least": case.at_least,
    }  # fmt: skip


def line(row: dict[str, object], level: str) -> str:
    """One measurement as a line."""
    per_item = f"{row['per_item_us']:8.2f}" if row["per_item_us"] else " " * 8
    verdict = "" if row["at_least"] is None else f"  (>= {row['at_least']:g}: {'yes' if met(row) else 'NO'})"
    return (
        f"{row['case']:<58}{level:>9}{1e3 * row['kernel_s']:10.2f}{1e3 * row['blas_s']:10.2f}"  # type: ignore[operator]
        f"{row['ratio']:8.2f}{row['difference']:11.1e}{per_item}{verdict}"
    )


def met(row: dict[str, object]) -> bool:
    """Whether the ratio is what was promised."""
    return row["at_least"] is None or row["ratio"] >= row["at_least"]  # type: ignore[operator]


def main() -> int:
    """Print a line a case; exit code 1 if a promised ratio was not reached and --strict was given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="threads of both sides (default: all CPUs)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name has this word in it")
    parser.add_argument("--levels", action="store_true", help="every CPU level of this machine, not only the best")
    parser.add_argument("--small", action="store_true", help="small shapes (a check that it runs)")
    parser.add_argument("--strict", action="store_true", help="fail where a promised ratio is not reached")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()

    import jamma
    from jamma.core.threads import available_cpus, blas_threads

    threads = options.threads or available_cpus()
    os.environ["OMP_NUM_THREADS"] = str(threads)
    jamma.show_config()
    print(f"\n{threads} threads on both sides, best of {options.repeats}, times in ms, us a variant")
    print(f"{'':<58}{'level':>9}{'kernel':>10}{'BLAS':>10}{'ratio':>8}{'difference':>11}{'us':>8}")
    rows = []
    with blas_threads(threads):
        for case in collect(threads, options.small, options.only):
            for level in case.level_names() if options.levels else [None]:
                with case.at_level(level) as name:
                    row = measure(case, options.repeats) | {"level": name}
                print(line(row, name), flush=True)
                rows.append(row)
    if options.json:
        Path(options.json).write_text(json.dumps({"threads": threads, "rows": rows}, indent=1) + "\n")
    if not rows:
        print("no case", file=sys.stderr)
        return 2
    return 1 if options.strict and not all(met(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
