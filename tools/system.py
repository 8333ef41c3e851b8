"""The machine's own package manager, for what pip cannot bring: a browser, a font, Debian's half of venv."""

import os
import shutil
import subprocess
import sys

UPDATE = {"apt-get": ["update"]}
INSTALL = {
    "apt-get": ["install", "-y", "--no-install-recommends"],
    "dnf": ["install", "-y"],
    "pacman": ["-S", "--noconfirm", "--needed"],
}


def say(text):
    """One line on stderr: stdout is kept for the answer."""
    print(text, file=sys.stderr, flush=True)


def privileged(command):
    """The command as root, or None where this person cannot become root."""
    if not hasattr(os, "geteuid"):
        return None
    if os.geteuid() == 0:
        return command
    if shutil.which("sudo") is None:
        return None
    # Without a terminal sudo must not wait for a password that nobody can type.
    return ["sudo", *command] if sys.stdin.isatty() else ["sudo", "-n", *command]


def install(packages):
    """Install `packages[manager]` with the first manager found; True when it said that it worked."""
    for manager, names in packages.items():
        if shutil.which(manager) is None:
            continue
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        for words, must_work in ((UPDATE.get(manager), False), (INSTALL[manager] + names, True)):
            command = words and privileged([manager, *words])
            if not command:
                if must_work:
                    say("{} would have it, but this user may not install packages.".format(manager))
                    return False
                continue
            say("+ " + " ".join(command))
            # Shown as it comes, on stderr: stdout is the caller's.
            if subprocess.call(command, stdin=subprocess.DEVNULL, stdout=2, env=environment) and must_work:
                return False
        return True
    return False
