# Shared by demo.sh and test.sh: finds or installs a Python, makes the virtual environment, installs Overcrank.
#
# What belongs here: setting this machine up, saying what is done, doing nothing twice.  What must not: what
# is run afterwards.  Plain POSIX sh: on a new machine there may be no bash.
#
# Everything that is said goes to standard error, so that standard output is the command's own.

ROOT=$(cd "$(dirname "$0")/.." && pwd) || exit 1
VENV=${OVERCRANK_VENV:-$ROOT/.venv}
APT_READY=

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "stopped: $*"
    exit 1
}

# Runs a command as root: directly, or by sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        fail "this needs root and there is no sudo; as root, run: $*"
    fi
}

# Installs Debian or Ubuntu packages; does nothing for those that are there.
apt_install() {
    missing=
    for package in "$@"; do
        if ! command -v dpkg-query >/dev/null 2>&1 || ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
            missing="$missing $package"
        fi
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        fail "this is no Debian or Ubuntu; install by hand what these packages bring:$missing"
    say "installing with apt-get:$missing"
    if [ -z "$APT_READY" ]; then
        as_root apt-get update -q >&2 || fail "apt-get update failed"
        APT_READY=yes
    fi
    # shellcheck disable=SC2086  # a list of words
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >&2 ||
        fail "apt-get could not install:$missing"
}

# Whether a Python is new enough and can make virtual environments.
able() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Sets PYTHON to a Python of 3.11 or newer with venv; installs what is missing for it.
find_python() {
    for name in ${OVERCRANK_PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if able "$name"; then
            PYTHON=$name
            return 0
        fi
    done
    [ -z "${OVERCRANK_PYTHON:-}" ] || fail "OVERCRANK_PYTHON=$OVERCRANK_PYTHON is no Python 3.11 or newer with venv"
    if ! command -v dpkg-query >/dev/null 2>&1; then
        fail "no Python of 3.11 or newer with venv is here; install one"
    fi
    # The system's own python3 first; its packages are python3-venv and, on Debian, all it needs.
    apt_install python3 python3-venv
    if able /usr/bin/python3; then
        PYTHON=/usr/bin/python3
        return 0
    fi
    for name in python3.13 python3.12 python3.11; do
        if [ -n "$(apt-cache search --names-only "^$name-venv\$" 2>/dev/null)" ]; then
            apt_install "$name" "$name-venv"
            if able "/usr/bin/$name"; then
                PYTHON=/usr/bin/$name
                return 0
            fi
        fi
    done
    fail "this system has no Python of 3.11 or newer (Debian 12 and Ubuntu 24.04 have one)"
}

# What the environment in VENV was made from; another answer means it must be brought up to date.
recipe() {
    echo "$ROOT $1"
    cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt"
}

# Makes VENV with Overcrank and the extras named (a comma-separated list).
make_environment() {
    stamp=$VENV/overcrank-$(printf %s "$1" | tr , -).stamp
    wanted=$(recipe "$1" | cksum)
    if [ -x "$VENV/bin/farm" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    find_python
    if ! [ -x "$VENV/bin/python" ] || ! "$VENV/bin/python" -c 'import pip' >/dev/null 2>&1; then
        say "making a virtual environment with $("$PYTHON" --version 2>&1): $VENV"
        "$PYTHON" -m venv --clear "$VENV" || fail "the virtual environment cannot be made"
    fi
    say "installing Overcrank and its Python packages into it ($2)"
    "$VENV/bin/python" -m pip install --disable-pip-version-check -c "$ROOT/constraints.txt" -e "$ROOT[$1]" >&2 ||
        fail "pip could not install the packages; its last lines above say why"
    # The one shared library that a wheel of ours (Mitsuba's) expects of the system and small systems lack.
    if ! "$VENV/bin/python" -c 'import ctypes; ctypes.CDLL("libatomic.so.1")' >/dev/null 2>&1; then
        apt_install libatomic1
    fi
    printf '%s\n' "$wanted" >"$stamp"
}
