// SPDX-License-Identifier: Apache-2.0
// client.mjs FOLDER legacy|modern SERVER [ARGUMENT…]: calls an MCP server by
// the client libraries that npm installed in FOLDER. Standard input is an array
// of steps: {"op": "list"}, {"op": "ping"} or {"op": "call", "params": {…}};
// standard output an array of what the server is, then of each step's result
// or {"code", "message"}.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, era, command, ...args] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const isModern = era === "modern";
const { Client } = require(
	isModern
		? "@modelcontextprotocol/client"
		: "@modelcontextprotocol/sdk/client/index.js",
);
const { StdioClientTransport } = require(
	isModern
		? "@modelcontextprotocol/client/stdio"
		: "@modelcontextprotocol/sdk/client/stdio.js",
);
const steps = JSON.parse(readFileSync(0, "utf8"));
const client = new Client(
	{ name: "fgtrace-test", version: "1" },
	isModern ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {},
);
await client.connect(
	new StdioClientTransport({ command, args, env: process.env }),
);
const answers = [
	{
		server: client.getServerVersion(),
		capabilities: client.getServerCapabilities(),
		instructions: client.getInstructions(),
	},
];
const run = {
	list: () => client.listTools(),
	ping: () => client.ping(),
	call: (step) => client.callTool(step.params),
};
for (const step of steps) {
	try {
		answers.push(await run[step.op](step));
	} catch (error) {
		answers.push({ code: error.code, message: error.message });
	}
}
await client.close();
process.stdout.write(JSON.stringify(answers) + "\n");
