#!/bin/sh
# Sets this machine up and runs every check: `sh deploy/test.sh`.  Arguments go to pytest.
#
#   sh deploy/test.sh --setup        set up only
#   sh deploy/test.sh tests/unit -k frames
#
# Installs the programs that are tested against with apt-get and everything else into .venv.  All stages run
# even if one fails; the exit code is that of the first that failed.
set -eu
. "$(dirname "$0")/common.sh"

say "Overcrank tests: sets this machine up and runs ruff, mypy, import-linter and pytest."
say "  installs Blender, ffmpeg, POV-Ray, PostgreSQL, Xvfb, xdotool and what Qt needs of the system with"
say "  apt-get if they are missing (about 1 GB);"
say "  puts Overcrank with Mitsuba, Qt and the test tools, about 1.3 GB, into $VENV."
if command -v apt-get >/dev/null 2>&1; then
    apt_install blender ffmpeg povray postgresql xvfb xdotool libegl1 libgl1 libglib2.0-0 libdbus-1-3 libfontconfig1 \
        fonts-dejavu-core libxkbcommon0 libxkbcommon-x11-0 libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 \
        libxcb-randr0 libxcb-render-util0 libxcb-shape0 libxcb-xinerama0 libxcb-xkb1
fi
make_environment demo,test "a download of about 430 MB"
if [ "${1:-}" = --setup ]; then
    say "set up; now: . $VENV/bin/activate"
    exit 0
fi

cd "$ROOT"
PATH=$VENV/bin:$PATH
export PATH
WORKERS=${OVERCRANK_TEST_WORKERS:-2}
RESULT=0
SUMMARY=

# Runs one stage, times it and remembers the first failure.
stage() {
    title=$1
    shift
    say ""
    say "== $title: $*"
    begun=$(date +%s)
    code=0
    "$@" || code=$?
    took=$(($(date +%s) - begun))
    if [ "$code" = 0 ]; then word=passed; else word="FAILED ($code)"; fi
    SUMMARY="$SUMMARY
   $(printf '%-14s %-12s %5s s' "$title" "$word" "$took")"
    [ "$RESULT" != 0 ] || RESULT=$code
}

stage lint ruff check .
stage format ruff format --check .
stage types mypy
stage imports lint-imports
# The same examples every time, and no deadline for one of them: a slow machine is no failure.
stage tests python -m pytest -p xdist -n "$WORKERS" --hypothesis-profile=ci "$@"

say ""
say "stages:$SUMMARY"
exit "$RESULT"
