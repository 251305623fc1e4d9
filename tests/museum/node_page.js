// SPDX-License-Identifier: MIT
// A page whose two parts are written in two turns of the event loop. Usage: node_page.js PORT
require("http").createServer((request, answer) => {
    answer.writeHead(200, {"Content-Length": 400});
    answer.write("x".repeat(100));
    setTimeout(() => answer.end("x".repeat(300)), 1);
}).listen(Number(process.argv[2]), "127.0.0.1");
