// SPDX-License-Identifier: MIT
// Sets a property of a window and reads it back. Usage: x11_atoms.js PORT OPERATIONS
const {measure} = require("./rounds.js");
require("x11").createClient({display: `127.0.0.1:${process.argv[2] - 6000}`}, async (error, display) => {
    const X = display.client, root = display.screen[0].root;
    const own = X.AllocID();
    X.CreateWindow(own, root, 0, 0, 10, 10);
    await measure(() => new Promise((done) => {
        X.ChangeProperty(0, own, X.atoms.WM_NAME, X.atoms.STRING, 8, "x");
        setImmediate(() => X.GetProperty(0, own, X.atoms.WM_NAME, X.atoms.STRING, 0, 100, done));
    }));
    process.exit(0);
});
