#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Promise: `nagleshim host enable --unit` gives the shim to services without taking what they have, and refuses those where it would be in vain.
# shellcheck disable=SC2154 # bats sets $output, $stderr and $lines

bats_require_minimum_version 1.5.0
load ../helpers/system

setup() {
    system_setup
}

teardown() {
    ns_teardown
}

@test "enable --unit joins the library to what the unit and its drop-ins preload already" {
    unit app.service 'Environment=A=b "LD_PRELOAD=/lib/one.so" C=d' 'EnvironmentFile=-/etc/default/app'
    enable --unit app
    expect_status 0
    expect_whole stderr ""
    [[ $(dropin app.service) == *'
[Service]
Environment="LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/one.so"' ]]
    snapshot >"$T/enabled"
    enable --unit app.service
    expect_status 0
    expect_whole output "app.service has it already"
    snapshot | diff "$T/enabled" -
    host disable --unit app --root "$R"
    expect_status 0
    expect_untouched
    # A drop-in of the administrator goes before the unit, and a sanitizer's library before ours.
    mkdir "$R/etc/systemd/system/app.service.d"
    printf '[Service]\nEnvironment="LD_PRELOAD=/lib/two.so /lib/libasan.so.8"\n' >"$R/etc/systemd/system/app.service.d/override.conf"
    snapshot >"$T/before"
    enable --unit app
    expect_part stderr ""
    [[ $(dropin app.service) == *'LD_PRELOAD=/lib/libasan.so.8:/usr/lib/libnagleshim.so:/lib/two.so"' ]]
    host disable --root "$R"
    expect_status 0
    expect_untouched
    # One that is emptied is none; a line may go on in the next.
    printf '[Service]\nEnvironment=\nEnvironment=X=y \\\n  LD_PRELOAD=/lib/three.so\n' >"$R/etc/systemd/system/app.service.d/override.conf"
    enable --unit app
    [[ $(dropin app.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/three.so"' ]]
}

@test "enable --unit knows templates, prefixes, drop-ins for both, and a root of the unit's own" {
    unit serve@.service
    unit many-one.service RootDirectory=/srv/one NoExecPaths=/
    mkdir -p "$R/etc/systemd/system/many-.service.d"
    printf '[Service]\nEnvironment=LD_PRELOAD=/lib/prefix.so\n' >"$R/etc/systemd/system/many-.service.d/own.conf"
    snapshot >"$T/before"
    enable --unit serve@ serve@80 --unit many-one many-
    expect_status 0
    [[ $(wc -l <<<"$output") -eq 4 ]]
    [[ $(dropin serve@80.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so"' ]]
    [[ $(dropin serve@.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so"' ]]
    [[ $(dropin many-one.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/prefix.so"
BindReadOnlyPaths=-/usr/lib/libnagleshim.so -/etc/nagleshim
ExecPaths=-/usr/lib/libnagleshim.so' ]]
    if type -P systemd-analyze >/dev/null; then
        run --separate-stderr systemd-analyze verify --root="$R" --man=no many-one.service
        expect_no_part stderr zz-nagleshim
    fi
    host status --root "$R"
    expect_status 0
    expect_part output "serve@.service: /usr/lib/libnagleshim.so"
    host disable --root "$R"
    expect_status 0
    expect_untouched
}

@test "enable --unit refuses a unit where it would be in vain, and then changes no other unit either" {
    unit good.service
    unit file.service 'EnvironmentFile=/etc/default/file'
    unit unset.service 'UnsetEnvironment=A LD_PRELOAD'
    mkdir -p "$R/etc/default" "$R/etc/systemd/system/late.service.d" "$R/etc/systemd/system/own.service.d"
    printf 'A=b\nLD_PRELOAD=/lib/a.so\n' >"$R/etc/default/file"
    unit late.service
    printf '[Service]\nEnvironment=LD_PRELOAD=/lib/late.so\n' >"$R/etc/systemd/system/late.service.d/zzz.conf"
    unit own.service
    echo '[Service]' >"$R/etc/systemd/system/own.service.d/zz-nagleshim.conf"
    ln -s /dev/null "$R/etc/systemd/system/masked.service"
    ln -s /usr/lib/systemd/system/good.service "$R/etc/systemd/system/alias.service"
    touch "$R/etc/systemd/system/blocked.service.d"
    unit blocked.service
    snapshot >"$T/before"
    local name said
    while IFS='|' read -r name said; do
        enable --unit good "$name"
        refused "$said"
    done <<'CASES'
none|none.service: there is no such unit
masked|masked.service: it is masked
alias|it is another name of good.service: name that
file|its EnvironmentFile /etc/default/file sets LD_PRELOAD, which no drop-in can change
unset|unsets LD_PRELOAD
late|/etc/systemd/system/late.service.d/zzz.conf, which is read after the drop-in, sets LD_PRELOAD
own|this command did not write it; nothing was changed
blocked|nothing was changed
good.socket|'good.socket' is not a service: name the service that it starts
../x|'../x' is no name of a unit
.|'.' is no name of a unit
CASES
    # What others wrote is not taken away.
    host disable --root "$R"
    expect_status 0
    host disable --unit own --root "$R"
    expect_whole output "own.service is not enabled"
    expect_untouched
}

@test "an EnvironmentFile that sets LD_PRELOAD is found as systemd finds it, and one that cannot be told is refused" {
    mkdir -p "$R/etc/default/app"
    echo 'LD_PRELOAD=/lib/a.so' >"$R/etc/default/app/x.env"
    printf 'A=b\n LD_PRELOAD \t= /lib/a.so\n' >"$R/etc/default/blanks"
    printf '# LD_PRELOAD=/lib/a.so\nLD_PRELOADS=x\n; LD_PRELOAD=y\n' >"$R/etc/default/harmless"
    cp "$R/etc/default/blanks" "$R/etc/default/i@inst"
    cp "$R/etc/default/blanks" "$R/etc/default/inst"
    cp "$R/etc/default/blanks" "$R/etc/default/p"
    unit glob.service 'EnvironmentFile=-/etc/default/app/*.env'
    unit blanks.service EnvironmentFile=/etc/default/blanks
    unit i@.service EnvironmentFile=/etc/default/%i
    unit n@.service EnvironmentFile=%E/default/i@%i
    unit p.service EnvironmentFile=-/etc/default/%p
    unit unknown.service EnvironmentFile=/etc/%m/x
    unit far.service 'EnvironmentFile=/etc/*/blanks'
    unit good.service 'EnvironmentFile=/etc/default/app/*.conf' EnvironmentFile=/etc/default/harmless 'EnvironmentFile=/etc/%%/blanks'
    unit emptied.service EnvironmentFile=/etc/default/blanks EnvironmentFile=
    local name said
    while IFS='|' read -r name said; do
        enable --unit "$name"
        refused "$name.service: its EnvironmentFile $said"
    done <<'CASES'
glob|/etc/default/app/x.env sets LD_PRELOAD
blanks|/etc/default/blanks sets LD_PRELOAD
i@inst|/etc/default/inst sets LD_PRELOAD
n@inst|/etc/default/i@inst sets LD_PRELOAD
p|/etc/default/p sets LD_PRELOAD
unknown|/etc/%m/x cannot be told from here: it may set LD_PRELOAD
far|/etc/*/blanks cannot be told from here
CASES
    enable --unit good emptied i@other i@
    expect_status 0
    expect_whole stderr ""
}

@test "a template or a prefix is refused while a unit of it would lose what it preloads, until that is named, too" {
    local system=$R/etc/systemd/system
    unit app-plain.service
    unit app-foo.service 'Environment=LD_PRELOAD=/lib/foo.so'
    unit app-root.service RootDirectory=/srv
    unit app-many@.service
    unit w@.service
    unit app.service 'Environment=LD_PRELOAD=/lib/app.so'
    ln -s /dev/null "$system/app-masked.service"
    mkdir -p "$system"/{w@1.service.d,multi-user.target.wants,app-gone.service.d} "$R/etc/default"
    printf '[Service]\nEnvironment=LD_PRELOAD=/lib/w.so\n' | tee "$system/w@1.service.d/10-x.conf" >"$system/app-gone.service.d/x.conf"
    snapshot >"$T/before"
    enable --unit app-
    expect_status 2
    [[ $stderr == "nagleshim host: app-.service: units of it that set LD_PRELOAD or hide directories themselves"*"--unit app-"* ]]
    [[ $(grep -oE 'app-(foo|root|plain|masked|gone).service' <<<"$stderr" | sort | xargs) == 'app-foo.service app-root.service' ]]
    expect_untouched
    enable --unit app- app-foo.service
    refused "name them, too: --unit app-root.service"
    enable --unit w@
    refused "name them, too: --unit w@1.service"
    enable --unit w@ w@1 app- app-foo app-root
    expect_status 0
    [[ $(dropin app-foo.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/foo.so"' ]]
    [[ $(dropin w@1.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so:/lib/w.so"' ]]
    [[ $(dropin app-.service) == *'LD_PRELOAD=/usr/lib/libnagleshim.so"' ]]
    # Those with one of their own need not be named again.
    enable --unit app-
    expect_whole output "app-.service has it already"
    host disable --unit app-plain app-root --root "$R"
    expect_whole output "app-plain.service has it by the drop-in of app-.service, which stays
app-root.service has it by the drop-in of app-.service, which stays"
    host disable --unit app-foo app- --root "$R"
    expect_whole output "app-.service has it no more at its next start
app-foo.service has it no more at its next start"
    host disable --root "$R"
    expect_untouched
    # An instance that another unit wants, or that runs, has no file.
    unit e@.service EnvironmentFile=-/etc/default/%i
    echo LD_PRELOAD=/lib/e.so | tee "$R/etc/default/wanted" >"$R/etc/default/running"
    ln -s /usr/lib/systemd/system/e@.service "$system/multi-user.target.wants/e@wanted.service"
    snapshot >"$T/before"
    enable --unit e@
    refused "e@.service: e@wanted.service: its EnvironmentFile /etc/default/wanted sets LD_PRELOAD"
    rm "$system/multi-user.target.wants/e@wanted.service"
    mkdir -p "$R/run/systemd/units"
    ln -s 0 "$R/run/systemd/units/invocation:e@running.service"
    snapshot >"$T/before"
    enable --unit e@
    refused "e@.service: e@running.service: its EnvironmentFile /etc/default/running sets LD_PRELOAD"
    rm "$R/run/systemd/units/invocation:e@running.service"
    enable --unit e@
    expect_status 0
}
