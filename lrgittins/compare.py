"""Many seeded replays of several policies on one or several matrices."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._parallel import check_jobs, run_blocks
from ._random import RandomState, as_generator
from ._validation import check_int
from .comparison import ALL, MatrixFacts, PolicyComparison, RunRecord, record_run
from .curve_rules import curve_rule
from .errors import ParameterError
from .policy_names import LABELS, build_policy, check_matrices, name_policies
from .replay import check_budget, run_policy
from .responses import ResponseMatrix


def compare(
    responses: ResponseMatrix | Mapping[str, ResponseMatrix],
    policies: Any,
    *,
    budget: float = 0.10,
    strict: bool = False,
    n_runs: int = 20,
    n_jobs: int = 1,
    random_state: RandomState = 0,
    progress: bool = True,
    batch_size: int = 8,
) -> PolicyComparison:
    """Replay every policy `n_runs` times on every matrix.

    The seed of a run decides the example orders and the tie order of all its policies: policies with one order for all
    arms share it, and so do those with an order per arm. Seeds depend on (random_state, run, name of the matrix) only.

    Parameters
    ----------
    responses : ResponseMatrix, or mapping of name to ResponseMatrix
    policies : names, factories, or mapping of label to name or factory
        Names: "gittins" (the defaults of `GittinsPolicy`), "gittins-g" and "gittins-s" (the paper's reading; S takes the
        paper's prior bucket nearest the mean arm quality, which is hindsight, and is labelled so), "ucb-e", "ucb-e-lrf", "sysrs"
        and "prompteval" (the last two are planned for `budget` of the cells; "prompteval" needs binary scores), "pbgi", "logei" and
        "logeipc" (whole rows within `budget`, arms known by name only; they need the extra ``bo``). A factory is called with
        ``**responses.policy_arguments()`` and `random_state`, as ``functools.partial(GittinsPolicy, batch_size=4)`` can be.
    budget : float
        Fraction of exhaustive cost, in (0, 1].
    strict : bool
        As in `replay`.
    n_runs : int, default 20
        Seeded runs of every policy on every matrix.
    n_jobs : int
        Worker processes (joblib; -1 for all cores). Under ``joblib.parallel_config(backend="dask")`` the runs go to the cluster,
        whatever it says. Results do not depend on it.
    random_state : int, Generator, SeedSequence or None
    progress : bool
        A progress bar on stderr.
    batch_size : int
        Of the policies given by name, but for "ucb-e-lrf", which keeps its published 32.

    Returns
    -------
    PolicyComparison

    Raises
    ------
    ParameterError
        An unknown or not yet available policy name, a policy object instead of a factory, a budget outside (0, 1], ...
    ResponseError
        A matrix that a policy cannot handle ("prompteval" needs scores of 0 and 1); nothing has been run.
    WorkerError
        Worker processes died again and again; names the runs that were in hand. (A lost worker's runs are repeated first.)
    """
    share = check_budget(budget)
    n_runs = check_int(n_runs, "n_runs", low=1)
    batch_size = check_int(batch_size, "batch_size", low=1)
    n_jobs = check_jobs(n_jobs)
    matrices = _name_matrices(responses)
    named = name_policies(policies)
    check_matrices(named, matrices)
    entropy = _entropy(random_state)
    tasks = [(name, run, _seed(entropy, run, name)) for run in range(n_runs) for name in matrices]

    from tqdm import tqdm

    blocks = [(matrices[name], name, named, run, seed, share, bool(strict), batch_size) for name, run, seed in tasks]
    labels = [f"run {run} on {name!r}" for name, run, _ in tasks]
    with tqdm(total=len(tasks), desc="replays", unit="run", disable=not progress) as shown:
        runs = [record for records in run_blocks(_run_all, blocks, n_jobs, labels, done=shown.update) for record in records]
    order = {(name, label): (i, j) for i, name in enumerate(matrices) for j, label in enumerate(named)}
    runs.sort(key=lambda record: (*order[record.matrix, record.policy], record.run))
    return PolicyComparison(
        runs=tuple(runs),
        matrices={name: MatrixFacts(m.arms, m.row_means, m.total_cost) for name, m in matrices.items()},
        policies={label: LABELS.get(policy, label) if isinstance(policy, str) else label for label, policy in named.items()},
        budget=share,
        strict=bool(strict),
        n_runs=n_runs,
        random_state=random_state,
    )


def _name_matrices(responses: Any) -> dict[str, ResponseMatrix]:
    if isinstance(responses, ResponseMatrix):
        return {"responses": responses}
    if not isinstance(responses, Mapping) or not responses:
        raise ParameterError(f"responses must be a ResponseMatrix, or a non-empty mapping of name to ResponseMatrix, got {responses!r:.80}")
    for name, matrix in responses.items():
        if not isinstance(matrix, ResponseMatrix):
            raise ParameterError(f"responses[{name!r}] must be a ResponseMatrix, got {type(matrix).__name__}")
    matrices = {str(name): matrix for name, matrix in responses.items()}
    if len(matrices) != len(responses) or (len(matrices) > 1 and ALL in matrices):
        raise ParameterError(f"names of matrices must differ as text, and {ALL!r} is the name of the row over all of them")
    return matrices


def _entropy(random_state: RandomState) -> int:
    """One integer behind all seeds of a comparison."""
    if isinstance(random_state, np.random.SeedSequence):
        return int.from_bytes(random_state.generate_state(4, np.uint64).tobytes(), "little")
    if random_state is None or isinstance(random_state, np.random.Generator):
        return int(as_generator(random_state).integers(2**63))
    as_generator(random_state)  # refuses what is not a seed
    return int(random_state)


def _seed(entropy: int, run: int, name: str) -> int:
    """Seed of one (run, matrix); 53 bits, so that JSON keeps it exactly."""
    sequence = np.random.SeedSequence(entropy, spawn_key=(run, zlib.crc32(name.encode())))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(11))


def _run_all(
    responses: ResponseMatrix, matrix: str, policies: Mapping[str, Any], run: int, seed: int, budget: float, strict: bool, batch_size: int
) -> list[RunRecord]:
    """Every policy once, on the orders that `seed` stands for."""
    records = []
    for label, policy in policies.items():
        built = build_policy(policy, responses, budget=budget, batch_size=batch_size, random_state=seed)
        trace = run_policy(responses, built, budget=budget, strict=strict, random_state=seed, keep_state=False)
        records.append(record_run(trace, matrix, label, run, seed, curve_rule(built, trace)))
    return records
