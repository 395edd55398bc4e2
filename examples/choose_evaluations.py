import lrgittins as lg
from lrgittins.datasets import load_wildbench_frame

responses = lg.ResponseMatrix.from_frame(load_wildbench_frame(), arm="model", example="item")
answers = responses.scores  # stands for calling a model and scoring what it says


def evaluator(arm, examples):  # your code: scores in [0, 1], one per example
    row = list(responses.arms).index(arm)
    columns = {example: column for column, example in enumerate(responses.examples)}
    return [answers[row, columns[example]] for example in examples]


policy = lg.GittinsPolicy(**responses.policy_arguments())
trace = lg.evaluate(policy, evaluator, budget=0.10, store="wildbench.sqlite", progress=False)
best = policy.recommend()
print(f"{best.arm}: mean {best.mean:.3f} after {policy.spent / responses.total_cost:.1%} of all evaluations ({trace.stop_reason})")

comparison = lg.compare(responses, ["gittins", "ucb-e", "sysrs"], n_runs=20, progress=False)
table = comparison.at([0.01, 0.02, 0.05])
print(table[["policy", "cost_fraction", "regret", "std_error"]].round(4).to_string(index=False))
