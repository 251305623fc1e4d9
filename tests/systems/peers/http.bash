# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # $D, $with, $PEERS_ROOT: tests/systems/peers/run
# nginx behind wrk and curl, and Python's http.server behind curl. The ports are fixed: each run has a network
# of its own. What is compared is bytes, their sums, and counts of errors.

file_sizes=(0 1 100 1447 1448 1449 4096 20000 65537 1000000 5000000)

make_site() {
    local size
    mkdir -p "$D/site" "$D/put"
    chmod 777 "$D/put"
    for size in "${file_sizes[@]}"; do
        # The same bytes in every run, and no two parts alike.
        openssl enc -aes-128-ctr -K 00 -iv 00 -in /dev/zero 2>/dev/null | head -c "$size" >"$D/site/$size"
    done
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost \
        -days 2 -keyout "$D/key.pem" -out "$D/cert.pem" 2>/dev/null
}

# One server block for each way of sending: PORT SENDFILE TCP_NOPUSH TCP_NODELAY.
server_block() {
    cat <<BLOCK
    server {
        listen 127.0.0.1:$1;
        sendfile $2;
        tcp_nopush $3;
        tcp_nodelay $4;
        root $D/site;
        add_header X-Path \$uri;
        location /put/ {
            root $D;
            dav_methods PUT;
            client_max_body_size 10m;
        }
        location /through/ {
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass http://behind/;
            proxy_hide_header X-Path;
            add_header X-Path \$upstream_http_x_path;
        }
        location /unbuffered/ {
            proxy_buffering off;
            proxy_pass http://behind/;
            proxy_hide_header X-Path;
            add_header X-Path \$upstream_http_x_path;
        }
    }
BLOCK
}

start_nginx() {
    {
        echo "daemon off; master_process on; worker_processes 2; pid $D/nginx.pid; error_log $D/error.log;"
        echo "events { worker_connections 200; }"
        echo "http { access_log off; default_type text/plain; keepalive_requests 1000000;"
        for place in client_body proxy fastcgi uwsgi scgi; do
            echo "${place}_temp_path $D/$place;"
        done
        echo "upstream behind { server 127.0.0.1:8001; keepalive 8; }"
        server_block 8001 on on on
        server_block 8002 on off off
        server_block 8003 off on on
        server_block 8004 off off off
        echo "server { listen 127.0.0.1:8443 ssl http2; ssl_certificate $D/cert.pem;"
        echo "ssl_certificate_key $D/key.pem; sendfile on; tcp_nopush on; root $D/site; } }"
    } >"$D/nginx.conf"
    "${with[@]}" nginx -e "$D/error.log" -c "$D/nginx.conf" >"$D/nginx.out" 2>&1 &
    nginx=$!
    wait_for_port 8443
}

wait_for_port() {
    local end=$((SECONDS + 30))
    until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
        ((SECONDS < end)) || return 1
        sleep 0.05
    done
}

# QUIT lets the workers end by exit, and write their line.
stop_nginx() {
    kill -QUIT "$nginx"
    wait "$nginx" || true
}

# wrk itself checks each body against the file: see check.lua.
loaded() {
    local connections=$1 url=$2 header=${3-}
    "${with[@]}" wrk -t 2 -c "$connections" -d 2s --timeout 10s ${header:+-H "$header"} \
        -s "$PEERS_ROOT/tests/systems/peers/check.lua" "http://127.0.0.1:$url" -- "$D/site" "${file_sizes[@]}" \
        >"$D/wrk" 2>&1 || return 1
    cat "$D/wrk"
    grep -qE '^checked [1-9][0-9]* wrong 0 errors 0$' "$D/wrk"
}

suite_nginx() {
    local port connections kind
    make_site
    start_nginx
    for port in 8001 8002 8003 8004; do
        kind=$(sed -n "/listen 127.0.0.1:$port/,/tcp_nodelay/p" "$D/nginx.conf" | sed 1d | tr -d '\n;' | xargs)
        for connections in 2 40; do
            expect "$kind, $connections connections" loaded "$connections" "$port/"
        done
        expect "$kind, closing" loaded 10 "$port/" 'Connection: close'
    done
    expect 'through a proxy' loaded 10 8002/through/
    expect 'through a proxy that does not gather' loaded 10 8003/unbuffered/
    expect 'no error in its log' no_errors
    stop_nginx
}

no_errors() {
    ! grep -E '\[(error|alert|crit|emerg)\]' "$D/error.log"
}

# get NAME URL SIZE [OPTION...]: the bytes are those of the file.
get() {
    local url=$1 size=$2
    shift 2
    "${with[@]}" curl -sS --fail --max-time 60 "$@" -o "$D/got" "$url" && cmp "$D/got" "$D/site/$size"
}

put() {
    local url=$1 size=$2
    shift 2
    "${with[@]}" curl -sS --fail --max-time 60 "$@" -T "$D/site/$size" "$url" && cmp "$D/put/$size" "$D/site/$size"
}

# All files on one connection; the sums of what came.
get_all() {
    local base=$1 size list=()
    shift
    rm -rf "$D/all"
    mkdir "$D/all"
    for size in "${file_sizes[@]}" "${file_sizes[@]}"; do
        list+=(-o "$D/all/$size" "$base$size")
    done
    "${with[@]}" curl -sS --fail --max-time 120 "$@" "${list[@]}" && diff -r "$D/all" "$D/site"
}

suite_curl() {
    local size port tls=(--cacert "$D/cert.pem" --resolve localhost:8443:127.0.0.1)
    make_site
    start_nginx
    "${with[@]}" /usr/bin/python3.11 -m http.server 8100 -p HTTP/1.1 -b 127.0.0.1 -d "$D/site" >"$D/python" 2>&1 &
    python=$!
    wait_for_port 8100
    for size in "${file_sizes[@]}"; do
        for port in 8001 8003 8100; do
            expect "get $size from $port" get "http://127.0.0.1:$port/$size" "$size"
        done
        expect "get $size with TLS" get "https://localhost:8443/$size" "$size" "${tls[@]}" --http1.1
        expect "get $size with HTTP/2" get "https://localhost:8443/$size" "$size" "${tls[@]}" --http2
        expect "get $size through a proxy" get "http://127.0.0.1:8002/through/$size" "$size"
        expect "put $size" put "http://127.0.0.1:8001/put/$size" "$size"
        expect "put $size and wait for 100" put "http://127.0.0.1:8002/put/$size" "$size" -H 'Expect: 100-continue'
        # curl does not send an empty body in chunks.
        ((size == 0)) || expect "put $size in chunks" put "http://127.0.0.1:8001/put/$size" "$size" -H 'Transfer-Encoding: chunked'
    done
    for port in 8001 8002 8003 8004 8100; do
        expect "get all from $port" get_all "http://127.0.0.1:$port/"
        expect "get all from $port in parallel" get_all "http://127.0.0.1:$port/" --parallel
    done
    expect 'get all with TLS' get_all https://localhost:8443/ "${tls[@]}" --http1.1
    expect 'get all with HTTP/2' get_all https://localhost:8443/ "${tls[@]}" --http2
    expect 'get all with HTTP/2 in parallel' get_all https://localhost:8443/ "${tls[@]}" --http2 --parallel
    expect 'get slowly' get http://127.0.0.1:8001/1000000 1000000 --limit-rate 500k
    expect 'nobody listens there' refused
    kill -TERM "$python"
    wait "$python" || true
    stop_nginx
}

# curl's own exit status for a connection that was refused.
refused() {
    local status=0
    "${with[@]}" curl -sS --max-time 10 http://127.0.0.1:9/ || status=$?
    ((status == 7))
}
