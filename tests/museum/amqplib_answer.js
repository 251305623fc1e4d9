// SPDX-License-Identifier: MIT
// A request to a service, which acknowledges it and answers. Usage: amqplib_answer.js PORT OPERATIONS
const {measure} = require("./rounds");

(async () => {
    const connect = async () => (await require("amqplib").connect("amqp://127.0.0.1:" + process.argv[2])).createChannel();
    const service = await connect();
    const asker = await connect();
    const {queue: questions} = await service.assertQueue("", {exclusive: true});
    const {queue: answers} = await asker.assertQueue("", {exclusive: true});
    let arrived;
    await service.consume(questions, (message) => {
        service.ack(message);
        setImmediate(() => service.sendToQueue(answers, message.content));
    });
    await asker.consume(answers, () => arrived(), {noAck: true});
    await measure(() => new Promise((resolve) => {
        arrived = resolve;
        asker.sendToQueue(questions, Buffer.from("text"));
    }));
    process.exit();
})();
