"""Site-packages nobody may write to, no home and no cache folder: everything works, with one warning that says what to do."""

from __future__ import annotations

import os

import _common as common


def main() -> None:
    prefix = common.as_nobody() if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    if os.name == "nt":
        raise common.Skip("POSIX permissions")
    with common.folder_for_everyone() as folder:
        package = common.copy_package(folder)
        common.make_read_only(folder)
        # The home of the password file may be writable for an ordinary user: the user's cache is pointed at a read-only place.
        env = common.environment(PYTHONPATH=str(folder), HOME=None, XDG_CACHE_HOME=str(folder), IPYTHONDIR=None)
        code = "import lrgittins, smoke, sys; print(lrgittins.__file__, file=sys.stderr); sys.exit(smoke.main(['gap']))"
        result = common.run(["-c", code], env={**env, "PYTHONPATH": f"{folder}{os.pathsep}{common.HERE}"}, prefix=prefix, cwd=folder)
        assert str(package) in result.stderr
        assert result.stderr.count("Warning") == 1, result.stderr
        assert "NUMBA_CACHE_DIR" in result.stderr and "LRGITTINS_NUMBA_CACHE=0" in result.stderr
        assert not [path for path in package.rglob("*") if path.suffix in {".nbi", ".nbc"}]


if __name__ == "__main__":
    common.finish(main)
