// SPDX-License-Identifier: Apache-2.0
// viewer_pftrace.mjs ENGINE_DIR FILE…: loads .pftrace files with Perfetto's own
// trace processor, and prints one JSON line each: {file, importedAs, warnings,
// threads: [[tid, name, pid, process]], slices: [[track, name, ts, dur, depth]],
// args: [[slice, key, value]], arrows: [[from slice, ts, to slice, ts]],
// instants: [[tid, ts, name]], counters: [[name, ts, value]], images: [[path,
// build id]], wall: [first ts, its wall clock in ns], samples: [[tid, ts,
// [root, …, leaf]]]}. Times are texts: JavaScript loses integers above 2^53. Used
// by test_viewers.sh.
import { openTrace, printEach } from './perfetto_engine.mjs';

const [folder, ...files] = process.argv.slice(2);

const TABLES = {
  threads: `SELECT tid, thread.name AS name, pid, process.name AS process
    FROM thread JOIN process USING (upid) WHERE tid != 0 ORDER BY tid`,
  slices: `SELECT t.name AS track, s.name AS name, cast(s.ts AS text) AS ts,
    cast(s.dur AS text) AS dur, s.depth AS depth
    FROM slice s JOIN track t ON s.track_id = t.id WHERE s.dur != 0
    ORDER BY s.ts, s.depth`,
  args: `SELECT s.name AS slice, key, string_value AS value
    FROM slice s JOIN args USING (arg_set_id) WHERE key LIKE 'debug.%'
    ORDER BY slice, key, value`,
  arrows: `SELECT a.name AS a, cast(a.ts AS text) AS ats, b.name AS b,
    cast(b.ts AS text) AS bts FROM flow
    JOIN slice a ON slice_out = a.id JOIN slice b ON slice_in = b.id
    ORDER BY b.ts, a.name, b.name`,
  instants: `SELECT tid, cast(s.ts AS text) AS ts, s.name AS name FROM slice s
    LEFT JOIN thread_track t ON s.track_id = t.id LEFT JOIN thread USING (utid)
    WHERE s.dur = 0 ORDER BY s.ts, s.name`,
  counters: `SELECT t.name AS name, cast(c.ts AS text) AS ts, c.value AS value
    FROM counter c JOIN counter_track t ON c.track_id = t.id
    WHERE t.name != 'cpu-clock' -- of perf samples
    ORDER BY t.name, c.ts`,
  images: `SELECT DISTINCT name, build_id FROM stack_profile_mapping
    WHERE name != '' ORDER BY name`,
  wall: `SELECT cast(min(ts) AS text) AS ts,
    cast(to_realtime(min(ts)) AS text) AS wall FROM slice`,
};
const WARNINGS = `SELECT name || ': ' || value AS text FROM stats
    WHERE severity IN ('error', 'data_loss') AND value > 0
  UNION ALL SELECT name || ' at ' || ts || ' ns never ends' FROM slice
    WHERE dur < 0`;
const SAMPLES = `SELECT tid, cast(ts AS text) AS ts, callsite_id
  FROM perf_sample JOIN thread USING (utid) ORDER BY tid, ts, perf_sample.id`;
const CALLSITES = `SELECT c.id AS id, c.parent_id AS parent, f.name AS name
  FROM stack_profile_callsite c JOIN stack_profile_frame f ON c.frame_id = f.id`;

async function readSamples(engine) {
  const sites = new Map();
  for (const site of await engine.rows(CALLSITES))
    sites.set(site.id, site);
  return (await engine.rows(SAMPLES)).map(({ tid, ts, callsite_id: leaf }) => {
    const stack = [];
    for (let at = sites.get(leaf); at; at = sites.get(at.parent))
      stack.unshift(at.name);
    return [tid, ts, stack];
  });
}

async function load(file) {
  const engine = await openTrace(folder, file);
  const seen = {};
  for (const [table, sql] of Object.entries(TABLES))
    seen[table] = (await engine.rows(sql)).map((row) => Object.values(row));
  const [type] = await engine.rows(
    "SELECT str_value AS text FROM metadata WHERE name = 'trace_type'");
  return {
    importedAs: type.text,
    warnings: (await engine.rows(WARNINGS)).map(({ text }) => text),
    ...seen,
    samples: await readSamples(engine),
  };
}

printEach(files, load);
