#!/usr/bin/env bash
# Configures and builds one preset in build/NAME and runs its tests: the nested builds of `ctest`.
# Usage: run_preset.sh asan|tsan|ubsan|tidy [ninja target...]
# Naming targets builds only these and runs no tests. Exit code 77 (skipped) without clang 14.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
targets=("${@:2}")
directory=build/$preset
configure=(cmake --preset "$preset" -DPACELINE_META_TESTS=OFF)
jobs=${PACELINE_JOBS:-$(nproc)}
labels="unit|conformance|fuzz"
build=("${targets[@]}")

need() {
  command -v "$1" > /dev/null || { echo "skipped: $1 is not installed (apt-get install $2)"; exit 77; }
}

case $preset in
  tidy)
    need clang++-14 clang-14
    need clang-tidy-14 clang-tidy-14
    labels=
    ;;
  asan | tsan | ubsan)
    need clang++-14 "clang-14 libclang-rt-14-dev"  # twice as fast as g++ here
    ((${#build[@]} > 0)) || build=(unit_tests)
    ;;
esac

mkdir -p "$directory"
exec 9> "$directory.lock"  # two test runs share these folders
flock 9
"${configure[@]}" > "$directory/configure.log" 2>&1 || { tail -n 40 "$directory/configure.log"; exit 1; }
if [[ $preset == tidy && (.clang-tidy -nt $directory/analysed || tools/tidy_one.sh -nt $directory/analysed) ]]; then
  # Ninja does not know that the results depend on these files.
  ninja -C "$directory" -t clean > /dev/null
  touch "$directory/analysed"
fi
ninja -C "$directory" -j "$jobs" -k 0 "${build[@]}" > "$directory/build.log" 2>&1 || {
  # Errors, without the progress of what succeeded.
  grep -vE '^\[[0-9]+/[0-9]+\] |^[0-9]+ warnings? generated' "$directory/build.log" | tail -n 200
  echo "building preset $preset failed; the whole log is $directory/build.log"
  exit 1
}
if [[ -z $labels || ${#targets[@]} -gt 0 ]]; then
  echo "preset $preset: built"
  exit 0
fi

export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tools/tsan_suppressions.txt
export PACELINE_SIM_RUNS=${PACELINE_SIM_RUNS:-100}  # of the simulation, which is slow with sanitizers
exec ctest --test-dir "$directory" --output-on-failure --no-tests=error -j "$jobs" -L "^($labels)\$"
