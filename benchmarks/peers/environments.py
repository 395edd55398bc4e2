"""A virtual environment per peer, with the peer from PyPI and this project's wheel beside it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Peer:
    """What to install, in order; `needs` come first."""

    name: str
    needs: tuple[str, ...] = ()


PEERS = (
    Peer("arena-rank"),
    Peer("choix"),
    Peer("evalica", needs=("pandas",)),
    Peer("arenakit"),
    Peer("scikit-learn"),
    Peer("banditeval", needs=("torch==2.13.0",)),  # first and pinned: an open range may bring a CUDA build of several GB
    Peer("numpy"),
)


class InstallError(Exception):
    """pip could not make an environment; the message is its last line."""


def pip(python: Path, *arguments: str) -> None:
    """Run pip, or raise with the last line of what it said."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise InstallError(lines[-1] if lines else f"pip ended with code {done.returncode}")


def build_wheel(folder: Path) -> Path:
    """This project's wheel, from the checkout."""
    pip(Path(sys.executable), "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT))
    return max(folder.glob("lrgittins-*.whl"), key=lambda path: path.stat().st_mtime)


def make_environment(peer: Peer, folder: Path, wheel: Path) -> Path:
    """The interpreter of the peer's environment, made where it is absent; a wheel that is in it stays, with its compiled kernels."""
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    if not (folder / "peer-installed").exists():
        for requirement in (*peer.needs, peer.name):
            pip(python, "install", "-q", requirement)
        (folder / "peer-installed").touch()
    stamp, digest = folder / "lrgittins-wheel.sha256", hashlib.sha256(wheel.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="ascii") != digest:
        pip(python, "install", "-q", str(wheel))  # with what it depends on, where that is not there yet
        pip(python, "install", "-q", "--no-deps", "--force-reinstall", str(wheel))
        stamp.write_text(digest, encoding="ascii")
    return python
