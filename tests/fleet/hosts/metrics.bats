# SPDX-License-Identifier: MIT
# Promise: Prometheus gets the counters of `nagleshim top` through node_exporter, and the alerts and the dashboard work with them.

load ../../helpers/common
load ../../helpers/top

# asks EXPRESSION: prints the series that Prometheus finds for it.
asks() {
    promtool query instant http://127.0.0.1:9090 "$1"
}

# comes EXPRESSION: waits until there is such a series.
comes() {
    local i
    for ((i = 0; i < 60; i++)); do
        [[ -z $(asks "$1" 2>/dev/null) ]] || return 0
        sleep 0.5
    done
    return 1
}

@test "promtool accepts the counters, the alert rules and their tests, and a rule with another limit fails its test" {
    posts stalls
    "$NS" top --prometheus - --once --interval 1 >"$T/top.prom"
    promtool check metrics <"$T/top.prom"
    sed '/^# HELP/d' "$T/top.prom" >"$T/unexplained.prom"
    run ! promtool check metrics <"$T/unexplained.prom"
    cp config/prometheus/alerts*.yaml "$T"
    promtool check rules "$T/alerts.yaml"
    promtool test rules "$T/alerts.test.yaml"
    sed -i 's/> 0\.05$/> 0.5/' "$T/alerts.yaml"
    run ! promtool test rules "$T/alerts.test.yaml"
}

@test "a stall is seen in Prometheus, a client with the library has none, and each query of the dashboard finds data" {
    local port query
    posts stalls
    PRELOAD=$LIBRARY posts cured
    port=$(sed -nE 's/.*port ([0-9]+).*/\1/p' "$T/stalls.port")
    mkdir "$T/node"
    ns_start top "$NS" top --prometheus "$T/node/nagleshim.prom" --interval 1
    ns_start node prometheus-node-exporter --collector.disable-defaults --collector.textfile \
        --collector.textfile.directory="$T/node" --web.listen-address=127.0.0.1:9100
    cat >"$T/prometheus.yaml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$PWD/config/prometheus/alerts.yaml]
scrape_configs: [{job_name: node, static_configs: [{targets: ["127.0.0.1:9100"]}]}]
END
    ns_start prometheus prometheus --config.file="$T/prometheus.yaml" --storage.tsdb.path="$T/data" \
        --web.listen-address=127.0.0.1:9090
    comes "rate(nagleshim_stalled_requests_total{process='queue_put', role='client', port='$port'}[10s]) > 5"
    comes "ALERTS{alertname='NagleshimStalls', alertstate='pending', process='queue_put', port='$port'}"
    comes "nagleshim_requests_total{process='queue_put', port!='$port'} > 100"
    [[ -z $(asks "nagleshim_stalled_requests_total{port!='$port'} > 0") ]]
    comes "nagleshim_processes{process='queue_put', library='works'} == 1"
    while read -r query; do
        query=${query//\$instance/.*}
        echo "$query"
        comes "${query//\$__rate_interval/10s}"
    done < <(jq -r '.panels[].targets[].expr' config/prometheus/dashboard.json)
    # Without top there are no counters, rather than old ones.
    ns_stop top
    comes 'absent(nagleshim_requests_total)'
}
