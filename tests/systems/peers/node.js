// SPDX-License-Identifier: MIT
// What Node's own modules do with connections, each piece checked byte by byte. Prints "pass NAME" or
// "fail NAME" for each. Usage: node node.js CERTIFICATE KEY
'use strict';
const net = require('net');
const http = require('http');
const https = require('https');
const http2 = require('http2');
const fs = require('fs');
const cluster = require('cluster');
const { fork } = require('child_process');
const { once } = require('events');
const assert = require('assert');

const sizes = [0, 1, 100, 1448, 1449, 20000, 65537, 1000000];
const bytes = (size) => Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * 7 + (i >> 8)) & 255));
// To the end of the stream, which may be written to afterwards.
const all = (stream) => new Promise((resolve, reject) => {
    const parts = [];
    stream.on('data', (part) => parts.push(part));
    stream.on('end', () => resolve(Buffer.concat(parts)));
    stream.on('error', reject);
});
const listening = async (server) => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server.address().port;
};

// A child that answers on a connection it was sent, or serves as a worker of a cluster.
if (process.argv[2] === 'answer') {
    process.on('message', (word, socket) => {
        socket.on('close', () => process.disconnect());
        socket.write('from ');
        socket.end(`the child: ${word}`);
    });
    return;
}
if (cluster.isWorker) {
    http.createServer((request, response) => {
        response.write('from a ');
        response.end('worker');
    }).listen(0, '127.0.0.1');
    return;
}

const [certificate, key] = process.argv.slice(2, 4).map((file) => fs.readFileSync(file));
const tests = {};

for (const nodelay of [undefined, true, false]) {
    tests[`echo of many small writes, setNoDelay ${nodelay}`] = async () => {
        const server = net.createServer((socket) => socket.pipe(socket));
        const port = await listening(server);
        const socket = net.connect(port, '127.0.0.1');
        if (nodelay !== undefined) socket.setNoDelay(nodelay);
        const data = bytes(5000);
        for (let i = 0; i < data.length; i += 25) {
            socket.write(data.subarray(i, i + 25));
            if (i % 500 === 0) await new Promise(setImmediate);
        }
        socket.end();
        assert(data.equals(await all(socket)));
        server.close();
    };
}
tests['a corked burst is one answer'] = async () => {
    const server = net.createServer((socket) => socket.pipe(socket));
    const socket = net.connect(await listening(server), '127.0.0.1');
    socket.cork();
    for (const word of ['one ', 'two ', 'three']) socket.write(word);
    socket.uncork();
    socket.end();
    assert.equal(String(await all(socket)), 'one two three');
    server.close();
};
tests['half-open: the answer comes after the end of the question'] = async () => {
    const server = net.createServer({ allowHalfOpen: true }, async (socket) => {
        const question = await all(socket);
        socket.write('answer to ');
        setTimeout(() => socket.end(question), 50);
    });
    const socket = net.connect({ port: await listening(server), host: '127.0.0.1', allowHalfOpen: true });
    socket.end('this');
    assert.equal(String(await all(socket)), 'answer to this');
    server.close();
};
tests['a reset is told'] = async () => {
    const server = net.createServer((socket) => socket.once('data', () => socket.resetAndDestroy()));
    const socket = net.connect(await listening(server), '127.0.0.1');
    socket.write('x');
    const [error] = await once(socket, 'error');
    assert.equal(error.code, 'ECONNRESET');
    server.close();
};
tests['nobody listens there'] = async () => {
    const [error] = await once(net.connect(9, '127.0.0.1'), 'error');
    assert.equal(error.code, 'ECONNREFUSED');
};
tests['a timeout of a silent peer'] = async () => {
    const server = net.createServer((socket) => socket.resume());
    const socket = net.connect(await listening(server), '127.0.0.1');
    socket.setTimeout(100);
    await once(socket, 'timeout');
    socket.end();
    socket.resume();
    await once(socket, 'close');
    server.close();
};

const mirror = async (request, response) => {
    const body = await all(request);
    response.writeHead(200, { 'x-size': body.length });
    for (let i = 0; i < body.length; i += 9999) response.write(body.subarray(i, i + 9999));
    response.end();
};
const post = (module, options, body) => new Promise((resolve, reject) => {
    const request = module.request({ host: '127.0.0.1', method: 'POST', ...options }, async (response) => {
        resolve(await all(response));
    });
    request.on('error', reject);
    if (options.headers) {
        request.flushHeaders();
        request.once('continue', () => request.end(body));
    } else {
        request.write(body.subarray(0, 10));
        request.end(body.subarray(10));
    }
});
for (const [name, module, server] of [
    ['http', http, () => http.createServer(mirror)],
    ['https', https, () => https.createServer({ cert: certificate, key }, mirror)],
]) {
    for (const keepAlive of [true, false]) {
        tests[`${name}, keepAlive ${keepAlive}: every body comes back`] = async () => {
            const listener = server();
            const port = await listening(listener);
            const agent = new module.Agent({ keepAlive, maxSockets: 2, rejectUnauthorized: false });
            for (const size of sizes) {
                const body = bytes(size);
                assert(body.equals(await post(module, { port, agent }, body)));
            }
            const many = sizes.concat(sizes).map(async (size) =>
                assert(bytes(size).equals(await post(module, { port, agent }, bytes(size)))));
            await Promise.all(many);
            const expect = { 'Expect': '100-continue', 'Transfer-Encoding': 'chunked' };
            assert(bytes(100).equals(await post(module, { port, agent, headers: expect }, bytes(100))));
            agent.destroy();
            listener.close();
        };
    }
}
tests['http2: fifty streams at once'] = async () => {
    const server = http2.createServer((request, response) => mirror(request, response));
    const session = http2.connect(`http://127.0.0.1:${await listening(server)}`);
    await Promise.all(Array.from({ length: 50 }, async (_, i) => {
        const body = bytes(sizes[i % sizes.length] % 100000);
        const stream = session.request({ ':method': 'POST' });
        stream.end(body);
        assert(body.equals(await all(stream)));
    }));
    session.close();
    server.close();
};
tests['a connection sent to a child'] = async () => {
    const child = fork(__filename, ['answer']);
    const server = net.createServer({ pauseOnConnect: true }, (socket) => child.send('hello', socket));
    const socket = net.connect(await listening(server), '127.0.0.1');
    assert.equal(String(await all(socket)), 'from the child: hello');
    server.close();
    await once(child, 'exit');
};
tests['a cluster whose workers get their connections from it'] = async () => {
    const workers = [cluster.fork(), cluster.fork()];
    const addresses = await Promise.all(workers.map(async (worker) => (await once(worker, 'listening'))[0]));
    for (let i = 0; i < 20; i++) {
        const { port } = addresses[i % 2];
        const answer = await new Promise((resolve, reject) =>
            http.get({ host: '127.0.0.1', port, agent: false }, async (r) => resolve(await all(r)))
                .on('error', reject));
        assert.equal(String(answer), 'from a worker');
    }
    await new Promise((resolve) => cluster.disconnect(resolve));
};

(async () => {
    for (const [name, test] of Object.entries(tests)) {
        const late = setTimeout(() => { console.log(`fail ${name}`); process.exit(1); }, 60000);
        try {
            await test();
            console.log(`pass ${name}`);
        } catch (error) {
            console.log(`fail ${name}`);
            console.error(error);
        }
        clearTimeout(late);
    }
    process.exit(0);
})();
