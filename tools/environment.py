"""Makes the virtual environment: `python -m tools.environment .venv`. Starts on Python 3.6, builds on 3.11 to 3.14."""

import shutil
import subprocess
import sys

from tools.system import install, say

OLDEST, NEWEST = (3, 11), (3, 14)
PROBE = "import sys; print('%d.%d' % sys.version_info[:2])"


def version(python):
    """(3, 11) of an interpreter, or None when it does not start (a version manager's empty shim, say)."""
    try:
        answer = subprocess.check_output([python, "-c", PROBE], stderr=subprocess.DEVNULL, universal_newlines=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return tuple(int(part) for part in answer.split("."))


def suitable():
    """The Python that runs this if it will do, else the first one on the path that does, else None."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return sys.executable
    for minor in (12, 13, 11, 14):
        python = shutil.which("python3.{}".format(minor))
        if python and version(python) == (3, minor):
            return python
    return None


def main():
    python = suitable()
    if python is None:
        say(
            "Python 3.{} to 3.{} is needed (the packages exist for these); {} is Python {}.{}.\n"
            "Install a newer one, or name yours: make app PYTHON=/path/to/python3.12".format(
                OLDEST[1], NEWEST[1], sys.executable, *sys.version_info[:2]
            )
        )
        return 1
    # Debian and Ubuntu ship Python without the part that puts pip into a new environment.
    if subprocess.call([python, "-c", "import ensurepip, venv"], stderr=subprocess.DEVNULL):
        name = "python{}.{}-venv".format(*version(python))
        if not install({"apt-get": [name]}):
            say("This Python has no venv module. On Debian and Ubuntu: sudo apt-get install {}".format(name))
            return 1
    return subprocess.call([python, "-m", "venv", "--clear", sys.argv[1]])


if __name__ == "__main__":
    sys.exit(main())
