# What ./dev needs of a machine: a Python, Debian's packages, virtual environments. Read by it, in the checkout's folder.
# shellcheck shell=sh disable=SC2034,SC2154  # variables of ./dev

least=11  # the oldest Python 3 that will do

find_python() {  # print the path of a Python from 3.$least on
    set +f
    for candidate in ${AGENTGYM_PYTHON:-python3 python3.11 python3.12 python3.13 python3.14 python "$HOME"/.pyenv/versions/3.1[23].*/bin/python}; do
        if "$candidate" -c "import sys; sys.exit(sys.version_info < (3, $least))" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    fail "no Python from 3.$least on (tried: ${AGENTGYM_PYTHON:-python3, python3.11 to 3.14, python}). Install one, or name it: AGENTGYM_PYTHON=/path/to/python3 ./dev …"
}

may_install() {  # whether Debian packages can be installed without asking anybody; sets `sudo`
    sudo=
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" != 0 ] || return 0
    sudo=sudo
    sudo -n true 2>/dev/null
}

apt_update() {
    $sudo apt-get -qq update </dev/null || say "apt-get update failed; trying with the package lists at hand"
}

apt_get() {  # apt_get PACKAGE…: install, or return 1
    say "apt-get install -y $*"
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" </dev/null >/dev/null
}

apt_install() {  # install Debian packages where we may, else name the one command that does
    if ! may_install; then
        command -v apt-get >/dev/null 2>&1 || fail "missing: $*. Install it with this system's package manager, then start again."
        fail "missing: $*. Run this, then start again:  sudo apt-get install -y $*"
    fi
    apt_update
    apt_get "$@" || fail "apt-get could not install $*"
}

absent() {  # print the Debian packages that the tests lean on and that are not here, whatever provides them
    command -v bwrap >/dev/null 2>&1 || printf ' bubblewrap'
    command -v git >/dev/null 2>&1 || printf ' git'
    command -v java >/dev/null 2>&1 || printf ' default-jre-headless'
    compiles || printf ' make gcc libc6-dev'
    for browser in "${AGENTGYM_CHROMIUM:-}" chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        if [ -n "$browser" ] && command -v "$browser" >/dev/null 2>&1; then return; fi
    done
    for browser in "${PLAYWRIGHT_BROWSERS_PATH:-${HOME:-}/.cache/ms-playwright}"/chromium*; do
        [ ! -e "$browser" ] || return 0
    done
    printf ' chromium'
}

system() {  # install what the tests lean on besides Python packages, where we may; what stays absent, `skipped` says
    missing=$(absent)
    if [ -n "$missing" ] && may_install; then
        apt_update
        for package in $missing; do
            apt_get "$package" || say "apt-get could not install $package"
        done
        case $(absent) in
            *chromium*)  # Ubuntu has it as a snap alone, which needs a running snapd
                if [ -x .venv/bin/playwright ]; then
                    say "playwright install chromium"
                    { .venv/bin/playwright install chromium && $sudo .venv/bin/playwright install-deps chromium; } \
                        </dev/null >/dev/null || say "playwright could not install chromium"
                fi
                ;;
        esac
    fi
}

skipped() {  # say once what was skipped for want of a system package
    missing=$(absent)
    [ -z "$missing" ] || say "tests skipped, for these packages are not here:$missing. To run them:  sudo apt-get install -y$missing"
}

make_venv() {  # make_venv FOLDER: make it, unless it is there and works
    if [ -e "$1/unfinished" ]; then
        other=$(cat "$1/unfinished")
        if kill -0 "$other" 2>/dev/null; then
            fail "process $other is installing into $1: wait for it (or, if it is something else, remove $1/unfinished)"
        fi
        say "the last installation into $1 was interrupted"
    # Scripts in a virtual environment hold its path, so one that was moved is of no use.
    elif "$1/bin/python" -m pip --version >/dev/null 2>&1 && grep -qF "$(pwd -P)/$1" "$1/bin/pip"; then
        return
    fi
    if [ -e "$1" ] && [ ! -e "$1/pyvenv.cfg" ] && ! rmdir "$1" 2>/dev/null; then
        fail "$1 exists and is not a virtual environment: move it away, then start again"
    fi
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        apt_install "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    fi
    say "making $1 with $python"
    rm -rf "$1"  # half-made, half-filled, moved, or its Python is gone
    "$python" -m venv "$1" || fail "$python -m venv $1 failed"
}

