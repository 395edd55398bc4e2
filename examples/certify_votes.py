import lrgittins as lg
from lrgittins.datasets import load_llmfao_frame

votes = lg.Comparisons.from_frame(load_llmfao_frame())  # or lg.Comparisons.read("votes.csv")
board = lg.leaderboard(votes, top_k=10)  # low-rank fit, simultaneous rank intervals, certificates

frame = board.to_frame()
columns = ["model", "score", "std_error", "rank", "rank_low", "rank_high", "certificate"]
print(frame.loc[frame["task"] == "vendor-extract", columns].head(8).round(2).to_string(index=False))

certified_out = frame["certificate"].eq("not-top-k").groupby(frame["task"]).sum()
print("\nCertified not in the top 10, per task:", certified_out[certified_out > 0].to_dict())
