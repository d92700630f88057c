#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test_viewers.sh BUILD: do other people's readers accept our formats? Strict
# checkers of the published rules first, then speedscope's own importer, which
# npm brings into BUILD/viewers.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
work=$build/viewers
speedscope=1.25.0
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
	sed -E "$edit" "$file" >"$copy"
	if cmp -s "$file" "$copy"; then
		echo "not ok $name: the edit changed nothing"
		failed=1
	elif why=$(python3 "$here/$checker" "$copy" 2>&1); then
		echo "not ok $name: accepted"
		failed=1
	else
		echo "ok $name (${why##*/})"
	fi
}

ok "slices are written in every format" \
	"$build/tests/unit/format_files" "$work/files"
for file in files/*.trace.json; do
	ok "${file##*/} is a Chrome trace" \
		python3 "$here/check_chrome_trace.py" "$file"
done
for file in files/*.envelope; do
	ok "${file##*/} is a Sentry envelope" \
		python3 "$here/check_sentry_envelope.py" "$file"
done
for file in files/*.folded; do
	ok "${file##*/} is folded stacks" python3 "$here/check_folded.py" "$file"
done

trace=files/rich-root.trace.json
refused "a missing E is seen" check_chrome_trace.py $trace \
	'30{/"E"/d}'
refused "a B after its end is seen" check_chrome_trace.py $trace \
	'0,/"ph":"E"/s/"ts":100000.000/"ts":400000.000/'
refused "args on a B are seen" check_chrome_trace.py $trace \
	'0,/"ph":"B"/s/"ph":"B"/"ph":"B","args":{"a":1}/'
refused "pid 0 is seen" check_chrome_trace.py $trace '20s/"pid":4242/"pid":0/'
refused "a trailing comma is seen" check_chrome_trace.py $trace \
	's/^\],"display/,],"display/'
refused "a name that means DevTools is seen" check_chrome_trace.py $trace \
	's/"name":"loop"/"name":"Profile"/'
envelope=files/rich-root.envelope
refused "a wrong length is seen" check_sentry_envelope.py $envelope \
	's/"profile","length":([0-9]+)/"profile","length":1\1/'
refused "a second last newline is seen" check_sentry_envelope.py $envelope \
	'$s/$/\n/'
refused "a stack out of range is seen" check_sentry_envelope.py $envelope \
	's/"stack_id":1/"stack_id":7/'
refused "a numeric address is seen" check_sentry_envelope.py $envelope \
	's/"instruction_addr":"0xabcdef"/"instruction_addr":  11259375/'
refused "an image of type elf is seen" check_sentry_envelope.py $envelope \
	's/"type":"symbolic"/"type":"elf_file"/'
folded=files/rich-root.folded
refused "lines out of order are seen" check_folded.py $folded '1{h;d};$G'
refused "a line without count is seen" check_folded.py $folded '2s/ [0-9]+$//'

if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
	echo "# skipped: speedscope's importer needs npm and node"
	exit $failed
fi
if [[ ! -d node_modules/speedscope/dist/release ]] &&
	! npm install --silent --no-audit --no-fund --ignore-scripts \
		--prefix "$work" "speedscope@$speedscope" >npm.log 2>&1; then
	echo "# skipped: npm could not fetch speedscope@$speedscope:" \
		"$(tail -n 1 npm.log)"
	exit $failed
fi
# Both formats of one slice must show the same times, through its own code.
import() {
	node "$here/viewer_speedscope.mjs" node_modules/speedscope/dist/release \
		"$1.trace.json" "$1.folded" |
		python3 "$here/compare_viewer.py" "$1.folded" 10000
}
for file in files/*.folded; do
	name=${file##*/}
	ok "speedscope reads ${name%.folded} as it was written" \
		import "${file%.folded}"
done
exit $failed
