# SPDX-License-Identifier: MIT
# bash's /dev/tcp: a line in two writes, and a line back. Usage: dev_tcp.bash PORT OPERATIONS
exec 3<>"/dev/tcp/127.0.0.1/$1"
times=() stalls=0
for ((i = 0; i <= $2; i++)); do
    begun=${EPOCHREALTIME/./}
    printf 'message ' >&3
    printf '%06d\n' "$i" >&3
    read -r -u 3 line || exit 1
    # The first one is not counted.
    ((i == 0)) || times+=($((${EPOCHREALTIME/./} - begun)))
done
[[ $line == message* ]] || exit 1
mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -n)
for time in "${times[@]}"; do
    ((time <= 20000)) || ((++stalls))
done
echo "operations $2 median_us ${times[$2 / 2]} stalls $stalls"
