"""Says in one line what to install where a script's modules are not there; asked before they are imported."""
import importlib.util
import sys


def need(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        print(f"{sys.argv[0]}: needs {', '.join(missing)}: python3 -m pip install {' '.join(missing)}", file=sys.stderr)
        sys.exit(2)
