#!/usr/bin/python3
"""Checks that documentation does not point into the void.

Relative links of every *.md must lead to a file and, with #anchor, to a heading; paths in the
first column of README.md's tables must exist. Usage: check_docs.py [ROOT]; exits 1 on problems.
"""
import re
import sys
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")  # [text](target) and ![image](target)
TABLE_PATH = re.compile(r"^\|\s*\[?`([\w./-]+/[\w./-]*)`")
SKIPPED_FOLDERS = {"build", "runs", "bench-out", ".git"}


def prose(path):
    """(line number, line) outside fenced code."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(path):
    """Anchors of the headings, as GitHub makes them."""
    found = set()
    for _, line in prose(path):
        if match := re.match(r"#+\s+(.*)", line):
            text = re.sub(r"[^\w\- ]", "", match[1].strip().lower())
            slug = text.replace(" ", "-")
            while slug in found:
                slug += "-1"
            found.add(slug)
    return found


def check_link(source, target):
    """What is wrong with a link from `source`; None when it leads somewhere."""
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    path = source.parent / name if name else source
    if not path.exists():
        return f"{target} does not exist"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return f"{target}: no such heading"
    return None


def check_tree(root):
    problems = []
    for path in sorted(root.rglob("*.md")):
        relative = path.relative_to(root)
        if SKIPPED_FOLDERS & set(relative.parts):
            continue
        for number, line in prose(path):
            text = re.sub(r"`[^`]*`", "", line)
            wrong = [check_link(path, target) for target in LINK.findall(text)]
            row = TABLE_PATH.match(line) if relative.as_posix() == "README.md" else None
            if row and not (root / row[1]).exists():
                wrong.append(f"{row[1]} does not exist")
            problems += [f"{relative}:{number}: {what}" for what in wrong if what]
    return problems


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    problems = check_tree(root)
    print("\n".join(problems) or "every link leads somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
