// SPDX-License-Identifier: Apache-2.0
// viewer_speedscope.mjs RELEASE_DIR FILE…: loads files with speedscope's own
// importer, taken out of its released bundle, and prints one JSON line each:
// {file, importedAs, warnings, profiles: [{name, unit, total, stacks}]}, where
// stacks maps "root;…;leaf" to its own weight. Used by test_viewers.sh.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [release, ...files] = process.argv.slice(2);
const bundle = fs.readdirSync(release).find((n) => /^speedscope-.*\.js$/.test(n));
let source = fs.readFileSync(path.join(release, bundle), 'utf8');

// The bundle is one closure: hand out its importer where the page would start.
const importer = /importProfileGroupFromText:\(\)=>(\w+)/.exec(source);
const space = /\$?\w+\((\w+),\{importFromFileSystemDirectoryEntry/.exec(source);
const init = space && new RegExp(`\\((\\w+)\\(\\),${space[1]}\\)`).exec(source);
const start = source.lastIndexOf('console.log(`speedscope v');
if (!importer || !init || start < 0)
  throw new Error('this release of speedscope is built in another way');
source = `${source.slice(0, start)};globalThis.importText=(n,t)=>{${init[1]}();` +
  `return ${importer[1]}(n,t)};})();`;

// Enough of a page for what runs on load; nothing is drawn.
const nothing = new Proxy(function () {}, {
  get: (_, key) => (key === Symbol.toPrimitive ? () => '' :
    key === Symbol.iterator ? function* () {} : key === 'then' ? undefined :
    nothing),
  apply: () => nothing,
  construct: () => nothing,
  set: () => true,
});
let lines = [];
const note = (kind) => (...parts) => lines.push([kind, parts.join(' ')]);
const context = vm.createContext({
  window: nothing, document: nothing, navigator: nothing, location: nothing,
  localStorage: nothing, self: nothing, requestAnimationFrame: () => 0,
  console: { log: note('log'), warn: note('warn'), error: note('warn') },
  TextDecoder, TextEncoder, URL, setTimeout, clearTimeout, performance,
});
vm.runInContext(source, context, { filename: bundle });

function summary(profile) {
  const stacks = {};
  const open = [];
  let last = 0;
  const spend = (now) => {
    if (now > last && open.length) {
      const key = open.join(';');
      stacks[key] = (stacks[key] || 0) + now - last;
    }
    last = now;
  };
  profile.forEachCall(
    (node, value) => { spend(value); open.push(node.frame.name); },
    (node, value) => { spend(value); open.pop(); });
  return { name: profile.getName(), unit: profile.getWeightUnit(),
    total: profile.getTotalWeight(), stacks };
}

for (const file of files) {
  lines = [];
  const text = fs.readFileSync(file, 'utf8');
  const group = await context.importText(path.basename(file), text);
  const log = lines.filter(([kind]) => kind === 'log').map(([, t]) => t);
  console.log(JSON.stringify({
    file, importedAs: log.find((t) => t.startsWith('Importing')) || null,
    warnings: lines.filter(([kind]) => kind === 'warn').map(([, t]) => t),
    profiles: group ? group.profiles.map(summary) : null,
  }));
}
