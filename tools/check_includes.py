#!/usr/bin/python3
"""Checks every #include of src/ and apps/ against the layers in cmake/layers.cmake.

All folders share the include root src/, so the link-level check of CMake cannot see a forbidden
include. Sources are compiled in batches, where a neighbour's include hides a missing one: so the
standard headers of common names are checked here. Usage: check_includes.py [ROOT]; prints file:line messages and exits 1 when there are any.
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = ("torch/", "ATen/", "c10/", "caffe2/")
COMMENT_OR_TEXT = re.compile(r'//.*|"(?:\\.|[^"\\])*"')
STANDARD_NAME = re.compile(r"\bstd::(\w+)")
HEADER_OF = {name: header for header, names in {
    "algorithm": "min max clamp sort stable_sort find find_if copy fill any_of all_of none_of",
    "array": "array", "atomic": "atomic", "chrono": "chrono", "cstddef": "byte",
    "condition_variable": "condition_variable", "deque": "deque", "filesystem": "filesystem",
    "fstream": "ifstream ofstream", "functional": "function", "limits": "numeric_limits", "map": "map",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared", "mutex": "mutex",
    "numeric": "accumulate iota", "optional": "optional", "set": "set", "span": "span",
    "stop_token": "stop_token stop_source", "string": "string to_string", "string_view": "string_view",
    "thread": "jthread this_thread", "tuple": "tuple tie", "unordered_map": "unordered_map",
    "unordered_set": "unordered_set", "utility": "move pair exchange swap", "variant": "variant",
    "vector": "vector"}.items() for name in names.split()}
WORKER = ("apps/worker", "apps/paceline-worker", "apps/paceline_worker")  # a folder or a file name


def read_layers(root):
    """Two maps from folder name: what it may use, and its level."""
    may_use, levels, level = {}, {}, 0
    for line in (root / "cmake/layers.cmake").read_text().splitlines():
        if match := re.match(r"# L(\d+)", line):
            level = int(match[1])
        if match := re.match(r'set\(PACELINE_MAY_USE_(\w+)\s+"([^"]*)"\)', line):
            may_use[match[1]] = set(filter(None, match[2].split(";")))
            levels[match[1]] = level
    return may_use, levels


class Checker:
    def __init__(self, root):
        self.root = root
        self.may_use, self.levels = read_layers(root)
        self.problems = []
        self.brought = {}

    def check_tree(self):
        for top in ("src", "apps"):
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in (".h", ".cc"):
                    self.check_file(path.relative_to(self.root))
        return self.problems

    def check_file(self, path):
        lines = (self.root / path).read_text().splitlines()
        includes = [(number, match[1] == '"', match[2]) for number, line in enumerate(lines, 1)
                    if (match := INCLUDE.match(line))]

        def problem(number, text):
            self.problems.append(f"{path}:{number}: {text}")

        for number, quoted, target in includes:
            why = self.refuse_own(path, target) if quoted else self.refuse_foreign(path, target)
            if why:
                problem(number, why)
        if path.suffix == ".h" and "#pragma once" not in lines:
            problem(1, "a header needs #pragma once")
        for number, text in self.missing_standard_headers(path, lines):
            problem(number, text)
        own = path.with_suffix(".h")
        if path.suffix == ".cc" and path.parts[0] == "src" and (self.root / own).exists():
            expected = own.relative_to("src").as_posix()
            if not includes or includes[0][2] != expected:
                problem(includes[0][0] if includes else 1,
                        f'the first include must be its own header "{expected}"')

    def brings(self, path):
        """The foreign headers that a file and those of ours that it includes include."""
        if path not in self.brought:
            self.brought[path] = found = set()
            for line in (self.root / path).read_text().splitlines():
                match = INCLUDE.match(line)
                if match and match[1] == "<":
                    found.add(match[2])
                elif match:
                    for top in ("src", "apps"):
                        if (self.root / top / match[2]).exists():
                            found |= self.brings(Path(top) / match[2])
        return self.brought[path]

    def missing_standard_headers(self, path, lines):
        """The first use of each common name whose header nothing of ours includes."""
        there, seen = self.brings(path), set()
        for number, line in enumerate(lines, 1):
            for name in STANDARD_NAME.findall(COMMENT_OR_TEXT.sub("", line)):
                header = HEADER_OF.get(name)
                if header and header not in there and header not in seen:
                    seen.add(header)
                    yield number, f"std::{name} needs #include <{header}>"

    def refuse_own(self, path, target):
        """Why this file may not include our header `target`; None when it may."""
        folder = path.parts[1] if path.parts[0] == "src" else "apps"
        is_test = path.stem.endswith(("_test", "_test_util"))
        used, slash, _ = target.partition("/")
        if folder == "apps" and (self.root / "apps" / target).exists():
            return None
        if not slash:
            return f'write "folder/{target}": the include root is src/ (or apps/)'
        if "internal" in Path(target).parts and used != folder:
            return f"{target} is private to src/{used}"
        if folder == "testing" or used == folder or (used == "testing" and is_test):
            return None
        if used == "testing":
            return "only tests may use src/testing"
        if used not in self.may_use:
            return f"src/{used} has no line in cmake/layers.cmake"
        if folder == "apps":
            if used == "train" and not path.as_posix().startswith(WORKER):
                return "only apps/worker may use src/train"
            return None
        if folder not in self.may_use:
            return f"src/{folder} has no line in cmake/layers.cmake"
        if used in self.may_use[folder]:
            return None
        # A test may use whatever lies below its folder.
        if is_test and self.levels[used] < self.levels[folder]:
            return None
        return f"layering: src/{folder} may not use src/{used}"

    @staticmethod
    def refuse_foreign(path, target):
        """Why this file may not include the library header `target`; None when it may."""
        place = path.as_posix()
        if target.startswith(TORCH) and not place.startswith(("src/train/", *WORKER)):
            return "libtorch belongs to src/train and apps/worker alone"
        if target.startswith(("asio/", "asio.hpp")) and not place.startswith("src/net/"):
            return "Asio belongs to src/net alone"
        if target == "httplib.h" and place != "src/store/etcd_gateway.cc":
            return "httplib belongs to src/store/etcd_gateway.cc alone"
        if target.startswith("rocksdb/") and place != "src/ps/rocks_table.cc":
            return "RocksDB belongs to src/ps/rocks_table.cc alone"
        if (target.startswith("nlohmann/") and target != "nlohmann/json_fwd.hpp"
                and path.suffix == ".h"):
            return "no nlohmann type in a header (nlohmann/json_fwd.hpp is allowed)"
        return None


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    problems = Checker(root).check_tree()
    print("\n".join(problems) or "every include is allowed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
