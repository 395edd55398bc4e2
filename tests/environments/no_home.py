"""No HOME and no cache settings, as in a cron job or a distroless container: nothing is written but next to the package."""

from __future__ import annotations

import tempfile
from pathlib import Path

import _common as common


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = common.environment(HOME=None, XDG_CACHE_HOME=None, USERPROFILE=None)
        result = common.run([str(common.HERE / "smoke.py"), "gap", "roots"], env=env, cwd=Path(folder))
        assert "Warning" not in result.stderr, result.stderr
        assert list(Path(folder).iterdir()) == []


if __name__ == "__main__":
    common.finish(main)
