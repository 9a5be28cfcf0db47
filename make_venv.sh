#!/bin/sh
# Creates the virtual environment $1, unless it works already, with $PYTHON or, if that is empty, with
# the first Python on PATH whose version is in setup.py's list.
#
# Each candidate is run, since a program named python may be a shim that fails (pyenv), or lack the
# module that creates environments (Debian without python3-venv).
set -euf

venv=$1
asked_for=${PYTHON:-}
versions=$(sed -n 's/^PYTHON_VERSIONS = (\(.*\))$/\1/p' "$(dirname "$0")/setup.py" | tr -d '",')
needed="Python $(echo "$versions" | sed 's/ /, /g; s/\(.*\), /\1 or /')"
how_to_name="make PYTHON=/path/to/python"

fail() {
    echo "make: $*" >&2
    exit 1
}

# Runs a program for at most 30 seconds, if the system has `timeout`: a shim may prompt or download.
run_briefly() {
    if command -v timeout >/dev/null 2>&1; then
        timeout 30 "$@"
    else
        "$@"
    fi
}

# Prints the version of a Python, such as 3.12, or nothing if it does not run.
version_of() {
    run_briefly "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null || true
}

is_supported() {
    case " $versions " in
        *" ${1:-none} "*) true ;;
        *) false ;;
    esac
}

has_modules() {
    run_briefly "$1" -c "import $2" >/dev/null 2>&1 </dev/null
}

# Prints the candidates for Python, one per line, the preferred one first.
candidates() {
    if [ -n "$asked_for" ]; then
        echo "$asked_for"
        return
    fi
    for suffix in $versions ""; do
        (
            IFS=:
            for directory in $PATH; do
                [ ! -x "$directory/python${suffix:-3}" ] || echo "$directory/python${suffix:-3}"
            done
        )
    done
}

# Sets `python` and `version`, or exits with one line that says what to do.
choose_python() {
    without_ensurepip=
    while IFS= read -r python; do
        version=$(version_of "$python")
        is_supported "$version" || continue
        ! has_modules "$python" "venv, ensurepip" || return 0
        without_ensurepip=${without_ensurepip:-"$python $version"}
    done <<EOF
$(candidates)
EOF
    if [ -n "$without_ensurepip" ]; then
        fail "${without_ensurepip% *} lacks the modules that make virtual environments; install" \
            "them (Debian, Ubuntu: apt install python${without_ensurepip##* }-venv) or name" \
            "another $needed: $how_to_name"
    elif [ -z "$asked_for" ]; then
        fail "no $needed on PATH; install one or name it: $how_to_name"
    elif [ -z "$version" ]; then
        fail "PYTHON=$asked_for does not run; name a $needed: $how_to_name"
    fi
    fail "PYTHON=$asked_for is Python $version; name a $needed: $how_to_name"
}

# Returns whether the environment can install packages; its Python may have been removed.
works() {
    is_supported "$(version_of "$venv/bin/python")" && has_modules "$venv/bin/python" pip
}

if [ -z "$asked_for" ] && works; then
    exit
fi
choose_python
if works && [ "$(version_of "$venv/bin/python")" = "$version" ]; then
    exit
fi
echo "Creating $venv with $python (Python $version)"
"$python" -m venv --clear "$venv"
