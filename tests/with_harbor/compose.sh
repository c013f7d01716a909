#!/bin/sh
# compose.sh FOLDER: `docker compose` for the tests' own Docker. Where it is not here, Debian 13's package is unpacked into FOLDER.
set -eu
if docker compose version >/dev/null 2>&1; then exit; fi
folder=$1/compose
mkdir -p "$folder/lists/partial" "$DOCKER_CONFIG/cli-plugins"
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main\n' >"$folder/sources.list"
cd "$folder"
apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists" \
        -o Dir::Cache="$folder" "$@" </dev/null
}
apt update
apt download docker-compose
dpkg --extract docker-compose_*.deb .
cp "$(find . -type f -path '*cli-plugins/docker-compose')" "$DOCKER_CONFIG/cli-plugins/"
docker compose version
