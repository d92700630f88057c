// SPDX-License-Identifier: Apache-2.0
// viewer_perfetto.mjs ENGINE_DIR FILE…: loads traces with Perfetto's own trace
// processor, the WebAssembly that its page runs, and prints one JSON line each,
// as viewer_speedscope.mjs does: {file, importedAs, warnings,
// profiles: [{name, process, pid, tid, unit, total, stacks}], shown: {arrows:
// [[from tid, to tid]], marks: [[tid, name]], counters: [[name, value]],
// labels: [[span, key, value]]}}, one profile a thread. A warning is what Perfetto itself counted as an error or lost data,
// a slice without an end and a slice of no thread. Used by test_viewers.sh.
import { openTrace, printEach } from './perfetto_engine.mjs';

const [folder, ...files] = process.argv.slice(2);

// What Perfetto noticed by itself, and what its page would show wrongly.
const COMPLAINTS = `
  SELECT name || ': ' || value AS text FROM stats
    WHERE severity IN ('error', 'data_loss') AND value > 0
  UNION ALL SELECT name || ' at ' || ts || ' ns never ends' FROM slice
    WHERE dur < 0
  UNION ALL SELECT name || ' at ' || ts || ' ns is on no thread' FROM slice
    WHERE track_id NOT IN (SELECT id FROM thread_track)`;
const THREADS = `
  SELECT utid, tid, pid, thread.name AS name, process.name AS process
    FROM thread JOIN process USING (upid) WHERE tid != 0 ORDER BY tid`;
// Parents have smaller ids than their children.
const SLICES = `
  SELECT s.id AS id, s.parent_id AS parent_id, s.name AS name, s.dur AS dur,
    t.utid AS utid FROM slice s JOIN thread_track t ON s.track_id = t.id
    ORDER BY s.id`;

// What the program recorded of itself. Instants are slices that last 0 ns; Perfetto
// flattens args.
const SHOWN = {
  arrows: `SELECT tf.tid AS a, tt.tid AS b FROM flow
    JOIN slice sf ON slice_out = sf.id JOIN slice st ON slice_in = st.id
    JOIN thread_track f ON sf.track_id = f.id JOIN thread tf ON tf.utid = f.utid
    JOIN thread_track t ON st.track_id = t.id JOIN thread tt ON tt.utid = t.utid
    ORDER BY a, b`,
  marks: `SELECT tid AS a, s.name AS b FROM slice s
    JOIN thread_track t ON s.track_id = t.id JOIN thread USING (utid)
    WHERE s.dur = 0 AND s.arg_set_id IS NULL ORDER BY a, b`,
  // Perfetto puts the series' name behind the counter's.
  counters: `SELECT replace(t.name, ' value', '') AS a, c.value AS b
    FROM counter c JOIN counter_track t ON c.track_id = t.id ORDER BY a, b`,
  labels: `SELECT DISTINCT s.name AS a,
    replace(replace(key, 'args.labels.', ''), 'debug.labels.', '') AS b,
    string_value AS c FROM slice s JOIN args USING (arg_set_id)
    WHERE key LIKE '%labels.%' ORDER BY a, b, c`,
};

// Every slice gives its time to its own stack and takes it from its parent's.
function addSlices(profiles, slices) {
  const keys = new Map();
  for (const { id, parent_id: parent, utid, name, dur } of slices) {
    const profile = profiles.get(utid);
    const above = keys.get(parent);
    const key = above === undefined ? name : `${above};${name}`;
    keys.set(id, key);
    profile.stacks[key] = (profile.stacks[key] || 0) + dur / 1000;
    if (above === undefined)
      profile.total += dur / 1000;
    else
      profile.stacks[above] -= dur / 1000;
  }
}

async function load(file) {
  const engine = await openTrace(folder, file);
  const profiles = new Map();
  for (const { utid, ...thread } of await engine.rows(THREADS))
    profiles.set(utid, { ...thread, unit: 'microseconds', total: 0,
      stacks: {} });
  addSlices(profiles, await engine.rows(SLICES));
  const shown = {};
  for (const [kind, sql] of Object.entries(SHOWN))
    shown[kind] = (await engine.rows(sql)).map((row) => Object.values(row));
  const [type] = await engine.rows(
    "SELECT str_value AS text FROM metadata WHERE name = 'trace_type'");
  return {
    // Perfetto's word for the Trace Event Format is json.
    importedAs: type.text === 'json' ? 'Trace Event Format' : type.text,
    warnings: (await engine.rows(COMPLAINTS)).map(({ text }) => text),
    profiles: [...profiles.values()],
    shown,
  };
}

printEach(files, load);
