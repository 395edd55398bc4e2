"""lrgittins beside what users would pick instead: interleaved runs of the same work, in an environment per peer.

python -m benchmarks.peers                     # everything; about half an hour, mostly downloads and slow peers
python -m benchmarks.peers --size small --only choix,evalica
python -m benchmarks.peers --keep-envs ENVS --write docs/performance_peers.md --write README.md
"""
