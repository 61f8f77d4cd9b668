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
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"os-ken=={VERSION}"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or getattr(error, "stdout", None) or b"").decode().strip()
        why = said.splitlines()[-1] if said else error
        return None, f"os-ken {VERSION} could not be installed in {folder}: {why} (Debian: apt-get install python3-venv)"
    return (python, None) if works(python) else (None, f"os-ken in {folder} does not work")


def works(python):
    return subprocess.run([python, "-c", "import os_ken.base.app_manager"], capture_output=True, check=False).returncode == 0
