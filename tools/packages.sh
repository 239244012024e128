#!/usr/bin/env bash
# Makes sure that Debian's packages of some sections of deps/debian.txt are installed.
# Usage: packages.sh LOG SECTION...   Called by ./paceline when its stamp does not hold.
# Installs as root; else prints the command that does. Exit code 10: something is still missing.
set -euo pipefail
list=$(dirname "${BASH_SOURCE[0]}")/../deps/debian.txt
log=$1
shift

say() { printf 'paceline: %s\n' "$*" >&2; }

mapfile -t wanted < <(awk -v sections=" $* " '{ sub(/#.*/, "") }
  /^\[/ { gsub(/[][ \t]/, ""); on = index(sections, " " $0 " "); next }
  NF && on { print $1 }' "$list" | sort)

if [[ ! -e /var/lib/dpkg/status ]]; then
  say "not a Debian system; install the like of these by hand: ${wanted[*]}"
  exit 0
fi

# shellcheck disable=SC2016  # the braces are dpkg-query's
mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}") \
  <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2> /dev/null |
    sed -n 's/^installed //p' | sort))
if ((${#missing[@]} == 0)); then exit 0; fi

install=(apt-get install -y --no-install-recommends)
if ((EUID != 0)); then
  say "packages are missing. Install them with:"
  printf '  sudo %s\n' "${install[*]} ${missing[*]}" >&2
  exit 10
fi

say "installing: ${missing[*]} (log: $log)"
export DEBIAN_FRONTEND=noninteractive
install+=(-o DPkg::Lock::Timeout=600 "${missing[@]}")
for attempt in first second; do
  # A machine that has its package lists need not fetch them again.
  if [[ $attempt == second ]] || ! "${install[@]}" -s &> /dev/null; then
    apt-get update 2>&1 | tee -a "$log" >&2 || true
  fi
  if "${install[@]}" 2>&1 | tee -a "$log" >&2; then exit 0; fi
  say "the $attempt attempt failed"
done
say "cannot install the packages. The reason is above and in $log; once it is solved, run again."
exit 10
