# SPDX-License-Identifier: Apache-2.0
"""Runs every case of every family in TensorFlow and writes cases/<family>.txt."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # TensorFlow's own kernels vary less between machines

import argparse
import pathlib

import numpy as np
import tensorflow as tf

from case import case_text
from families import FAMILIES

_FOLDER = pathlib.Path(__file__).resolve().parent / "cases"


def _family_text(module):
    made_by = f"# Made by make_cases.py with TensorFlow {tf.__version__}, NumPy {np.__version__}."
    about = f"# {module.__doc__.splitlines()[0]}\n{made_by}\n"
    write = getattr(module, "case_text", case_text)
    return "\n".join([about, *filter(None, map(write, module.cases()))])


def main():
    """Writes all families, or those named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"one of {sorted(FAMILIES)}")
    names = parser.parse_args().families or sorted(FAMILIES)
    if unknown := set(names) - set(FAMILIES):
        parser.error(f"unknown family: {sorted(unknown)}; expected any of {sorted(FAMILIES)}")
    _FOLDER.mkdir(exist_ok=True)
    for name in names:
        text = _family_text(FAMILIES[name])
        (_FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
        print(f"{name}: {text.count(chr(10) + 'case ')} cases, {len(text)} bytes")


if __name__ == "__main__":
    main()
