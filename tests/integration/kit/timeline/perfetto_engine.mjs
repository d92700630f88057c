// SPDX-License-Identifier: Apache-2.0
// Perfetto's own trace processor, the WebAssembly that its page runs, without a
// page: openTrace(ENGINE_DIR, FILE) has read the file and answers rows(SQL).
// Used by viewer_perfetto.mjs and viewer_pftrace.mjs.
import fs from 'node:fs';
import path from 'node:path';
import url from 'node:url';
import vm from 'node:vm';

let folder = '';
const read = (name) => fs.readFileSync(path.join(folder, name));

class Request {
  open(_, name) { this.name = path.basename(name); }
  send() { this.response = read(this.name); }
}

// The worker's script as a function of what a worker finds around itself. It
// asks for the WebAssembly at once and waits for it.
function startWorker() {
  const worker = vm.compileFunction(read('engine_bundle.node.js').toString(),
    ['self', 'WorkerGlobalScope', 'XMLHttpRequest', 'console'],
    { filename: 'engine_bundle.node.js' });
  const self = { location: { href: 'file:///' } };
  const silent = { log() {}, warn() {}, error() {} };
  worker(self, class {}, Request, silent);
  return self;
}

// The page's end of the pipe, without a page.
const makeEngine = (EngineBase) => class extends EngineBase {
  mode = 'WASM';
  id = 'viewer';
  port = { postMessage: (bytes) => this.onRpcResponseBytes(bytes) };

  async start() {
    startWorker().onmessage({ data: this.port });
    // The worker notes in a microtask where its buffer is.
    await new Promise(setImmediate);
  }

  rpcSendRequestBytes(bytes) { this.port.onmessage({ data: bytes }); }

  async rows(sql) {
    const result = await this.query(sql);
    const columns = result.columns();
    const rows = [];
    for (const row = result.iter({}); row.valid(); row.next())
      rows.push(Object.fromEntries(columns.map((name) => {
        const value = row.get(name);
        return [name, typeof value === 'bigint' ? Number(value) : value];
      })));
    return rows;
  }
};

export async function openTrace(engineFolder, file) {
  folder = engineFolder;
  const { EngineBase } =
    await import(url.pathToFileURL(path.resolve(folder, 'engine.mjs')));
  const engine = new (makeEngine(EngineBase))();
  await engine.start();
  await engine.parse(new Uint8Array(fs.readFileSync(file)));
  await engine.notifyEof();
  return engine;
}

// One JSON line for each file. The engine's code prints to the console; only
// lines are wanted here.
export async function printEach(files, load) {
  console.warn = () => {};
  for (const file of files)
    console.log(JSON.stringify({ file, ...await load(file).catch((error) => ({
      importedAs: null, warnings: [String(error)], profiles: null })) }));
}
