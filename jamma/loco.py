"""Leave one chromosome out: each variant is tested against the kinship of all other chromosomes.

One pass over the file sums the kinship of all variants. For each chromosome its own variants are read again, their
sum subtracted, the rest decomposed, and the chromosome's variants tested; so two n x n matrices live per worker.
Each finished chromosome's statistics go to a part file beside the output, from which `--resume` continues and the
results are written in file order at the end, however chromosomes are interleaved.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from jamma.core.errors import InputError
from jamma.lmm.schema import STATISTICS, AssocChunk, NullModel
from jamma.stages import Run, Tested, decompose, require_variants, rows_by_chromosome, run_tests, sum_kinship

if TYPE_CHECKING:
    from jamma.kinship import LocoKinship
    from jamma.lmm.association import AssociationSetup, ChunkResult
    from jamma.lmm.basis import EigenBasis


@dataclass
class LocoOutcome:
    """What the chromosomes gave: counts over all, null model of each."""

    tested: Tested
    kinship_reasons: Counter[int]
    null_models: dict[str, NullModel] = field(default_factory=dict)
    eigen_paths: list[Path] = field(default_factory=list)


def sum_all(run: Run, samples: NDArray[np.int64] | None, mask: NDArray[np.bool_] | None) -> tuple[LocoKinship, Counter]:
    """The kinship sum over all chromosomes.

    Parameters
    ----------
    run : Run
    samples : ndarray of int64 or None
        Rows of the .fam in the kinship; None: all.
    mask : ndarray of bool or None
        Those of them that the filters look at.
    """
    from jamma.kinship import LocoKinship

    groups = run.kinship_groups
    if len(groups) < 2:
        raise InputError(
            f"-loco: the variants of the kinship lie on one chromosome ({next(iter(groups), 'none')}); without it "
            "nothing is left. LOCO needs variants of at least two chromosomes (column 1 of the .bim)."
        )
    reader = run.reader(samples)
    total = LocoKinship(reader.n_samples, n_threads=run.plan.n_threads)
    reasons = sum_kinship(run, total, reader, run.kinship_variants.rows, mask)
    require_variants(total.n_variants, reasons, "for the kinship")
    return total, reasons


def kinship_without(
    run: Run, total: LocoKinship, chromosome: str, samples: NDArray[np.int64] | None, mask: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    """The kinship of all chromosomes but one."""
    from jamma.kinship import KinshipSum

    rows = run.kinship_groups.get(chromosome)
    reader = run.reader(samples)
    group = KinshipSum(reader.n_samples, n_threads=run.plan.n_threads)
    if rows is not None:
        sum_kinship(run, group, reader, rows, mask)
    if group.n_variants == total.n_variants:
        raise InputError(f"-loco: no variant outside chromosome {chromosome} passes the filters; its kinship is empty")
    return total.without(group)


class Parts:
    """Finished chromosomes of this very run, on disk."""

    def __init__(self, run: Run):
        self.folder = run.request.output_stem.with_name(run.request.output_stem.name + ".loco_parts")
        self._fingerprint = run_fingerprint(run)
        self._statistics = STATISTICS[run.config.lmm_mode]
        stamp = self.folder / "run.json"
        if not (run.request.resume and stamp.exists() and stamp.read_text() == self._fingerprint):
            if run.request.resume and stamp.exists():
                run.warn(f"--resume: {self.folder} is of another run (inputs or options differ); starting anew")
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not stamp.exists():
            from jamma.io.atomic import write_all

            write_all(stamp, [self._fingerprint.encode()])

    def path(self, chromosome: str) -> Path:
        """File of one chromosome."""
        return self.folder / f"{quote(chromosome, safe='')}.npz"

    def save(self, chromosome: str, results: list[ChunkResult], null: NullModel) -> None:
        """Keep a finished chromosome."""
        from jamma.io.atomic import atomic_output

        chunks = [r.results[0] for r in results]
        arrays: dict[str, Any] = {
            "read": np.concatenate([r.index for r in results]),
            "read_reason": np.concatenate([r.reason for r in results]),
            "index": np.concatenate([c.index for c in chunks]),
            "n_miss": np.concatenate([c.n_miss for c in chunks]),
            "af": np.concatenate([c.af for c in chunks]),
            "neg_log10_p": np.concatenate([c.neg_log10_p for c in chunks]),
            "reason": np.concatenate([c.reason for c in chunks]),
            **{s: np.concatenate([c.statistics[s] for c in chunks]) for s in self._statistics},
            "null": np.frombuffer(json.dumps(_null_as_json(null)).encode(), np.uint8),
        }
        with atomic_output(self.path(chromosome)) as out:
            np.savez(out, **arrays)

    def load(self, chromosome: str) -> tuple[dict[str, NDArray], NullModel]:
        """A finished chromosome's arrays and null model."""
        with np.load(self.path(chromosome), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return arrays, _null_from_json(json.loads(arrays.pop("null").tobytes()))

    def in_file_order(self, chromosomes: list[str], chunk_size: int) -> Iterator[tuple[AssocChunk, NullModel]]:
        """All results by row of the .bim, each run of rows of one chromosome with its null model."""
        loaded = [self.load(name) for name in chromosomes]
        merged = {
            name: np.concatenate([part[name] for part, _ in loaded])
            for name in ("index", "n_miss", "af", "neg_log10_p", "reason", *self._statistics)
        }
        owner = np.repeat(np.arange(len(loaded)), [len(part["index"]) for part, _ in loaded])
        order = np.argsort(merged["index"], kind="stable")
        ends = np.flatnonzero(np.diff(owner[order])) + 1
        for run_of_rows in np.split(order, ends):
            for start in range(0, len(run_of_rows), chunk_size):
                take = run_of_rows[start : start + chunk_size]
                chunk = AssocChunk(
                    index=merged["index"][take], n_miss=merged["n_miss"][take], af=merged["af"][take],
                    statistics={s: merged[s][take] for s in self._statistics},
                    neg_log10_p=merged["neg_log10_p"][take], reason=merged["reason"][take],
                )  # fmt: skip
                yield chunk, loaded[owner[take[0]]][1]

    def remove_if_empty(self) -> None:
        """Delete them where no chromosome is finished: there is nothing to resume from."""
        if not any(self.folder.glob("*.npz")):
            self.remove()

    def remove(self) -> None:
        """Delete them: the output is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _null_as_json(null: NullModel) -> dict:
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(null).items()}


def _null_from_json(values: dict) -> NullModel:
    fields: dict[str, Any] = {k: np.array(v) if isinstance(v, list) else v for k, v in values.items()}
    return NullModel(**fields)


def run_fingerprint(run: Run) -> str:
    """What must be equal for a part to belong to this run: samples, data, variants, filters, bounds, version."""
    from jamma._version import __version__
    from jamma.io.plink import bfile_path

    bed = bfile_path(run.request.bfile, ".bed").stat()
    digest = hashlib.sha256()
    for array in (
        run.samples.index,
        run.samples.phenotypes,
        run.samples.covariates,
        run.test.rows,
        run.kinship_variants.rows,
    ):
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update("\n".join(run.bim.chrom).encode())
    digest.update("\n".join(run.bim.rs).encode())
    config = {k: v for k, v in asdict(run.config).items() if k not in ("chunk_size", "n_threads")}
    return json.dumps(
        {"jamma": __version__, "bed": [bed.st_size, bed.st_mtime_ns], "data": digest.hexdigest(), "config": config},
        sort_keys=True,
    )


def run_loco(run: Run) -> tuple[LocoOutcome, Parts]:
    """Test every chromosome's variants with that chromosome left out; leaves the results in parts."""
    parts = Parts(run)
    try:
        return _run_into(run, parts), parts
    except BaseException:
        parts.remove_if_empty()
        raise


def _run_into(run: Run, parts: Parts) -> LocoOutcome:
    """Every chromosome that has no part yet, then the counts of all."""
    from jamma.eigen_store import EigenStore

    store = EigenStore(run)
    groups = rows_by_chromosome(run.bim.chrom, run.test.rows)
    outcome = LocoOutcome(Tested(), Counter())
    todo = [name for name in groups if not parts.path(name).exists()]
    if len(todo) < len(groups):
        run.note(f"--resume: {len(groups) - len(todo)} of {len(groups)} chromosomes were finished before")
    total = None
    if any(not store.has(name) for name in todo):
        total, outcome.kinship_reasons = sum_all(run, run.samples.index, None)

    def one(name: str) -> None:
        _one_chromosome(run, name, groups[name], total, parts, store)

    _for_each(todo, one, min(run.plan.loco_workers, max(1, len(todo))))
    for name in groups:
        arrays, null = parts.load(name)
        outcome.null_models[name] = null
        outcome.tested.reasons.update(arrays["read_reason"].tolist())
        outcome.tested.n_chunks += 1
    outcome.eigen_paths = store.written
    return outcome


def _for_each(names: list[str], one: Callable[[str], None], workers: int) -> None:
    """Call `one` for each name, `workers` at a time; the first error stops the rest."""
    if workers == 1:
        for name in names:
            one(name)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="jamma-loco") as pool:
        futures = [pool.submit(one, name) for name in names]
        done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        for future in waiting:
            future.cancel()
        for future in done:
            future.result()


def _one_chromosome(run, name: str, rows: NDArray[np.int64], total, parts: Parts, store) -> None:
    """Decompose without this chromosome, test its variants, keep the results."""
    from jamma.lmm.association import prepare_association

    basis: EigenBasis = store.load(name) if store.has(name) else decompose(
        run, kinship_without(run, total, name, run.samples.index, None), store.needs_vectors
    )  # fmt: skip
    store.save(name, basis)
    with run.clock.phase("null_model_s"):
        setup: AssociationSetup = prepare_association(
            basis, run.samples.phenotypes, run.samples.covariates, run.config, run.samples.phenotype_names
        )
    results: list[ChunkResult] = []
    threads = max(1, run.plan.n_threads // run.plan.loco_workers)
    chunks = run.reader(run.samples.index).chunks(run.plan.chunk_size, rows)
    run_tests(run, setup, chunks, len(rows), results.append, threads)
    parts.save(name, results, setup.phenotypes[0].null_model)
