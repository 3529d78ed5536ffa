# Shared by the client suites here: options, one line for each test, the closing line and the exit code. Source it.
home=${PELTON_CLIENTS:-$HOME/.cache/pelton-clients}
export PELTON_CLIENTS=$home LC_ALL=C.UTF-8
usage() { sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2; }

# suite_options ARGS... : sets broker and only; what is left goes to the array rest
suite_options() {
  only=. rest=()
  [ $# -ge 1 ] || usage
  broker=$1; shift
  case $broker in -*|*[!0-9A-Za-z.:_,-]*) echo "not a broker address: $broker" >&2; exit 2;; esac
  while [ $# -gt 0 ]; do
    case $1 in
      --only) only=$2; shift 2;;
      *) rest+=("$1"); shift;;
    esac
  done
  mkdir -p "$home"
  passed=0 failed=0 skipped=0
}
# result STATUS NAME SECONDS [REASON]
result() {
  printf '%-7s %s %s  %s\n' "$1" "$2" "$3" "${4:-}" | sed 's/ *$//'
  case $1 in PASS) passed=$((passed+1));; SKIP) skipped=$((skipped+1));; *) failed=$((failed+1));; esac
}
suite_end() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ] && [ $((passed+skipped)) -gt 0 ]; exit
}
