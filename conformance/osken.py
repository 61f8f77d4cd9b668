"""Finds a Python that has os-ken, or makes one: a virtual environment under target/."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERSION = "4.2.2"


def find():
    """The Python that has os-ken, which is installed from PyPI where it is not there yet, and None; or None, and why there is none."""
    folder = os.path.join(ROOT, "target", "conformance", "venv")
    python = os.path.join(folder, "bin", "python")
    if os.access(python, os.X_OK) and works(python):
        return python, None
    try:
        make_venv(folder)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"os-ken=={VERSION}"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or getattr(error, "stdout", None) or b"").decode().strip()
        why = said.splitlines()[-1] if said else error
        return None, f"os-ken {VERSION} could not be installed in {folder}: {why} (Debian: apt-get install python3-venv)"
    return (python, None) if works(python) else (None, f"os-ken in {folder} does not work")


def make_venv(folder):
    """Makes a virtual environment of the system's Python, which is built with optimizations: the suite's generator needs its speed."""
    for python in ["/usr/bin/python3", sys.executable]:
        made = os.path.exists(python) and subprocess.run([python, "-m", "venv", "--clear", folder], capture_output=True, check=False)
        if made and made.returncode == 0:
            return
    made.check_returncode()


def works(python):
    return subprocess.run([python, "-c", "import os_ken.base.app_manager"], capture_output=True, check=False).returncode == 0
