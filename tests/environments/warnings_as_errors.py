"""``python -W error``: nothing of ours, and nothing we make others do, warns; in the command line neither."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import _common as common

CODE = """
import importlib, pkgutil, sys
import lrgittins, smoke
for found in pkgutil.walk_packages(lrgittins.__path__, "lrgittins."):
    if found.name != "lrgittins.__main__":
        importlib.import_module(found.name)
sys.exit(smoke.main([]))
"""


def main() -> None:
    env = common.environment()
    env["PYTHONPATH"] = os.pathsep.join([str(common.HERE), *filter(None, [env.get("PYTHONPATH")])])
    result = common.run(["-W", "error", "-c", CODE], env=env)
    assert result.stderr == "", result.stderr
    with tempfile.TemporaryDirectory() as folder:
        votes = Path(folder) / "votes.csv"
        rows = "t,left one,right one,model_a\nt,left one,right one,model_b\n" * 30
        votes.write_text("task,model_a,model_b,winner\n" + rows, encoding="utf-8")
        result = common.run(["-W", "error", "-m", "lrgittins", "check", str(votes), "--json", "-q"], env=common.environment())
        assert result.stderr == "" and json.loads(result.stdout)["n"] == 60


if __name__ == "__main__":
    common.finish(main)
