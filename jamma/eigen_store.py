"""LOCO's decompositions on disk (``--eigen-dir``): reused where they belong to this run, written with ``-eigen``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

if TYPE_CHECKING:
    from jamma.lmm.basis import EigenBasis
    from jamma.stages import Run


class EigenStore:
    """Eigen files of each chromosome in the folder of ``--eigen-dir``; empty without one.

    A stamp file beside each pair holds a digest of what the decomposition depends on: the analysed samples, the
    variants of the kinship with their chromosomes, the filters, and size and time of the .bed. Files with another
    stamp are not used, and the run says so.
    """

    def __init__(self, run: Run):
        folder = run.request.eigen_dir
        self._run = run
        self._folder = None if folder is None else Path(folder)
        self._stamp = "" if folder is None else self._digest()
        self.written: list[Path] = []

    @property
    def needs_vectors(self) -> bool:
        """Whether the eigenvectors themselves will be written."""
        return self._folder is not None and self._run.request.write_eigen

    def _digest(self) -> str:
        """Stands for everything that the kinships depend on."""
        from jamma.io.plink import bfile_path

        run, config = self._run, self._run.config
        bed = bfile_path(run.request.bfile, ".bed").stat()
        digest = hashlib.sha256()
        digest.update(np.ascontiguousarray(run.samples.index).tobytes())
        digest.update(np.ascontiguousarray(run.kinship_variants.rows).tobytes())
        if run.samples.n_cvt > 1:
            # Covariates enter through the r2 filter alone.
            digest.update(np.ascontiguousarray(run.samples.covariates).tobytes())
        digest.update("\n".join(run.bim.chrom).encode())
        filters = (config.maf, config.miss, config.r2, config.notsnp, bed.st_size, bed.st_mtime_ns)
        digest.update(json.dumps(filters).encode())
        return digest.hexdigest()

    def _stem(self, chromosome: str) -> Path:
        assert self._folder is not None
        return self._folder / f"loco.{quote(chromosome, safe='')}"

    def _stamp_path(self, chromosome: str) -> Path:
        stem = self._stem(chromosome)
        return stem.with_name(stem.name + ".stamp")

    def has(self, chromosome: str) -> bool:
        """Whether a decomposition of this very run is there."""
        if self._folder is None or not self._stamp_path(chromosome).exists():
            return False
        if self._stamp_path(chromosome).read_text().strip() == self._stamp:
            return True
        warning = f"{self._folder}: the eigen files there are of other samples, variants or filters; they are " + (
            "replaced" if self.needs_vectors else "not used"
        )
        if warning not in self._run.warnings:
            self._run.warn(warning)
        return False

    def load(self, chromosome: str) -> EigenBasis:
        """The basis of one chromosome's files."""
        from jamma.io.matrix import read_eigen
        from jamma.lmm.basis import EigenBasis

        run, stem = self._run, self._stem(chromosome)
        with run.clock.phase("load_s"):
            eigenvalues, vectors = read_eigen(
                stem.with_name(f"{stem.name}.eigenD.npy"), stem.with_name(f"{stem.name}.eigenU.npy"),
                fid=run.samples.fid, iid=run.samples.iid, n_threads=run.plan.n_threads,
            )  # fmt: skip
        return EigenBasis(eigenvalues, vectors)

    def save(self, chromosome: str, basis: EigenBasis) -> None:
        """Write one chromosome's decomposition, if that was asked for and it is not there."""
        if not self.needs_vectors or self.has(chromosome):
            return
        from jamma.io.atomic import write_all
        from jamma.io.matrix import write_eigen

        run = self._run
        with run.clock.phase("write_s"):
            self.written += write_eigen(
                self._stem(chromosome), basis.eigenvalues, basis.vectors,
                run.samples.fid, run.samples.iid, run.request.legacy_text,
            )  # fmt: skip
            write_all(self._stamp_path(chromosome), [self._stamp.encode() + b"\n"])