install() {  # install FOLDER STAMP PIP_ARGUMENTS…: into a virtual environment, unless the stamp says it was done
    # The names of its variables are its own: a suite's $venv and $name must survive it.
    to=$1 stamp=$1/agentgym-$2
    shift 2
    make_venv "$to"
    wanted="$(cat pyproject.toml "$constraints" | cksum) $* ${AGENTGYM_PIP_ARGS:-}"
    if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
        return
    fi
    rm -f "$stamp"
    say "installing $* into $to (the first time: some minutes; log: $to/install.log)"
    started=$(date +%s)
    # The status goes through a file, since a pipe in POSIX sh has only its last command's.
    rm -f "$to/installed"
    echo $$ >"$to/unfinished"
    {
        # shellcheck disable=SC2086  # several arguments in one variable
        "$to/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
            ${AGENTGYM_PIP_ARGS:-} -c "$constraints" "$@" </dev/null 2>&1 && : >"$to/installed"
    } | tee "$to/install.log" | grep --line-buffered -E '^ERROR|Downloading .* [MG]B\)$' >&2 || :
    rm -f "$to/unfinished"
    [ -e "$to/installed" ] || { tail -n 30 "$to/install.log" >&2; fail "pip install failed; the whole log: $to/install.log"; }
    printf '%s' "$wanted" >"$stamp"
    say "installed in $(($(date +%s) - started)) s"
}

compiles() {  # whether a package can be built that comes as C source alone
    command -v make >/dev/null 2>&1 && command -v cc >/dev/null 2>&1
}

install_agents() {  # install_agents FOLDER PACKAGE…: programs from npm; where that is not to be had, their tests skip
    folder=$1
    shift
    if ! command -v npm >/dev/null 2>&1; then
        say "npm is not here: the tests of command-line agents will skip"
    elif [ "$(cat "$folder/installed" 2>/dev/null)" != "$*" ]; then
        say "npm install $*"
        mkdir -p "$folder"
        if npm install --prefix "$folder" --no-audit --no-fund --loglevel error "$@" </dev/null >"$folder/install.log" 2>&1; then
            printf '%s' "$*" >"$folder/installed"
        else
            say "npm could not install them (log: $folder/install.log): their tests will skip"
        fi
    fi
}

daemon() {  # daemon KIND: start one of the tests' own in $folder; whoever calls this is a shell that ends it
    packages=
    for package in python3-minimal libpython3-stdlib procps git; do  # what the images are made of
        dpkg -s "$package" >/dev/null 2>&1 || packages="$packages $package"
    done
    # shellcheck disable=SC2086  # several names in one variable
    [ -z "$packages" ] || apt_install $packages
    folder=$(mktemp -d)
    trap 'sh tests/with_docker/daemon.sh stop "$folder"; rm -rf "$folder"' EXIT
    sh tests/with_docker/daemon.sh start "$folder" "$1" >/dev/null || fail "no daemon of kind $1"
    export AGENTGYM_DOCKER="$folder" AGENTGYM_DOCKER_KIND="$1"
}

prepare() {  # prepare NEED: make there what suite $name needs besides packages; $venv is its environment
    case $1 in
        system) system ;;
        npm) install_agents "$venv/npm" @anthropic-ai/claude-code@2.1.331 @openai/codex@0.169.0 && export AGENTGYM_AGENTS="$venv/npm/node_modules/.bin" ;;
        overlay) PYTHONPATH=$(pwd)/$venv && export PYTHONPATH ;;  # laid over the development environment, which has the newest
        compiler) compiles || apt_install make gcc libc6-dev
            "$(find_python)" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || apt_install python3-dev ;;
        daemon) daemon "${AGENTGYM_DOCKER_KIND:-docker}" && "$run" tests/with_docker/image.py "unix://$folder/daemon.sock" ;;
        compose) DOCKER_HOST=unix://$folder/daemon.sock DOCKER_CONFIG=$folder/config PATH=$folder/programs/usr/bin:$PATH
            export DOCKER_HOST DOCKER_CONFIG PATH
            sh tests/with_harbor/compose.sh "$folder" || fail "no docker compose" ;;
        path) PATH=$(pwd)/$venv/bin:$PATH && export PATH ;;  # the harnesses of verifiers are programs that uv runs
        samples) [ ! -e .venv-vllm/agentgym-vllm ] || { AGENTGYM_VLLM=$(pwd)/.venv-vllm/bin/python && export AGENTGYM_VLLM; } ;;
        # These come along with vLLM, built for another torch, and importing them breaks transformers.
        torch-alone) "$run" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec 2>/dev/null ;;
    esac
}
