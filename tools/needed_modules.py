"""Says in one line what to install where a script's modules are not there; asked before they are imported."""
import importlib.util
import sys


def missing(*modules):
    return [name for name in modules if importlib.util.find_spec(name) is None]


def need(*modules):
    names = missing(*modules)
    if names:
        print(f"{sys.argv[0]}: needs {', '.join(names)}: python3 -m pip install {' '.join(names)}", file=sys.stderr)
        sys.exit(2)
