"""Simulate the example cohort: families of a small population, with linkage, missing calls and two phenotypes.

    python examples/make_cohort.py [PREFIX]

writes PREFIX.bed, PREFIX.bim, PREFIX.fam (default: ``cohort`` beside this file) and ``covariates.txt`` in the same
folder. The result is the same on every machine. Needs numpy and bed-reader.

How: 6 old haplotypes carry all common alleles; 16 ancestral ones are mosaics of them, switching about every 12
variants, and a parent's haplotype is a mosaic of those, switching about every 40 (which gives linkage), with a few
alleles of its own (which gives rare variants). A child takes from each parent one haplotype, switching between the
parent's two about once a chromosome (which gives families).
Phenotype = one large effect (first phenotype only) + 300 small ones of the same size + covariates + noise.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from bed_reader import to_bed

SEED = 20120617
N_FAMILIES, N_CHILDREN = 100, 4  # two parents and four children each: 600 samples
N_CHROMOSOMES, N_PER_CHROMOSOME = 20, 600
N_OLDEST, OLD_SWITCH_RATE = 6, 1 / 12
N_ANCESTORS, SWITCH_RATE, MUTATION_RATE = 16, 1 / 40, 0.004
N_CAUSAL, POLYGENIC_VARIANCE = 300, 0.35
HIT_CHROMOSOME, HIT_VARIANCE = 11, 0.12
MISSING_RATE = 0.01
MISSING_CALL = -127


def mosaic(sources: np.ndarray, switch_rate: float, rng: np.random.Generator) -> np.ndarray:
    """One haplotype that copies a random row of `sources`, and jumps to a random row at `switch_rate` a variant."""
    n_sources, n_variants = sources.shape
    segment = np.cumsum(rng.random(n_variants) < switch_rate)
    row = rng.integers(0, n_sources, segment[-1] + 1)[segment]
    return sources[row, np.arange(n_variants)]


def simulate_chromosome(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Genotypes (samples, variants) of one chromosome, family by family, and the variants' positions."""
    p = N_PER_CHROMOSOME
    position = np.cumsum(rng.integers(500, 150_000, p))
    frequency = rng.beta(0.8, 1.2, p).clip(0.1, 0.9)
    oldest = (rng.random((N_OLDEST, p)) < frequency).astype(np.int8)
    ancestors = np.array([mosaic(oldest, OLD_SWITCH_RATE, rng) for _ in range(N_ANCESTORS)])
    samples = []
    for _ in range(N_FAMILIES):
        parents = []
        for _ in range(2):
            pair = np.array([mosaic(ancestors, SWITCH_RATE, rng) for _ in range(2)])
            parents.append(pair ^ (rng.random(pair.shape) < MUTATION_RATE))
        samples += [pair.sum(axis=0) for pair in parents]
        for _ in range(N_CHILDREN):
            samples.append(sum(mosaic(pair, 1 / p, rng) for pair in parents))
    return np.array(samples, dtype=np.int8), position


def standardize(x: np.ndarray) -> np.ndarray:
    """`x` with mean 0 and variance 1 in each column; constant columns become 0."""
    x = x - x.mean(axis=0)
    sd = x.std(axis=0)
    return x / np.where(sd > 0, sd, 1)


