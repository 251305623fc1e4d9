# SPDX-License-Identifier: MIT
# Runs two programs that exchange requests and answers over one connection, each with or without the library; run_both is in
# helpers/matrix.bash.

# run_once ROUNDS VERDICT: runs the programs of the arrays server and client once. Do the client's counts agree with the verdict?
run_once() {
    local arguments=("${client[@]}") words=("${server[@]}")
    local server=("$PROBES/${server_program:-stdio_rounds}" "${words[@]}" 0)
    local client=("$PROBES/${client_program:-stdio_rounds}" client "${arguments[@]}" --warmup "$warmup" 127.0.0.1 PORT "$1")
    run_both
    stalls=$(field stalls "$T/client.out")
    median=$(field median_us "$T/client.out")
    case $2 in
    flows) [[ $stalls -eq 0 ]] && holds "$median < 5000" ;;
    late) [[ $stalls -le 2 ]] && holds "$median >= 5000 && $median <= 20000" ;;
    stalls) holds "$stalls >= 0.8 * $1" && [[ $NS_ISOLATED == 0 || $delayed -ge $1 ]] ;;
    esac || not_as_expected "$2" "$1"
}

# rounds_are VERDICT: runs the programs of the arrays server, client, on_server and on_client.
rounds_are() {
    local verdict=$1 rounds=100 warmup=20 stalls median delayed
    [[ $verdict != late ]] || kernel_bounds_delayed_acks || verdict=stalls
    case $verdict in
    late) rounds=20 warmup=4 ;;
    stalls) rounds=10 warmup=4 ;; # the kernel counts a delayed ACK for each
    esac
    in_time run_once "$rounds" "$verdict"
}

auto_cork() {
    printf 'NAGLESHIM_POLICY={"version": 1, "rules": [{"send": "auto-cork", "max_delay_us": %d}]}' "$1"
}

# shim_on END VERDICT [POLICY]: only this end (client, server or none) has the library.
shim_on() {
    local preload=LD_PRELOAD
    # The server itself, and not the program that makes its connection, gets the library.
    [[ $1 == client || ${server[0]} == server ]] || preload=INETD_PRELOAD
    on_server=() on_client=()
    case $1 in
    server) on_server=("$preload=$LIBRARY" "${@:3}") ;;
    client) on_client=("$preload=$LIBRARY" "${@:3}") ;;
    esac
    rounds_are "$2"
}

