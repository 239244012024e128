#!/usr/bin/env bash
# Emulates hosts on one machine: COUNT network namespaces joined by a switch, every link shaped to
# RATE in both directions, then runs COMMAND with these variables:
#   PACELINE_NETNS            names of the namespaces, for `ip netns exec NAME ...`
#   PACELINE_NETNS_ADDRESSES  their addresses, in the same order
#   PACELINE_NETNS_RATE       RATE
#   PACELINE_NETNS_AGENT      `$PACELINE_NETNS_AGENT ADDRESS WORDS...` runs WORDS in a shell on that
#                             host, as ssh would; with a host name of its own
# Everything is removed when COMMAND ends, and when this script is stopped (INT, TERM, HUP): processes
# in the namespaces too. Leftovers of a script that was killed are removed by the next one. The exit
# code is COMMAND's. COMMAND itself stays in the namespace of the caller. Needs root.
#
# Usage: netns_hosts.sh [--mtu BYTES] COUNT RATE -- COMMAND...
#   netns_hosts.sh 4 1gbit -- paceline perf allreduce --workers 4
set -euo pipefail

prefix=paceline-netns

fail() { echo "netns_hosts.sh: error: $1" >&2; exit "${2:-2}"; }

# Namespaces of one script, by its process id. The links and the switch vanish with them.
namespaces_of() { ip netns list | awk -v start="$prefix-$1-" 'index($1, start) == 1 {print $1}'; }

remove_namespaces() {
  local name process
  for name in $(namespaces_of "$1"); do
    for process in $(ip netns pids "$name" 2> /dev/null); do
      kill -KILL "$process" 2> /dev/null || true
    done
    ip netns delete "$name" 2> /dev/null || true
  done
}

remove_leftovers() {
  local owner
  for owner in $(ip netns list | sed -nE "s/^$prefix-([0-9]+)-.*/\1/p" | sort -u); do
    # The id may belong to somebody else by now.
    grep -qsa netns_hosts "/proc/$owner/cmdline" || remove_namespaces "$owner"
  done
}

# What stands for ssh. Programs such as mpirun take processes of one host name for neighbours that
# share memory.
run_on_host() {
  local address=$1 i names addresses
  shift
  read -ra names <<< "${PACELINE_NETNS:-}"
  read -ra addresses <<< "${PACELINE_NETNS_ADDRESSES:-}"
  for i in "${!addresses[@]}"; do
    [[ ${addresses[i]} == "$address" ]] || continue
    exec ip netns exec "${names[i]}" unshare --uts /bin/sh -c 'hostname "$0"; eval "exec $*"' \
      "$address" "$@"
  done
  fail "there is no host $address"
}
if [[ ${1:-} == --agent ]]; then
  [[ $# -ge 3 ]] || fail "usage: netns_hosts.sh --agent ADDRESS WORDS..."
  run_on_host "${@:2}"
fi

child=
clean_up() {
  trap '' INT TERM HUP EXIT
  if [[ -n $child ]] && kill -0 "$child" 2> /dev/null; then
    kill -TERM "$child" 2> /dev/null || true
    for _ in $(seq 50); do  # at most 5 s to end in good order
      kill -0 "$child" 2> /dev/null || break
      sleep 0.1
    done
    kill -KILL "$child" 2> /dev/null || true
  fi
  remove_namespaces $$
}

mtu=1500
if [[ ${1:-} == --mtu ]]; then
  mtu=${2:-}
  shift 2
fi
[[ $# -ge 4 && $3 == -- ]] || fail "usage: netns_hosts.sh [--mtu BYTES] COUNT RATE -- COMMAND..."
count=$1 rate=$2
shift 3
[[ $count =~ ^[0-9]+$ && $count -ge 1 && $count -le 200 ]] || fail "COUNT must be 1 to 200"
[[ $mtu =~ ^[0-9]+$ && $mtu -ge 576 && $mtu -le 65535 ]] || fail "the MTU must be 576 to 65535"
[[ $(id -u) == 0 ]] || fail "needs root" 1
for tool in ip tc; do
  command -v $tool > /dev/null || fail "$tool is not installed (apt-get install iproute2)" 1
done

trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
remove_leftovers

# A burst of 256 KB is two packets of the largest size that a socket hands down, and at 1 Gbit/s
# 2 ms; the queue behind it holds 20 ms.
shape() { ip netns exec "$1" tc qdisc replace dev "$2" root tbf rate "$rate" burst 256kb latency 20ms; }

switch=$prefix-$$-switch
ip netns add "$switch"
ip -n "$switch" link add hub type bridge
ip -n "$switch" link set hub mtu "$mtu" up
names=() addresses=()
for ((i = 0; i < count; ++i)); do
  name=$prefix-$$-$i
  address=10.77.0.$((i + 1))
  ip netns add "$name"
  ip -n "$name" link add eth0 mtu "$mtu" type veth peer name "port$i" mtu "$mtu" netns "$switch"
  ip -n "$switch" link set "port$i" master hub up
  ip -n "$name" address add "$address/24" dev eth0
  ip -n "$name" link set lo up
  ip -n "$name" link set eth0 up
  shape "$name" eth0
  shape "$switch" "port$i"
  names+=("$name") addresses+=("$address")
done

export PACELINE_NETNS="${names[*]}" PACELINE_NETNS_ADDRESSES="${addresses[*]}"
export PACELINE_NETNS_RATE="$rate" PACELINE_NETNS_AGENT="$(realpath "$0") --agent"
"$@" <&0 &
child=$!
code=0
wait "$child" || code=$?
child=
exit "$code"
