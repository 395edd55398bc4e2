"""What a board claims, in plain words: one correct sentence or two for every family, method and calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .board import Leaderboard


def claim_sentences(board: Leaderboard) -> list[str]:
    """Sentences for people who have not read the manual; the first one is the claim, the rest say where it ends."""
    if board.n_draws == 0:
        return [
            "This board makes no statement of confidence: it was made without bootstrap draws, so there are no rank intervals, nothing is "
            "certified, and the ranks are those of the estimated scores."
        ]
    sentences = [_claim(board), _certificates(board)]
    scope = _scope(board)
    return [*sentences, *([scope] if scope else []), _method(board), _calibration(board)]


def claim_kind(board: Leaderboard) -> str:
    return board.family if isinstance(board.family, str) else board.family[0]


def _claim(board: Leaderboard) -> str:
    single, kind = not isinstance(board.family, str), claim_kind(board)
    names = [repr(name) for name in board.family[1:]] if single else []
    each = {"task": "each task", "model": "each model", "cell": "each model on each task"}
    start = "With" if single or kind == "all" else f"For {each[kind]} taken by itself: with"
    start += f" {100 * (1 - board.alpha):.12g} % confidence"
    if board.method == "one-sided":
        # Its intervals are the two-sided step-down's, of the same level, and not joint with the certificates.
        whose = f"the certificate of {names[1]} on the task {names[0]}" if single else "its certificate on that task"
        return f"{start}, {whose} is right ('unresolved' claims nothing)."
    over = {
        "all": ", simultaneously over all models and all tasks of this board,",
        "task": f", simultaneously over all models of {'the task ' + names[0] if single else 'this task'},",
        "model": ", simultaneously over all tasks,",
        "cell": ",",
    }[kind]
    whose = {
        "all": "the true rank of every model on every task",
        "task": "the true rank of every model",
        "model": f"the true rank of {names[0] if single else 'this model'}",
        "cell": f"the true rank of {names[1]} on the task {names[0]}" if single and kind == "cell" else "its true rank on that task",
    }[kind]
    return f"{start}{over} {whose} lies in its rank interval."


def _certificates(board: Leaderboard) -> str:
    k = board.top_k
    if board.method == "one-sided":
        return (
            f"Of the two claims 'in the top {k}' and 'not in the top {k}' at most one can be false, so each is tested one-sided at the "
            f"full error rate; 'unresolved' means that the votes settle neither."
        )
    return (
        f"'In the top {k}' is certified where even the worst rank of the interval is at most {k}, 'not in the top {k}' where even the best "
        f"is beyond; the certificates hold whenever the intervals do. 'Unresolved' means that the votes do not settle it."
    )


def _scope(board: Leaderboard) -> str:
    if not isinstance(board.family, str) or board.family == "all":
        return ""
    n_tasks, n_models = board._frame["task"].nunique(), board._frame["model"].nunique()
    n_claims = {"task": n_tasks, "model": n_models, "cell": len(board)}[board.family]
    if n_claims < 2:
        return ""
    what = {"task": "tasks", "model": "models", "cell": "rows"}[board.family]
    several = {"task": "on several tasks at once", "model": "about several models at once", "cell": "about several rows at once"}
    return (
        f"The {n_claims:,} {what} are separate claims: up to about {100 * board.alpha:.12g} % of them may be wrong, and what is said "
        f"{several[board.family]} is less sure than each part (the family 'all' covers everything jointly)."
    )


def _method(board: Leaderboard) -> str:
    draws = f"{board.n_draws:,} bootstrap draws"
    if board.method == "one-sided":
        return (
            f"The rank intervals are those of the two-sided step-down at the same level; they do not hold jointly with the certificates. "
            f"Critical values come from {draws}."
        )
    how = {
        "max-t": "One model is placed above another where the simultaneous band of their gap leaves out zero",
        "step-down": "One model is placed above another where the Romano-Wolf step-down test of all gaps of the claim rejects",
        "order-statistic": "The intervals bound how many models are above and below each, from the ordered gaps of the claim",
    }[board.method]
    return f"{how}; critical values come from {draws}."


def _calibration(board: Leaderboard) -> str:
    limit = "The level is exact only in the limit of many votes."
    if board.calibration == "parametric":
        return (
            "Standard errors are those of one fit to all votes, rescaled by refits of votes simulated from it. That is narrower, rests on "
            "simulation instead of the theory, and takes votes as independent."
        )
    if board.calibration == "wald":
        return f"Standard errors are the robust (sandwich) ones of the fit to all votes. {limit}"
    repeated = f", scores and covariances being the mean of {board.n_splits} splits" if board.n_splits > 1 else ""
    return f"Standard errors come from cross-fitting on {board.n_folds} folds{repeated}. {limit}"
