// SPDX-License-Identifier: MIT
// A query with a parameter, whose messages are written separately. Usage: deno_query.cjs PORT OPERATIONS
const {measure} = require("./rounds");
const {Client} = require(process.env.NODE_PATH + "/pg");

(async () => {
    const client = new Client({host: "127.0.0.1", port: Number(process.argv[2]), user: "museum", database: "postgres"});
    await client.connect();
    await measure(() => client.query("SELECT $1::int", [1]));
    await client.end();
})();
