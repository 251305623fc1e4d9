// SPDX-License-Identifier: MIT
// Sends messages by five writes in one tick of the event loop, as a template engine or a serialiser does.
// Usage: node talk.js PORT WARMUP COUNT
'use strict';
const net = require('net');

const [port, warmup, count] = process.argv.slice(2).map(Number);
const times = [];
let number = 0;
let begun;
let answer = '';

function send(socket) {
  if (number === warmup + count) {
    socket.end();
    return;
  }
  begun = process.hrtime.bigint();
  socket.write(`{"number": ${number}`);
  socket.write(', "symbol": "ACME"');
  socket.write(`, "price": ${1000 + (number % 9000)}`);
  socket.write(`, "size": ${100 + (number % 900)}`);
  socket.write(`, "side": "${number % 2 === 0 ? 'buy' : 'sell'}"}\n`);
}

const socket = net.connect(port, '127.0.0.1', () => send(socket));
socket.on('data', (piece) => {
  answer += piece;
  if (!answer.endsWith('\n')) return;
  if (answer !== `${number}\n`) throw new Error('another answer');
  answer = '';
  if (number >= warmup) times.push(Number(process.hrtime.bigint() - begun) / 1e3);
  number += 1;
  send(socket);
});
socket.on('close', () => {
  times.sort((a, b) => a - b);
  const mean = times.reduce((sum, us) => sum + us, 0) / Math.max(times.length, 1);
  const median = times[Math.floor(times.length / 2)] || 0;
  console.log(`messages ${count} mean_us ${mean.toFixed(1)} median_us ${median.toFixed(1)} ` +
    `stalls ${times.filter((us) => us > 20000).length}`);
});
