import lrgittins as lg
from lrgittins.datasets import load_llmfao, load_wildbench_frame

inference = lg.infer_gaps(load_llmfao(), lg.LowRankBradleyTerry(rank=3))
board = inference.certify(10)
board.plot_heatmap(max_models=30).figure.savefig("heatmap.png", dpi=80)  # ranks on every task, hatched where unresolved
bands = inference.bands(("cell", "vendor-extract", "Claude v1"))
bands.plot(scale="elo").figure.savefig("forest.png", dpi=80)  # one model against all others

responses = lg.ResponseMatrix.from_frame(load_wildbench_frame(), arm="model", example="item")
trace = lg.replay(responses, lg.GittinsPolicy(**responses.policy_arguments()), budget=0.2)
trace.plot_allocation().figure.savefig("allocation.png", dpi=100)  # where the budget went

board.to_html("board.html", scale="elo", title="Language models on 13 prompts")  # one file, works offline
