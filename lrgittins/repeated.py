"""Repeated cross-fitting: the mean of one-step scores over several independent splits into folds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ._noise import FoldInfluence, ScoreNoise
from ._outcomes import FloatArray, IntArray
from .one_step import OneStep


@dataclass(frozen=True, eq=False)
class RepeatedNoise:
    """Noise of the mean of several cross-fits, with the mean of their covariances.

    The splits share the votes, so their errors are nearly the same variable and averaging must not divide the variance by
    the number of splits. The covariance of a mean is at most the mean of the covariances (of any quadratic form; they are
    convex), with equality where all splits have the same influence functions, as in the limit. So this errs on the safe side.
    """

    splits: tuple[ScoreNoise, ...]
    task_covariance: FloatArray

    def joint_draws(self, rng: np.random.Generator, n_draws: int) -> Iterator[FloatArray]:
        weight = 1.0 / np.sqrt(len(self.splits))
        for chunks in zip(*(split.joint_draws(rng, n_draws) for split in self.splits), strict=True):
            noise = weight * chunks[0]
            for chunk in chunks[1:]:
                noise += weight * chunk
            yield noise

    def contrast_covariance(self, task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        total = self.splits[0].contrast_covariance(task, first, second)
        for split in self.splits[1:]:
            total += split.contrast_covariance(task, first, second)
        return total / len(self.splits)

    def influence(self, task: IntArray, first: IntArray, second: IntArray) -> list[FoldInfluence]:
        return [replace(part, split=number) for number, split in enumerate(self.splits) for part in split.influence(task, first, second)]


def average_splits(steps: list[OneStep]) -> tuple[OneStep, float]:
    """The mean of several cross-fits of the same votes, and how far they lie apart.

    The spread is the root mean square, over splits and determined gaps, of a gap's distance from its mean over its standard
    error. A gap is determined where every split determines it.
    """
    scores = np.mean([step.scores for step in steps], axis=0)
    covariance = np.mean([step.noise.task_covariance for step in steps], axis=0)
    determined = steps[0].determined
    for step in steps[1:]:
        pairs = np.where(determined >= 0, determined * determined.shape[1] + step.determined, -1)
        determined = np.where(determined >= 0, np.unique(pairs, return_inverse=True)[1].reshape(pairs.shape), -1)
    noise = RepeatedNoise(tuple(step.noise for step in steps), covariance)
    facts = tuple(fact for step in steps for fact in step.facts)
    correction = np.mean([step.correction for step in steps], axis=0)
    return OneStep(scores, correction, noise, determined, facts), _spread(steps, scores, covariance, determined)


def _spread(steps: list[OneStep], scores: FloatArray, covariance: FloatArray, determined: IntArray) -> float:
    total, number = 0.0, 0
    for t, codes in enumerate(determined):
        first, second = np.triu_indices(len(codes), 1)
        diagonal = np.diag(covariance[t])
        variance = diagonal[first] + diagonal[second] - 2.0 * covariance[t][first, second]
        usable = (codes[first] == codes[second]) & (codes[first] >= 0) & (variance > 1e-13 * (diagonal[first] + diagonal[second]))
        first, second, variance = first[usable], second[usable], variance[usable]
        for step in steps:
            moved = step.scores[t] - scores[t]
            total += float(((moved[first] - moved[second]) ** 2 / variance).sum())
        number += len(steps) * len(variance)
    return float(np.sqrt(total / number)) if number else 0.0
