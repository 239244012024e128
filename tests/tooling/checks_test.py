#!/usr/bin/python3
"""The checkers themselves: each rule must be able to fail."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"
LAYERS = '''set(PACELINE_MAY_USE_base       "")
# L1: pure
set(PACELINE_MAY_USE_wire       "base")
set(PACELINE_MAY_USE_algo       "base")
# L2
set(PACELINE_MAY_USE_net        "base;wire")
# L6
set(PACELINE_MAY_USE_train      "base;wire;net")
'''


class CheckerTest(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.TemporaryDirectory()
        self.addCleanup(self.tree.cleanup)
        self.root = Path(self.tree.name)
        self.write("cmake/layers.cmake", LAYERS)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, tool):
        done = subprocess.run([sys.executable, TOOLS / tool, self.root], text=True,
                              stdout=subprocess.PIPE, check=False)
        return done.returncode, done.stdout

    def assert_clean(self, tool):
        code, text = self.run_tool(tool)
        self.assertEqual(code, 0, text)

    def assert_finds(self, tool, message):
        code, text = self.run_tool(tool)
        self.assertEqual(code, 1, text)
        self.assertIn(message, text)


class Includes(CheckerTest):
    def check(self, name, text, message=None):
        self.write(name, text)
        if message is None:
            self.assert_clean("check_includes.py")
        else:
            self.assert_finds("check_includes.py", message)

    def test_downward_is_allowed(self):
        self.check("src/net/a.cc", '#include "base/x.h"\n#include "wire/y.h"\n#include <asio.hpp>\n')

    def test_upward_is_refused_with_its_line(self):
        self.check("src/base/a.cc", '// why\n#include "net/x.h"\n',
                   "src/base/a.cc:2: layering: src/base may not use src/net")

    def test_sideways_is_refused(self):
        self.check("src/net/a.h", '#pragma once\n#include "algo/x.h"\n', "src/net may not use src/algo")

    def test_a_test_may_use_what_lies_below(self):
        self.check("src/net/a_test.cc", '#include "algo/x.h"\n#include "testing/y.h"\n')

    def test_a_test_may_not_reach_up(self):
        self.check("src/algo/a_test.cc", '#include "net/x.h"\n', "src/algo may not use src/net")

    def test_production_code_may_not_use_testing(self):
        self.check("src/net/a.cc", '#include "testing/x.h"\n', "only tests may use src/testing")

    def test_unknown_folder(self):
        self.check("src/base/a.cc", '#include "bsae/x.h"\n', "src/bsae has no line")

    def test_include_root_is_src(self):
        self.check("src/base/a.cc", '#include "x.h"\n', 'write "folder/x.h"')

    def test_internal_is_private(self):
        self.check("src/net/a.cc", '#include "wire/internal/x.h"\n', "private to src/wire")

    def test_internal_is_open_to_its_own_folder(self):
        self.check("src/wire/a_test.cc", '#include "wire/internal/x.h"\n')

    def test_torch_stays_in_train(self):
        self.check("src/train/a.cc", "#include <torch/torch.h>\n")
        self.check("apps/worker/main.cc", "#include <ATen/ATen.h>\n")
        self.check("src/base/a.cc", "#include <c10/util/Exception.h>\n", "libtorch belongs to")

    def test_only_the_worker_uses_train(self):
        self.check("apps/worker/main.cc", '#include "train/x.h"\n')
        self.check("apps/paceline/main.cc", '#include "train/x.h"\n', "only apps/worker")

    def test_apps_share_their_own_headers(self):
        self.write("apps/cli/x.h", "#pragma once\n")
        self.check("apps/worker/main.cc", '#include "cli/x.h"\n#include "net/x.h"\n')
        self.check("src/net/a.cc", '#include "cli/x.h"\n', "src/cli has no line")

    def test_asio_stays_in_net(self):
        self.check("src/wire/a.cc", "#include <asio/ip/tcp.hpp>\n", "Asio belongs to")

    def test_httplib_stays_in_one_file(self):
        self.check("src/store/etcd_gateway.cc", "#include <httplib.h>\n")
        self.check("src/store/a.cc", "#include <httplib.h>\n", "httplib belongs to")

    def test_a_standard_name_needs_its_header(self):
        self.check("src/base/a.cc", "// std::map\nvoid F(std::vector<int> x);\n",
                   "src/base/a.cc:2: std::vector needs #include <vector>")
        self.check("src/base/a.cc", "#include <vector>\nvoid F(std::vector<int> x);\n")

    def test_a_header_of_ours_may_bring_the_standard_one(self):
        self.write("src/base/deep.h", "#pragma once\n#include <vector>\n")
        self.write("src/base/b.h", '#pragma once\n#include "base/deep.h"\n')
        self.check("src/base/b.cc", '#include "base/b.h"\nvoid F(std::vector<int> x);\n')

    def test_rocksdb_stays_in_one_file(self):
        self.check("src/ps/rocks_table.cc", "#include <rocksdb/db.h>\n")
        self.check("src/ps/a.cc", "#include <rocksdb/db.h>\n", "RocksDB belongs to")

    def test_json_stays_out_of_headers(self):
        self.check("src/base/a.cc", "#include <nlohmann/json.hpp>\n")
        self.check("src/base/a.h", "#pragma once\n#include <nlohmann/json_fwd.hpp>\n"
                   "#include <nlohmann/json.hpp>\n", "src/base/a.h:3: no nlohmann")

    def test_own_header_comes_first(self):
        self.write("src/base/a.h", "#pragma once\n")
        self.check("src/base/a.cc", '#include <vector>\n#include "base/a.h"\n',
                   'src/base/a.cc:1: the first include must be its own header "base/a.h"')

    def test_header_guard(self):
        self.check("src/base/a.h", "struct A {};\n", "needs #pragma once")


class Docs(CheckerTest):
    def test_links_and_anchors_that_exist(self):
        self.write("docs/b.md", "# A title: with `code`\n")
        self.write("README.md", "[b](docs/b.md#a-title-with-code) [w](https://example.org) `[x](y)`\n"
                   "```\n[in code](nowhere)\n```\n| `docs/` | text |\n")
        self.assert_clean("check_docs.py")

    def test_dead_link(self):
        self.write("docs/b.md", "one\n[b](c.md)\n")
        self.assert_finds("check_docs.py", "docs/b.md:2: c.md does not exist")

    def test_dead_anchor(self):
        self.write("a.md", "# Here\n[b](#there)\n")
        self.assert_finds("check_docs.py", "#there: no such heading")

    def test_folder_of_the_table_is_gone(self):
        self.write("README.md", "| Folder | What |\n|---|---|\n| `src/gone/` | text |\n")
        self.assert_finds("check_docs.py", "README.md:3: src/gone/ does not exist")


class Size(CheckerTest):
    def test_limits(self):
        self.write("src/base/a.cc", "\n" * 450)
        self.write("src/base/a_test.cc", "\n" * 600)
        self.assert_clean("check_size.py")

    def test_too_long(self):
        self.write("src/base/a.cc", "\n" * 451)
        self.assert_finds("check_size.py", "451 lines")

    def test_too_long_for_a_test(self):
        self.write("tests/system/a_test.cc", "\n" * 601)
        self.assert_finds("check_size.py", "601 lines")


if __name__ == "__main__":
    unittest.main()
