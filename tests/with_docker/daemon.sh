#!/bin/sh
# A container daemon of one's own, in a folder: daemon.sh start FOLDER [docker|podman], daemon.sh stop FOLDER.
# start prints the daemon's URL. Its programs come from this system's packages: those that are not installed are fetched and
# unpacked into the folder, so nothing else on the machine changes. Root alone can start one.
set -eu

say() {
    printf 'daemon: %s\n' "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

unpack() {  # unpack PACKAGE…: with what they need and this machine has not, into $folder/programs
    if [ -e "$folder/programs/complete" ]; then return; fi
    command -v apt-get >/dev/null || fail "this needs a system with apt-get, for $*"
    apt-get -qq update </dev/null >/dev/null 2>&1 || say "apt-get update failed; trying with the package lists at hand"
    mkdir -p "$folder/packages" "$folder/programs"
    missing=$(apt-get install --simulate --no-install-recommends "$@" 2>/dev/null | awk '$1 == "Inst" { print $2 }')
    say "fetching" $missing
    # shellcheck disable=SC2086  # several names in one variable
    [ -z "$missing" ] || (cd "$folder/packages" && apt-get -qq download $missing >/dev/null) || fail "could not fetch $missing"
    for package in "$folder"/packages/*.deb; do
        dpkg --extract "$package" "$folder/programs"
    done
    : >"$folder/programs/complete"
}

storage() {  # storage NAME: that driver, or the one that copies, where layers cannot lie on layers (CI in a container)
    if [ "$(stat --file-system --format %T "$folder")" = overlayfs ]; then echo vfs; else echo "$1"; fi
}

firewall() {  # the program by which the daemon gives containers of one network the names of the others
    tables=$folder/programs/usr/sbin/iptables
    if [ ! -e "$tables-nft" ] || [ -e "$tables" ]; then return; fi
    printf '#!/bin/sh\nXTABLES_LIBDIR=%s/xtables LD_LIBRARY_PATH=%s exec %s-nft "$@"\n' \
        "$LD_LIBRARY_PATH" "$LD_LIBRARY_PATH" "$tables" >"$tables"
    chmod +x "$tables"
}

start_docker() {
    unpack docker.io
    firewall
    # No bridge and no rules of the firewall: the tests' containers have no network.
    exec dockerd --data-root "$folder/data" --exec-root "$folder/run" --pidfile "$folder/docker.pid" --host "$url" \
        --storage-driver "$(storage overlay2)" --iptables=false --ip6tables=false --bridge=none --ip-forward=false
}

start_podman() {
    unpack podman runc
    cat >"$folder/containers.conf" <<END
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
seccomp_profile = "$(first /usr/share/containers/seccomp.json)"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
conmon_path = ["$(command -v conmon)"]
exit_command_delay = 1
image_copy_tmp_dir = "$folder"
[engine.runtimes]
runc = ["$(command -v runc)"]
END
    mkdir -p "$folder/.config/containers"
    printf '{"default": [{"type": "insecureAcceptAnything"}]}' >"$folder/.config/containers/policy.json"
    printf '[storage]\ndriver = "%s"\nrunroot = "%s/run"\ngraphroot = "%s/data"\n' \
        "$(storage overlay)" "$folder" "$folder" >"$folder/storage.conf"
    export CONTAINERS_CONF="$folder/containers.conf" CONTAINERS_STORAGE_CONF="$folder/storage.conf" TMPDIR="$folder" HOME="$folder"
    exec podman --root "$folder/data" --runroot "$folder/run" system service --time=0 "$url"
}

first() {  # the file of a package, wherever its programs are
    if [ -e "$folder/programs$1" ]; then echo "$folder/programs$1"; else echo "$1"; fi
}

answers() {
    python3 - "${url#unix://}" <<'END' 2>/dev/null
import socket, sys
with socket.socket(socket.AF_UNIX) as asking:
    asking.settimeout(5)
    asking.connect(sys.argv[1])
    asking.sendall(b"GET /_ping HTTP/1.0\r\nHost: d\r\n\r\n")
    sys.exit(b" 200 " not in asking.recv(100))
END
}

start() {
    [ "$(id -u)" = 0 ] || fail "only root can start a daemon here"
    mkdir -p "$folder"
    url=unix://$folder/daemon.sock
    if answers; then echo "$url"; return; fi
    PATH=$folder/programs/usr/bin:$folder/programs/usr/sbin:$folder/programs/sbin:$PATH
    LD_LIBRARY_PATH=$folder/programs/usr/lib/$(uname -m)-linux-gnu
    export PATH LD_LIBRARY_PATH
    say "starting $kind in $folder (log: $folder/daemon.log)"
    # In the folder, where conmon leaves files of its own.
    (cd "$folder" && exec >"$folder/daemon.log" 2>&1 </dev/null && "start_$kind") &
    echo $! >"$folder/pid"
    tries=0
    until answers; do
        tries=$((tries + 1))
        kill -0 $! 2>/dev/null || { tail -n 20 "$folder/daemon.log" >&2; fail "$kind did not start"; }
        [ $tries -lt 600 ] || fail "$kind does not answer; see $folder/daemon.log"
        sleep 0.2
    done
    echo "$url"
}

ours() {  # the processes of this folder's daemon: itself, what it started, and what watches its containers
    grep -alsF "$folder/" /proc/[0-9]*/cmdline | while read -r file; do
        case $(cat "${file%cmdline}comm" 2>/dev/null) in
            dockerd | containerd* | podman | conmon) file=${file#/proc/} && echo "${file%/cmdline}" ;;
        esac
    done
}

wait_until() {  # wait_until TENTHS COMMAND…: until it says yes
    tries=$1
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}

ended() {
    ! kill -0 "$1" 2>/dev/null
}

alone() {
    [ -z "$(ours)" ]
}

stop() {
    if pid=$(cat "$folder/pid" 2>/dev/null) && kill "$pid" 2>/dev/null; then
        wait_until 200 ended "$pid" || say "process $pid does not end"
        wait_until 30 alone || :
    fi
    for process in $(ours); do kill -9 "$process" 2>/dev/null || :; done
    wait_until 50 alone || say "these do not end:" $(ours)
    rm -f "$folder/pid" "$folder/docker.pid" "$folder/daemon.sock"
    awk -v under="$folder/" 'index($2, under) == 1 { print $2 }' /proc/mounts | sort -r | while read -r place; do
        umount "$place" || say "could not unmount $place"
    done
}

folder=${2:?"usage: daemon.sh start|stop FOLDER [docker|podman]"}
kind=${3:-podman}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd -P)
case $1:$kind in
    start:docker | start:podman) start ;;
    stop:*) stop ;;
    *) fail "usage: daemon.sh start|stop FOLDER [docker|podman]" ;;
esac
