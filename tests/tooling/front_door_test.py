#!/usr/bin/python3
"""The script ./paceline, with stand-ins for cmake, ninja and the program, in a path with spaces."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent.parent / "paceline"
CMAKE = '''#!/bin/bash
mkdir -p build/release/bin
printf "# cache\\nCMAKE_HOME_DIRECTORY:INTERNAL=$PWD\\n" > build/release/CMakeCache.txt
touch build/release/build.ninja
echo configured >> calls
'''
NINJA = '''#!/bin/bash
cd "$2"
echo "ninja ${*:5}" >> ../../calls
[[ -e ../../broken ]] && echo "a.cc:1: error" && exit 1
[[ -e ../../busy ]] && exit 3  # somebody else is in here: the lock failed
touch ../../busy
sleep 0.05
rm ../../busy
printf '#!/bin/bash\\necho "program $PWD:$*"\\nexit 7\\n' > bin/paceline
chmod +x bin/paceline
echo "ninja: Entering directory"
echo "ninja: no work to do."
'''


class FrontDoor(unittest.TestCase):
    def setUp(self):
        base = Path(tempfile.mkdtemp(prefix="paceline front door "))
        self.addCleanup(shutil.rmtree, base)
        self.tree, self.bin = base / "a tree", base / "bin"
        for folder in (base, self.tree, self.bin):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)  # one test runs as another user
        self.script = shutil.copy(SCRIPT, self.tree)
        (self.tree / "tools").mkdir()
        shutil.copy(SCRIPT.parent / "tools/packages.sh", self.tree / "tools")
        for name, text in (("cmake", CMAKE), ("ninja", NINJA)):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        self.packages("[build]\nbash   # reason\n[bench]\ndpkg\n[optional]\nno-such-package-1\n")
        self.environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def packages(self, text):
        (self.tree / "deps").mkdir(exist_ok=True)
        (self.tree / "deps/debian.txt").write_text(text)

    def command(self, *arguments, script=None):
        return [script or self.script, *arguments]

    def run_it(self, *arguments, cwd="/", prefix=(), script=None):
        return subprocess.run([*prefix, *self.command(*arguments, script=script)], cwd=cwd, text=True,
                              env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=60, check=False)

    def calls(self):
        return (self.tree / "calls").read_text().splitlines()

    def test_runs_the_program_in_the_callers_folder(self):
        done = self.run_it("train", "a b", "--json", cwd="/usr")
        self.assertEqual((done.returncode, done.stdout), (7, "program /usr:train a b --json\n"))
        self.assertEqual(done.stderr, "paceline: configuring\n")
        again = self.run_it("bench", "x")
        self.assertEqual((again.returncode, again.stderr), (7, ""))
        build = "ninja paceline paceline-worker"
        self.assertEqual(self.calls(), ["configured", build, build])

    def test_works_through_a_symbolic_link(self):
        link = self.bin / "pl"
        link.symlink_to(self.script)
        self.assertEqual(self.run_it("version", script=link).stdout, "program /:version\n")

    def test_a_copied_tree_is_configured_again(self):
        self.run_it("version")
        cache = self.tree / "build/release/CMakeCache.txt"
        cache.write_text("# cache\nCMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
        self.run_it("version")
        self.assertEqual(self.calls().count("configured"), 2)

    def test_a_failed_build_is_shown_and_nothing_runs(self):
        (self.tree / "broken").touch()
        done = self.run_it("version")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("a.cc:1: error", done.stderr)

    def test_help_needs_no_build(self):
        done = self.run_it("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("Usage: ./paceline", done.stdout)
        self.assertFalse((self.tree / "build").exists())
        self.assertEqual(self.run_it().returncode, 2)

    def test_two_callers_do_not_build_at_once(self):
        running = [subprocess.Popen(self.command("version"), env=self.environment, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for _ in range(4)]
        for child in running:
            out, error = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 7, error)
            self.assertIn("program", out)

    @unittest.skipUnless(shutil.which("dpkg-query"), "not a Debian system")
    def test_without_root_prints_the_install_line(self):
        self.packages("[build]\nbash\nno-such-package-1 # reason\n[test]\nno-such-package-2\n")
        nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
        prefix = nobody if os.geteuid() == 0 else ()
        line = "  sudo apt-get install -y --no-install-recommends no-such-package-1"
        for command, expected in (("train", line), ("test", f"{line} no-such-package-2")):
            done = self.run_it(command, prefix=prefix)
            self.assertEqual((done.returncode, done.stdout), (10, ""))
            self.assertEqual(done.stderr.splitlines()[-1], expected)

    @unittest.skipUnless(shutil.which("dpkg-query"), "not a Debian system")
    def test_the_stamp_holds_until_the_list_changes(self):
        self.run_it("version")
        fake = self.bin / "dpkg-query"
        fake.write_text("#!/bin/bash\necho asked >> " + f"'{self.tree}/calls'\n" +
                        "echo installed bash; echo installed dpkg\n")
        fake.chmod(0o755)
        self.run_it("version")
        self.assertNotIn("asked", self.calls())
        self.packages("[build]\nbash\ndpkg\n")
        self.run_it("version")
        self.assertIn("asked", self.calls())


if __name__ == "__main__":
    unittest.main()
