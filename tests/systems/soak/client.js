// SPDX-License-Identifier: MIT
// A client of the soak: see client.py.
'use strict';
const http = require('http');
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function request(i) {
    return new Promise((resolve) => {
        const post = i % 2 === 1;
        const want = post ? '3000' : `${i}:${'x'.repeat(i * 61 % 8000)}`;
        const call = http.request({ host: '127.0.0.1', port: 8080, agent, timeout: 20000, method: post ? 'POST' : 'GET',
            path: post ? '/order' : `/item/${i}` }, (answer) => {
            let body = '';
            answer.on('data', (part) => { body += part; });
            answer.on('end', () => resolve(answer.statusCode === 200 && body === want));
            answer.on('error', () => resolve(false));
        });
        call.on('timeout', () => call.destroy());
        call.on('error', () => resolve(false));
        call.end(post ? 'x'.repeat(3000) : undefined);
    });
}

async function turn(rate, seconds) {
    let errors = 0, slow = 0;
    const start = Date.now();
    for (let i = 0; i < rate * seconds; i++) {
        const wait = start + i * 1000 / rate - Date.now();
        if (wait > 0)
            await new Promise((resolve) => setTimeout(resolve, wait));
        const begin = Date.now();
        errors += !await request(i);
        slow += Date.now() - begin > 30;
    }
    console.log(rate * seconds, errors, slow);
}

require('readline').createInterface({ input: process.stdin }).on('line', (line) => turn(...line.split(' ').map(Number)));
