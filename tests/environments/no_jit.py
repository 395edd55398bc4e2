"""``NUMBA_DISABLE_JIT=1``: the kernels as plain Python give the same numbers, on inputs small enough to wait for."""

from __future__ import annotations

import _common as common


def main() -> None:
    smoke = [str(common.HERE / "smoke.py")]
    plain = common.run(smoke, env=common.environment(NUMBA_DISABLE_JIT="1"))
    assert plain.stderr == "", plain.stderr
    common.run(smoke)  # both meet the same frozen numbers


if __name__ == "__main__":
    common.finish(main)
