#!/bin/sh
# compose.sh FOLDER: `docker compose` for the tests' own Docker. Where it is not here, a package is unpacked into FOLDER:
# this system's (Ubuntu's docker-compose-v2, or docker-compose where that is the second version), else Debian 13's.
set -eu
if docker compose version >/dev/null 2>&1; then exit; fi
folder=$1/compose
mkdir -p "$folder/lists/partial" "$DOCKER_CONFIG/cli-plugins"
cd "$folder"

plugin() {  # what a package brings along, if it does
    find . -type f -path '*cli-plugins/docker-compose' | grep .
}

unpack() {  # unpack PACKAGE APT_OPTIONS…
    package=$1
    shift
    rm -f ./*.deb
    apt-get -qq "$@" download "$package" </dev/null >&2 && dpkg --extract "$package"_*.deb . && plugin >/dev/null
}

if ! unpack docker-compose-v2 2>/dev/null && ! unpack docker-compose 2>/dev/null; then
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main\n' >"$folder/sources.list"
    set -- -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists" \
        -o Dir::Cache="$folder"
    apt-get -qq "$@" update </dev/null
    unpack docker-compose "$@"
fi
cp "$(plugin)" "$DOCKER_CONFIG/cli-plugins/"
docker compose version
