// SPDX-License-Identifier: MIT
// Times operations and prints the line that the harness reads. The first one is not counted.
exports.measure = async (operation) => {
    const count = Number(process.argv[3]);
    const times = [];
    for (let i = 0; i <= count; i++) {
        const begun = process.hrtime.bigint();
        await operation();
        times.push(Number(process.hrtime.bigint() - begun) / 1e3);
    }
    times.shift();
    times.sort((a, b) => a - b);
    console.log(`operations ${count} median_us ${times[count >> 1]} max_us ${times[count - 1]} stalls ` +
        times.filter((time) => time > 20000).length);
};
