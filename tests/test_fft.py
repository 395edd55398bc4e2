"""Planned transforms: either backend, nobody's input touched, plans kept and bounded, threads apart."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.fft

from lrgittins import _fft

HAS_PYFFTW = _fft.backend_name() == "pyfftw"


@pytest.fixture(autouse=True)
def fresh_plans() -> Iterator[None]:
    _fft.clear_plans()
    yield
    _fft.clear_plans()


@pytest.fixture(params=["as installed", "pyfftw hidden"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pyfftw hidden":
        monkeypatch.setitem(sys.modules, "pyfftw", None)  # makes the import fail
        _fft.clear_plans()
        assert _fft.backend_name() == "scipy"
    return str(request.param)


def _rows(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.oracle
@pytest.mark.parametrize("length", [1, 2, 45, 2160])
def test_transforms_agree_with_scipy(backend: str, length: int) -> None:
    a = _rows((3, length))
    expected = scipy.fft.rfft(a, axis=1)
    scale = np.abs(expected).max()
    assert np.abs(_fft.rfft(a, length) - expected).max() <= 1e-12 * scale  # both round at about 1e-15 of the largest value
    assert np.abs(_fft.irfft(expected, length) - a).max() <= 1e-12 * np.abs(a).max()


def test_shorter_rows_are_padded_with_zeros_and_one_row_keeps_its_shape(backend: str) -> None:
    a = _rows((1, 10))[0]
    assert _fft.rfft(a, 45).shape == (23,)
    np.testing.assert_allclose(_fft.rfft(a, 45), scipy.fft.rfft(a, 45), atol=1e-13)


def test_inputs_keep_their_bytes_whatever_their_alignment(backend: str) -> None:
    memory = np.zeros(8 * 401, dtype=np.uint8)
    offset_view = memory[8:].view(np.float64)[:400].reshape(2, 200)  # 8 bytes past wherever the block starts
    offset_view[:] = _rows((2, 200))
    strided, fortran = np.repeat(offset_view, 2, axis=1)[:, ::2], np.asfortranarray(offset_view)
    read_only = offset_view.copy()
    read_only.flags.writeable = False
    expected = scipy.fft.rfft(offset_view, axis=1)
    for a in (offset_view, strided, fortran, read_only):
        before = hashlib.sha256(a.tobytes()).hexdigest()
        spectrum = _fft.rfft(a, 200)
        np.testing.assert_allclose(spectrum, expected, atol=1e-12)
        spectrum_before = spectrum.tobytes()
        _fft.irfft(spectrum, 200)
        assert hashlib.sha256(a.tobytes()).hexdigest() == before
        assert spectrum.tobytes() == spectrum_before


def test_results_are_not_views_of_the_buffers(backend: str) -> None:
    first = _fft.rfft(_rows((2, 64), 1), 64)
    kept = first.copy()
    _fft.rfft(_rows((2, 64), 2), 64)
    np.testing.assert_array_equal(first, kept)


def test_plans_are_reused_counted_and_bounded(backend: str) -> None:
    for _ in range(5):
        _fft.rfft(_rows((2, 60)), 60)
    assert (_fft.plan_cache_info().hits, _fft.plan_cache_info().misses) == (4, 1)
    for length in range(100, 120):
        _fft.get_transform(1, length)
    info = _fft.plan_cache_info()
    assert info.size == info.max_size < 20
    assert info.misses == 21


def test_each_thread_has_its_own_buffers_and_the_same_bits(backend: str) -> None:
    inputs = [_rows((4, 300), seed) for seed in range(24)]
    alone = [_fft.rfft(a, 300) for a in inputs]
    barrier = threading.Barrier(4, timeout=30)
    transforms = []

    def work(part: int) -> list[np.ndarray]:
        barrier.wait()
        transforms.append(_fft.get_transform(4, 300))
        return [_fft.rfft(a, 300) for a in inputs[part::4] for _ in range(20)][::20]

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(work, range(4)))
    assert len({id(t.real) for t in transforms}) == 4
    for part, spectra in enumerate(parts):
        for a, b in zip(spectra, alone[part::4], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.skipif(not HAS_PYFFTW, reason="pyfftw is not installed")
def test_a_pyfftw_that_fails_to_load_is_as_good_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "pyfftw":
                raise ValueError("numpy.dtype size changed, may indicate binary incompatibility")

    monkeypatch.delitem(sys.modules, "pyfftw", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    _fft.clear_plans()
    assert _fft.backend_name() == "scipy"


def test_importing_the_module_loads_neither_backend() -> None:
    code = "import sys, lrgittins._fft; print([m for m in ('pyfftw', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.oracle
def test_fast_length_is_the_next_number_of_small_factors() -> None:
    def smooth(n: int) -> bool:
        for p in (2, 3, 5):
            while n % p == 0:
                n //= p
        return n == 1

    for n in [*range(1, 400), 2049, 131_073]:
        expected = next(m for m in range(n, 2 * n + 1) if smooth(m))
        assert _fft.fast_length(n) == expected
