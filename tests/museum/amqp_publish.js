// SPDX-License-Identifier: MIT
// Publishes a message and gets it back. Usage: amqp_publish.js PORT OPERATIONS
const connection = require("amqp").createConnection({port: process.argv[2]}, {reconnect: false});
const {measure} = require("./rounds");

connection.on("ready", () => connection.queue("museum", {exclusive: true}, (queue) => {
    let arrived;
    queue.subscribe(() => arrived());
    queue.on("basicConsumeOk", async () => {
        await measure(() => new Promise((resolve) => {
            arrived = resolve;
            connection.publish("museum", "text");
        }));
        process.exit();
    });
}));