def pick_hit(genotypes: np.ndarray, chromosome: np.ndarray) -> int:
    """The variant in the middle of the hit's chromosome that is the nearest one to a frequency of 0.35."""
    middle = np.flatnonzero(chromosome == HIT_CHROMOSOME)[N_PER_CHROMOSOME // 3 : 2 * N_PER_CHROMOSOME // 3]
    return int(middle[np.argmin(np.abs(genotypes[:, middle].mean(axis=0) / 2 - 0.35))])


def simulate_phenotypes(
    genotypes: np.ndarray, hit: int, age: np.ndarray, sex: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Two phenotypes (samples, 2); the first one has the large effect of variant `hit`."""
    causal = rng.choice(genotypes.shape[1], N_CAUSAL, replace=False)
    phenotypes = []
    for hit_variance in (HIT_VARIANCE, 0.0):
        polygenic = standardize(standardize(genotypes[:, causal]) @ rng.choice([-1.0, 1.0], N_CAUSAL))
        y = np.sqrt(hit_variance) * standardize(genotypes[:, hit]) + np.sqrt(POLYGENIC_VARIANCE) * polygenic
        y += 0.3 * standardize(age) + 0.2 * standardize(sex)
        y += np.sqrt(1 - hit_variance - POLYGENIC_VARIANCE) * rng.standard_normal(len(y))
        phenotypes.append(y)
    return np.array(phenotypes).T


def write_samples(prefix: Path, phenotypes: np.ndarray, age: np.ndarray, sex: np.ndarray) -> None:
    """PREFIX.fam with both phenotypes, and covariates.txt with the intercept, age and sex (0 male, 1 female)."""
    size = 2 + N_CHILDREN
    fam, covariates = [], []
    for s, y in enumerate(phenotypes):
        family, member = divmod(s, size)
        father, mother = (f"S{family * size + 1:03d}", f"S{family * size + 2:03d}") if member >= 2 else ("0", "0")
        values = " ".join("NA" if np.isnan(v) else f"{v:.5f}" for v in y)
        fam.append(f"F{family + 1:03d} S{s + 1:03d} {father} {mother} {sex[s] + 1} {values}\n")
        covariates.append(f"1 {age[s]} {sex[s]}\n")
    Path(f"{prefix}.fam").write_text("".join(fam), newline="\n")
    (prefix.parent / "covariates.txt").write_text("".join(covariates), newline="\n")


def write_variants(prefix: Path, chromosome: np.ndarray, position: np.ndarray, rng: np.random.Generator) -> None:
    """PREFIX.bim; the counted allele is the first of the two."""
    bases = np.array(list("ACGT"))
    first = rng.integers(0, 4, len(position))
    second = (first + rng.integers(1, 4, len(position))) % 4
    rows = zip(chromosome, position, bases[first], bases[second], strict=True)
    lines = [f"{c}\tv{v + 1:05d}\t0\t{ps}\t{a1}\t{a0}\n" for v, (c, ps, a1, a0) in enumerate(rows)]
    Path(f"{prefix}.bim").write_text("".join(lines), newline="\n")


def main(prefix: Path) -> str:
    """Simulate the cohort, write its files; return the ID of the variant with the large effect."""
    rng = np.random.default_rng(SEED)
    parts = [simulate_chromosome(rng) for _ in range(N_CHROMOSOMES)]
    genotypes = np.hstack([g for g, _ in parts])
    position = np.concatenate([ps for _, ps in parts])
    chromosome = np.repeat(np.arange(1, N_CHROMOSOMES + 1), N_PER_CHROMOSOME)

    n_samples = len(genotypes)
    is_parent = np.arange(n_samples) % (2 + N_CHILDREN) < 2
    age = np.where(is_parent, rng.integers(40, 66, n_samples), rng.integers(12, 36, n_samples))
    sex = np.where(is_parent, np.arange(n_samples) % 2, rng.integers(0, 2, n_samples))
    hit = pick_hit(genotypes, chromosome)
    phenotypes = simulate_phenotypes(genotypes, hit, age, sex, rng)
    phenotypes[rng.random(phenotypes.shape) < 0.02] = np.nan

    genotypes[rng.random(genotypes.shape) < MISSING_RATE] = MISSING_CALL
    to_bed(f"{prefix}.bed", genotypes, num_threads=1)  # also writes a .bim and .fam without content, replaced here
    write_variants(prefix, chromosome, position, rng)
    write_samples(prefix, phenotypes, age, sex)
    return f"v{hit + 1:05d}"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("cohort")
    print(f"wrote {target}.bed, .bim, .fam and covariates.txt; the large effect is at {main(target)}")
