#!/bin/sh
# Sets this machine up and renders the demo: `sh deploy/demo.sh`.  Arguments go to `farm demo`.
#
# Installs nothing system-wide but python3-venv and libatomic1, and those only if they are missing.
# Everything else goes into .venv in this folder; remove that folder and all is gone.
set -eu
. "$(dirname "$0")/common.sh"

say "Overcrank demo: renders a short film on this machine."
say "  needs Python 3.11 or newer with venv, and libatomic (installed with apt-get if they are missing);"
say "  puts Overcrank with Mitsuba and an ffmpeg, about 800 MB, into $VENV;"
say "  writes pictures and the film to the folder overcrank-demo, or where -o says."
make_environment demo "a download of about 270 MB"
exec "$VENV/bin/farm" demo "$@"
