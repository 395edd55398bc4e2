"""Without pyfftw `scipy.fft` serves, and the roots agree with those of FFTW where there is one."""

from __future__ import annotations

import json

import _common as common

CODE = """
import json, sys
{block}
import lrgittins as lg
from lrgittins._fft import backend_name
found = [lg.root_schedule([1.0, 3.0], n_examples=60, batch_size=4, cost_scale=1e-3, method=m).roots.tolist() for m in ("fft", "banded")]
print(json.dumps([found, backend_name()]))
"""


def main() -> None:
    without, name = json.loads(common.run(["-c", CODE.format(block="sys.modules['pyfftw'] = None")]).stdout)
    assert name == "scipy", name
    found, name = json.loads(common.run(["-c", CODE.format(block="")]).stdout)
    for a, b in zip(_flat(without), _flat(found), strict=True):
        assert abs(a - b) < 1e-9, (a, b, name)  # rounding of two transforms, against roots good to 1e-6
    if name == "scipy":
        raise common.Skip("pyfftw is not installed, so there is nothing to compare with; scipy.fft works")


def _flat(values: object) -> list[float]:
    return [number for value in values for number in _flat(value)] if isinstance(values, list) else [float(values)]  # type: ignore[arg-type]


if __name__ == "__main__":
    common.finish(main)
