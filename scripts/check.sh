#!/bin/sh
# Is everything here that a bare checkout needs? Names all that is missing, with the Debian package that brings it.
# usage: scripts/check.sh [python]

python=${1:-python3}
missing=

lacks() {
    missing="$missing
  - $1 (Debian: apt-get install $2)"
}

if ! command -v "$python" >/dev/null 2>&1; then
    lacks "Python >= 3.11: no $python" "python3"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    lacks "Python >= 3.11: $python is $("$python" -V 2>&1); choose another by make PYTHON=..." "python3"
else
    "$python" -c 'import ensurepip, venv' 2>/dev/null || lacks "$python's venv module" "python3-venv"
    "$python" -c 'import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists())' ||
        lacks "$python's headers (Python.h)" "python3-dev"
    compiler=${CC:-$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("CC") or "cc")')}
    scratch=$(mktemp -d)
    printf '#include <pthread.h>\n#include <stdatomic.h>\nint main(void) { return 0; }\n' >"$scratch/try.c"
    # $compiler may carry options
    $compiler -pthread -o "$scratch/try" "$scratch/try.c" 2>/dev/null ||
        lacks "a C compiler: '$compiler' does not compile" "gcc libc6-dev"
    rm -rf "$scratch"
fi

for tool in java javac; do
    found=$(command -v "${JAVA_HOME:+$JAVA_HOME/bin/}$tool" || command -v $tool)
    version=$("${found:-false}" -version 2>&1 | sed -n '1s/[^0-9]*\([0-9][0-9]*\).*/\1/p')
    if [ "${version:-0}" -lt 17 ]; then
        lacks "a JDK >= 17: ${found:-no $tool}${version:+ is Java $version}" "default-jdk-headless"
    fi
done

if [ -n "$missing" ]; then
    echo "kafwire cannot be built or tested here. Missing:$missing" >&2
    exit 1
fi
