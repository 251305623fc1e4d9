# SPDX-License-Identifier: MIT
# Promise: The image is reproducible, and has a bill of materials.

load ../../helpers/command
BATS_TEST_TIMEOUT=300

setup_file() {
    config/image/build "$BATS_FILE_TMPDIR/image" >/dev/null
    mkdir "$BATS_FILE_TMPDIR/oci"
    tar -xf "$BATS_FILE_TMPDIR"/image/nagleshim-*.oci.tar -C "$BATS_FILE_TMPDIR/oci"
}

setup() {
    ns_setup
    IMAGE=$BATS_FILE_TMPDIR/image
    BLOBS=$BATS_FILE_TMPDIR/oci/blobs/sha256
}

# blob DIGEST: prints its file.
blob() {
    echo "$BLOBS/${1#sha256:}"
}

# manifest_of MACHINE: prints the manifest of the image for it.
manifest_of() {
    blob "$(jq -r --arg machine "$1" '.manifests[] | select(.platform.architecture == $machine).digest' \
        "$(blob "$(<"$IMAGE/digest")")")"
}

@test "the same sources give the same image in another directory, with another umask, time zone and language" {
    mkdir "$T/elsewhere"
    git ls-files | tar -cT - | tar -xC "$T/elsewhere"
    mkdir "$T/elsewhere/.deps"
    cp -R .deps/cjson-* "$T/elsewhere/.deps/"
    (
        cd "$T/elsewhere"
        umask 077
        TZ=Asia/Tokyo LC_ALL=C.UTF-8 MAKEFLAGS=-j2 config/image/build out
    )
    diff -r "$IMAGE" "$T/elsewhere/out"
    # Another file gives another digest.
    sed -i 's/cannot /could not /' "$T/elsewhere/shim/image/copy.c"
    (cd "$T/elsewhere" && config/image/build other >/dev/null)
    run diff "$IMAGE/digest" "$T/elsewhere/other/digest"
    expect_status 1
}

@test "its index has amd64 and arm64, each with programs for that machine" {
    [[ $(jq -c '[.manifests[].platform | .os + "/" + .architecture]' "$(blob "$(<"$IMAGE/digest")")") == '["linux/amd64","linux/arm64"]' ]]
    for machine in amd64:x86-64 arm64:aarch64; do
        mkdir "$T/${machine%:*}"
        tar -xzf "$(blob "$(jq -r '.layers[0].digest' "$(manifest_of "${machine%:*}")")")" -C "$T/${machine%:*}"
        for program in copy nagleshim; do
            [[ $(file -b "$T/${machine%:*}/$program") == *"${machine#*:}"*'statically linked'* ]]
        done
        [[ $(file -b "$T/${machine%:*}/libnagleshim.so") == *"${machine#*:}"*'shared object'* ||
            $(file -b "$T/${machine%:*}/libnagleshim.so") == *'shared object'*"${machine#*:}"* ]]
        [[ $(ls -A "$T/${machine%:*}") == $'copy\nld.so.preload\nlibnagleshim.so\nnagleshim' ]]
        [[ $(<"$T/${machine%:*}/ld.so.preload") == /opt/nagleshim/libnagleshim.so ]]
    done
    # The program for arm64 works like the one for amd64.
    command -v qemu-aarch64 >/dev/null || cannot_here 'there is no qemu-aarch64'
    mkdir "$T/to"
    qemu-aarch64 "$T/arm64/copy" "$T/to" "$T/arm64/libnagleshim.so"
    cmp "$T/arm64/libnagleshim.so" "$T/to/libnagleshim.so"
    [[ $(qemu-aarch64 "$T/arm64/nagleshim" version) == "nagleshim "* ]]
    run --separate-stderr qemu-aarch64 "$T/arm64/copy" "$T/none" "$T/arm64/copy"
    expect 1 stderr is "nagleshim: cannot write into $T/none: it is not there"
}

@test "MACHINES adds a machine of 32 bits to the index" {
    MACHINES='amd64 armhf' config/image/build "$T/image" >/dev/null
    IMAGE=$T/image BLOBS=$T/oci/blobs/sha256
    mkdir "$T/oci" "$T/arm"
    tar -xf "$IMAGE"/nagleshim-*.oci.tar -C "$T/oci"
    [[ $(jq -c '[.manifests[].platform | [.architecture, .variant]]' "$(blob "$(<"$IMAGE/digest")")") == '[["amd64",null],["arm","v7"]]' ]]
    tar -xzf "$(blob "$(jq -r '.layers[0].digest' "$(manifest_of arm)")")" -C "$T/arm"
    for program in copy nagleshim libnagleshim.so; do
        [[ $(file -b "$T/arm/$program") == 'ELF 32-bit LSB '*' ARM, '* ]]
    done
}

@test "it has one layer, a numeric user other than root, and labels with version and licence" {
    for machine in amd64 arm64; do
        manifest=$(manifest_of "$machine")
        jq -e '.layers | length == 1' "$manifest"
        jq -e --arg version "$(sed -n 's/^VERSION := //p' Makefile)" --arg machine "$machine" '
            .architecture == $machine and .config.User == "65532:65532" and .created == "1970-01-01T00:00:00Z"
            and .config.Labels."org.opencontainers.image.version" == $version
            and .config.Labels."org.opencontainers.image.licenses" == "MIT"
            and .config.Labels."org.opencontainers.image.title" == "nagleshim"
            and .config.Entrypoint == ["/copy", "/opt/nagleshim", "/libnagleshim.so", "/ld.so.preload"]' \
            "$(blob "$(jq -r .config.digest "$manifest")")"
    done
}

@test "the bill of materials names the image by its digest, and cJSON" {
    jq -e --arg digest "$(<"$IMAGE/digest")" '.spdxVersion == "SPDX-2.3"
        and ("sha256:" + .packages[0].checksums[0].checksumValue) == $digest
        and (.packages[1] | .name == "cJSON" and (.versionInfo | test("^[0-9]+[.][0-9]+[.][0-9]+$")))' \
        "$IMAGE"/nagleshim-*.spdx.json
}

@test "if tools are missing, or for an unknown machine, it prints one line and writes nothing" {
    run --separate-stderr env MACHINES='amd64 mips' config/image/build "$T/out"
    expect 1 stderr is 'image: there is no image for mips, only for amd64 arm64 armhf i386 ppc64el riscv64 s390x'
    mkdir "$T/bin"
    ln -s "$(command -v bash)" "$(command -v dirname)" "$(command -v sed)" "$T/bin/"
    run --separate-stderr env PATH="$T/bin" config/image/build "$T/out"
    expect 1 stderr is "image: buildah is not installed: 'tests/deps image' gets it"
    [[ ! -e $T/out ]]
}
