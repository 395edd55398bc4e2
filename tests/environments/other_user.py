"""Root installs, another user runs, with a home and cache folder of that user's own: warmed up once, warm for that user."""

from __future__ import annotations

import json
import os

import _common as common


def main() -> None:
    prefix = common.as_nobody()
    with common.folder_for_everyone() as folder:
        install = folder / "install"
        install.mkdir()
        common.copy_package(install)
        common.make_read_only(install)
        home = folder / "home"
        home.mkdir()
        os.chown(home, 65534, 65534)
        env = common.environment(PYTHONPATH=str(install), HOME=str(home), XDG_CACHE_HOME=None)
        command = ["-m", "lrgittins", "roots", "--n-examples", "20", "--cost-scale", "1e-3", "--json", "--quiet"]
        first = common.run(command, env=env, prefix=prefix, cwd=home)
        assert first.stderr == "", first.stderr
        assert len(json.loads(first.stdout)["roots"]) == 3
        kept = list(home.rglob("*.nbi"))
        assert kept and all(path.stat().st_uid == 65534 for path in kept)
        second = common.run(command, env=env, prefix=prefix, cwd=home)
        assert second.stdout == first.stdout
        # What that user may not touch is refused in words, before any work.
        votes = folder / "votes.csv"
        votes.write_text("task,model_a,model_b,winner\nt,A,B,A\n", encoding="utf-8")
        command = ["-m", "lrgittins", "rank", str(votes), "--out", str(install / "board.csv"), "--quiet"]
        refused = common.run(command, env=env, prefix=prefix, cwd=home, check=False)
        assert refused.returncode == 2 and refused.stderr.startswith("lrgittins: error: --out"), refused.stderr
        assert "no permission to write" in refused.stderr


if __name__ == "__main__":
    common.finish(main)
