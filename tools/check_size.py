#!/usr/bin/python3
"""Fails when a source file is too long to be read in one go.

The convention is 400 lines; a file fails at 450, a test at 600. Usage: check_size.py [ROOT].
"""
import sys
from pathlib import Path

SUFFIXES = {".h", ".cc", ".py", ".sh", ".cmake", ".txt"}
LIMIT, TEST_LIMIT = 450, 600


def check_tree(root):
    problems = []
    for top in ("src", "apps", "bench", "cmake", "tools", "tests"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES or "golden" in path.parts:
                continue
            is_test = top == "tests" or path.stem.endswith(("_test", "_test_util"))
            limit = TEST_LIMIT if is_test else LIMIT
            lines = len(path.read_text().splitlines())
            if lines > limit:
                problems.append(f"{path.relative_to(root)}:{limit}: {lines} lines; split the file")
    return problems


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    problems = check_tree(root)
    print("\n".join(problems) or "no file is too long")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
