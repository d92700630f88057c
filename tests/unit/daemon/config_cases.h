/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configurations, good and bad, and the messages for the bad ones. Included by
 * test_config.c only.
 */
#ifndef FGT_TESTS_UNIT_CONFIG_CASES_H
#define FGT_TESTS_UNIT_CONFIG_CASES_H

#include <stddef.h>

struct config_case {
	const char *text;
	size_t len; /* may hold NUL bytes */
	/* What follows "t.conf:"; NULL: it is accepted. */
	const char *complaint;
};

#define GOOD(text)                                                             \
	{                                                                      \
		text, sizeof(text) - 1, NULL                                   \
	}
#define D10   "0123456789"
#define D100  D10 D10 D10 D10 D10 D10 D10 D10 D10 D10
#define D1000 D100 D100 D100 D100 D100 D100 D100 D100 D100 D100

#define BAD(text, complaint)                                                   \
	{                                                                      \
		text, sizeof(text) - 1, complaint                              \
	}
#define TRIGGER(text) "triggers=({name=\"t\";" text "});"
#define DEST(text)    "upload:{destinations=({" text "})}"

static const struct config_case CASES[] = {
	GOOD(""),
	GOOD("# nothing but a comment"),
	GOOD("// another\n/* and\n * another */\n"),
	GOOD("\xef\xbb\xbfsampling = { hz = 99; };\n"),
	GOOD("sampling = {\r\n\thz = 99;\r\n};\r\n"),
	GOOD("sampling : { hz : 1 }"),
	GOOD("sampling = { hz = 1000, max_depth = 8 }"),
	GOOD("sampling = { hz = 10L; max_depth = 1024LL; };"),
	GOOD("sampling = { hz = +7; };"),
	GOOD("sampling = { max_cpu_percent = 0; };"),
	GOOD("sampling = { max_cpu_percent = 0.1; };"),
	GOOD("sampling = { max_cpu_percent = 100; };"),
	GOOD("sampling = { include_self = TRUE; state_frames = \"no\"; };"),
	GOOD("ring = {};"),
	GOOD("targets = ();"),
	GOOD("targets = [];"),
	GOOD("targets = ( { pid = 4194304; }, { name = \"a\" \"b\"; } );"),
	GOOD("targets = ( { exe = \"/bin/a\\\"b\\\\c\\x41\"; } );"),
	GOOD("symbols = { debug_dirs = [ \"/a\", \"/b\" ]; };"),
	GOOD("symbols = { debug_dirs = ( \"/a\" ); };"),
	GOOD("symbols = { debug_dirs = []; demangle = \"name\"; };"),
	GOOD("socket = \"/tmp/@include \\\"x\\\"\";"),
	GOOD("log = { level = \"debug\"; format = \"json\"; };"),
	GOOD("upload = { release = \"äöü@1.0\"; };"),
	GOOD("http = {};"),
	GOOD(DEST("dsn_file = \"/etc/dsn\";")),
	GOOD(DEST("dsn_file = \"/etc/dsn\"; name = \"x\";")),
	GOOD(DEST("directory = \"/x\"; format = \"pprof\"; max_files = 9;")),
	GOOD(DEST("url = \"http://127.0.0.1/{pid}-{time}.folded.gz\";")),
	GOOD(DEST("url = \"https://s3/b/{host}\"; aws_keys_file = \"k\"; "
		  "aws_region = \"eu-west-1\"; format = \"fgt\";")),
	GOOD(DEST("url = \"https://p/ingest\"; headers_file = \"h\";")),
	GOOD("upload:{destinations=({url=\"http://lab/\";name=\"lab\"});"
	     "transactions=[\"lab\"];allow_http=true}"),
	GOOD("upload:{destinations=({dsn_file=\"/d\"}); allow_http=true}"),

	GOOD(TRIGGER("when: { asleep_s = 5; }; deliver = \"/d\";")),
	GOOD(TRIGGER(
		"when: { killed = true; }; deliver = [ \"/a\", \"/b\" ];")),
	GOOD(TRIGGER(
		"target = \"x\"; when: { cpu_percent = 250.5; for_s = 2; };"
		"deliver = ( \"/a\" ); min_gap_s = 1; max_per_hour = 60;")),
	GOOD(TRIGGER(
		"when: { state = \"f*\"; longer_s = 0.2; thread = \"w*\"; };"
		"deliver = \"/a\"; window_s = 20; after_s = 10;")),
	GOOD(TRIGGER("when: { signal = \"SIGUSR2\"; }; deliver = \"1\"") " " DEST(
		"dsn_file = \"/etc/dsn\";")),
	GOOD(TRIGGER("when: { file = \"/run/x\"; }") " " DEST(
		"dsn_file = \"/etc/dsn\";")),
	GOOD(TRIGGER("when: { transaction_ms = 5; transaction = \"G*\"; };"
		     "deliver = \"/a\"")),
	BAD("triggers=({when:{killed=true};deliver=\"/a\"})",
	    "1: a trigger needs `name`"),
	BAD("triggers=({name=\"a b\";when:{killed=true};deliver=\"/a\"})",
	    "1: trigger `a b`: `name` may have letters"),
	BAD(TRIGGER("deliver = \"/a\";"),
	    "1: trigger `t`: `when` needs exactly one of `cpu_percent`"),
	BAD(TRIGGER("when: { killed = true; asleep_s = 5; }; deliver = \"/a\""),
	    "`deadlock`; this one has 2"),
	BAD(TRIGGER("when: { sleep_s = 5; };"),
	    "1: unknown key `when.sleep_s`; did you mean `asleep_s`?"),
	BAD(TRIGGER("when: { asleep_s = \"5s\"; };"),
	    "1: `when.asleep_s` must be 0 or a number from 1 to 3600, not a"),
	BAD(TRIGGER("when: { signal = \"SIGHUP\"; };"),
	    "1: `when.signal` must be one of \"SIGUSR1\", \"SIGUSR2\""),
	BAD(TRIGGER("when: { state = \"futex\"; }; deliver = \"/a\""),
	    "`when.state` and `when.longer_s` go together"),
	BAD(TRIGGER("when: { killed = true; thread = \"x\"; };"),
	    "`when.thread` needs `when.state`"),
	BAD(TRIGGER("when: { file = \"x\"; }; deliver = \"/a\""),
	    "`when.file` must be the absolute path of a file"),
	BAD(TRIGGER("when: { killed = true; };"), "it needs `deliver`"),
	BAD(TRIGGER("when: { killed = true; }; deliver = \"lab\""),
	    "no destination is called `lab`; name one of"),
	BAD(TRIGGER("when: { killed = true; }; deliver = \"seny\"")
		    DEST("name = \"sent\"; dsn_file = \"/etc/dsn\";"),
	    "`seny`; did you mean `sent`?"),
	BAD(TRIGGER("when: { killed = true; }; deliver = \"/a\"; window_s = 30"),
	    "`window_s` and `after_s` are together longer than `ring.seconds`"),
	BAD(TRIGGER("target = \"a\"; pid = 5; when: { killed = true; };"),
	    "give one of `target`, `exe`"),
	BAD("triggers=({name=\"t\";when:{killed=true};deliver=\"/a\"},\n"
	    "{name=\"t\";when:{killed=true};deliver=\"/a\"})",
	    "2: trigger `t`: another trigger has this name"),
	BAD(TRIGGER("when: { killed = true; }; max_per_hour = 61;"),
	    "1: `max_per_hour` must be an integer from 1 to 60"),
	BAD("symbols = { debug_dirs = \"/a\"; };",
	    "1: `symbols.debug_dirs` must be a list"),

	GOOD("targets = ( { pid = 1; continuous = true; deliver = \"/d\"; } );"),
	GOOD("targets = ( { pid = 1; continuous = true; continuous_s = 60;"
	     "deliver = ( \"1\" ); } ); ring = { seconds = 65; };" DEST(
		     "dsn_file = \"/etc/dsn\";")),
	BAD("targets = (\n{ pid = 1; continuous = true; } );",
	    "2: continuous target: it needs `deliver`: a directory"),
	BAD("targets = ( { pid = 1; continuous = true; deliver = \"x\"; } );",
	    "1: continuous target: no destination is called `x`"),
	BAD("targets = ( { pid = 1; deliver = \"/d\"; } );",
	    "1: `deliver` of a target needs `continuous = true`"),
	BAD("targets = ( { pid = 1; continuous = true; continuous_s = 26;"
	    "deliver = \"/d\"; } );",
	    "`continuous_s` must be 5 s less than `ring.seconds` (30) at most"),
	BAD("targets = ( { pid = 1; continuous_s = 61; } );",
	    "1: `continuous_s` must be an integer from 1 to 60"),

	/* Fault K1: unknown, wrong type, out of range, twice. */
	BAD("sampling = { hzz = 1; };",
	    "1: unknown key `sampling.hzz`; did you mean `hz`?"),
	BAD("\n\nsampling = {\n  max_dept = 9;\n};",
	    "4: unknown key `sampling.max_dept`; did you mean `max_depth`?"),
	BAD("samplin = { hz = 1; };",
	    "1: unknown key `samplin`; did you mean `sampling`?"),
	BAD("hz = 5;", "1: unknown key `hz`; did you mean `sampling.hz`?"),
	BAD("ring = { hz = 5; };",
	    "1: unknown key `ring.hz`; did you mean `sampling.hz`?"),
	BAD("Sampling = { hz = 1; };",
	    "1: unknown key `Sampling`; did you mean `sampling`?"),
	BAD("targets = ( { nam = \"x\"; } );",
	    "1: unknown key `nam`; did you mean `name`?"),
	BAD(DEST("dsnfile = \"/x\";"),
	    "1: unknown key `dsnfile`; did you mean `dsn_file`?"),
	/* A hint never names a key that would be refused. */
	BAD(DEST("ur = \"https://x/\";"),
	    "1: unknown key `ur`; did you mean `url`?"),
	BAD("/* a\n b */ foo = 1;", "2: unknown key `foo`"),
	BAD("ring = { seconds = 30; seconds = 30; };", "1: duplicate"),
	BAD("ring = {};\nring = {};", "2: duplicate"),
	BAD("sampling = 5;", "1: `sampling` must be a group, { … }, not an"),
	BAD("sampling = ( 5 );", "1: `sampling` must be a group"),
	BAD("sampling = { hz = \"101\"; };",
	    "1: `sampling.hz` must be an integer from 1 to 1000, not a str"),
	BAD("sampling = { hz = true; };", "1: `sampling.hz` must be an int"),
	BAD("sampling = { hz = {}; };", "not a group"),
	BAD("sampling = { include_self = 1; };",
	    "1: `sampling.include_self` must be true or false, not an integ"),
	BAD("sampling = { include_self = \"true\"; };", "must be true or"),
	BAD("socket = 5;", "1: `socket` must be a string of 1 to 107 bytes"),
	BAD("socket = \"\";", "1: `socket` must be a string of 1 to 107"),
	BAD("socket = \"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
	    "1: `socket` must be a string of 1 to 107"),
	BAD("sampling = { hz = 0; };", "must be an integer from 1 to 1000"),
	BAD("sampling = { hz = 1001; };", "must be an integer from 1 to 1000"),
	BAD("sampling = { hz = -5; };", "must be an integer from 1 to 1000"),
	BAD("sampling = { max_depth = 7; };", "from 8 to 1024"),
	BAD("sampling = { max_cpu_percent = 0.09; };",
	    "1: `sampling.max_cpu_percent` must be 0 or a number from 0.1 to "),
	BAD("sampling = { max_cpu_percent = 100.5; };", "from 0.1 to 100"),
	BAD("sampling = { max_cpu_percent = -1.0; };", "from 0.1 to 100"),
	BAD("sampling = { max_cpu_percent = \"2\"; };", "not a string"),
	BAD("sampling = { max_cpu = 2; };", "did you mean `max_"),
	BAD("ring = { seconds = 3601; };", "from 1 to 3600"),
	BAD("ring = { memory_mb = 4097; };", "from 1 to 4096"),
	BAD("ring = { total_mb = 1048577; };", "from 0 to 1048576"),
	BAD("ring = { per_user = 513; };", "from 0 to 512"),
	BAD("sampling = { state_frames = \"top\"; };",
	    "1: `sampling.state_frames` must be one of \"auto\", \"root\", \"leaf\", "
	    "\"no\""),
	BAD("log = { level = \"loud\"; };", "1: `log.level` must be one of"),
	BAD("targets = 5;", "1: `targets` must be a list"),
	BAD("targets = ( 5 );", "1: `targets` must be a list"),
	BAD("targets = ( {} );",
	    "1: a target needs exactly one of `pid`, `name`, `exe`, `cgroup`;"),
	BAD("targets = (\n { pid = 1; name = \"x\"; } );",
	    "2: a target needs exactly one of"),
	BAD("targets = ( { pid = 0; } );", "from 1 to 4194304"),
	BAD("targets = ( { exe = \"nginx\"; } );", "must be an absolute path"),
	BAD("symbols = { debug_dirs = [ 5 ]; };",
	    "1: element 1 of `symbols.debug_dirs` must be a string of 1 to "
	    "4095 bytes, not an integer"),
	BAD("symbols = { debug_dirs = ( \"/a\",\n5 ); };",
	    "2: element 2 of `symbols.debug_dirs` must be a string"),
	BAD("symbols = { debug_dirs = [ \"/a\", \"/b\", \"\" ]; };",
	    "1: element 3 of `symbols.debug_dirs` must be a string of 1 to"),
	BAD("http={names=[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\","
	    "\"9\"]}",
	    "1: `http.names` must be a list of at most 8 strings"),
	BAD("zzzz = 1;", "1: unknown key `zzzz`; remove it, or see "
			 "fgtrace.conf(5)"),
	BAD("upload = { a_key_longer_than_each_word_that_is_compared_and_than_"
	    "all_that_is_shown = 1; };",
	    "1: unknown key `upload.a_key_longer_than_each_word_that_is_"
	    "compared_and_than_all…`; remove it, or see"),
	BAD(DEST("name = \"x\";"),
	    "1: a destination needs exactly one of `dsn_file`, `url`, "
	    "`url_file`, `directory`; this one has 0"),
	BAD(DEST("url = \"https://x/\"; dsn_file = \"/x\";"),
	    "1: a destination needs exactly one of"),
	BAD(DEST("name = \"a/b\"; directory = \"/x\";"),
	    "1: a destination is named `a/b`; use a name without / and :"),
	BAD(DEST("directory = \"x\";"), "1: `directory` must be an absolute"),
	BAD(DEST("url = \"/x\";"), "1: `url` is a path; call it `directory`"),
	BAD(DEST("url = \"ftp://x/\";"), "1: a destination is neither a URL"),
	BAD(DEST("url = \"https://x/{tme}\";"),
	    "1: URL: unknown variable {tme}; did you mean {time}?"),
	BAD(DEST("url = \"https://{host}/x\";"),
	    "1: URL: a variable stands in the host"),
	BAD(DEST("url = \"https://a:b@x/1\";"), "1: DSN: "),
	BAD(DEST("url = \"https://0123456789abcdef0123456789abcdef@x/1\";"),
	    "1: a DSN is a secret: put it into a file of mode 0640 or 0600"),
	BAD(DEST("url = \"http://example.com/{pid}\";"),
	    "1: destination `1`: URL: plain http to another machine"),
	BAD(DEST("dsn_file = \"/x\"; format = \"sentry\";"),
	    "1: `format` has no use for this destination; leave it out"),
	BAD(DEST("directory = \"/x\"; method = \"PUT\";"),
	    "1: `method` has no use for this destination; leave it out"),
	BAD(DEST("url = \"https://x/ingest\"; format = \"chrome\";"),
	    "1: kind pyroscope takes the format pprof only"),
	BAD(DEST("url = \"https://x/\"; kind = \"loki\";"),
	    "1: `kind` must be one of"),
	BAD(DEST("url = \"https://x/\"; method = \"GET\";"),
	    "1: `method` must be one of \"PUT\", \"POST\""),
	BAD(DEST("directory = \"/x\"; max_files = 0;"), "from 1 to 65536"),
	BAD(DEST("url = \"https://x/\"; shape = \"sum\";"),
	    "1: `shape` has no use for this destination"),
	BAD("upload:{destinations=({directory=\"/d\"},\n\n"
	    "{url=\"http://example.com/{pid}\"})}",
	    "3: destination `2`: URL: plain http to another machine"),
	BAD("upload:{destinations=({dsn_file=\"a\";name=\"lab\"});\n"
	    "transactions=[\"lab\", \"lap\"]}",
	    "2: element 2 of `upload.transactions`: no destination is called "
	    "'lap'; did you mean 'lab'?"),
	BAD("upload:{destinations=({dsn_file=\"a\";name=\"x\"},\n"
	    "{dsn_file=\"b\";name=\"x\"})}",
	    "2: two destinations are named `x`"),

	GOOD(DEST("url=\"https://x/\";proxy=\"SOCKS5h://127.0.0.1:1080\"")),
	GOOD(DEST("url=\"https://x/\";proxy=\"lab:3128\"")),
	BAD(DEST("url=\"https://x/\";proxy=\"ftp://lab\""),
	    "`proxy`: the scheme must be http, https,"),
	BAD(DEST("url=\"https://x/\";proxy=\"http://x y\""),
	    "`proxy`: empty, longer than"),
	BAD(DEST("url=\"https://x/\";proxy=\"lab:0\""),
	    "`proxy`: the port is not a number"),

	BAD("http = { listen = 5; };", "1: `http.listen` must be"),
	BAD("http = { listen = \"7071\"; };",
	    "1: `http.listen`: '7071' is no address to listen on"),
	BAD("http = { listen = \"example.org:80\"; };", "is no address to"),
	BAD("http = { listen = \"127.0.0.1:70000\"; };", "is no address to"),
	BAD("http = { listen = \"[::1:80\"; };", "is no address to"),
	BAD("http = {\n listen = \"0.0.0.0:7071\"; };",
	    "2: `http.listen` is no loopback address: set `http.allow_remote`"),
	BAD("http = { allow_remote = true; token = \"off\";\n"
	    "listen = \"[::]:7071\"; };",
	    "2: `http.listen` is no loopback address: it needs a token"),
	BAD("http = { token = \"secret\"; };", "`http.token` must be one of"),

	/* A relative path is made absolute when all of the file is read. */
	BAD("ring = { };\nupload = {\nspool_dir = \"" D1000 D1000 D1000 D1000
		    D10 D10 D10 D10 D10 D10 D10 D10 D10 "\"; };",
	    "3: the path in upload.spool_dir is longer than 4095 bytes; use a "
	    "shorter one"),
	BAD("upload = { spool_mb = 0; };",
	    "1: `upload.spool_mb` must be an integer from 1 to 1048576"),
	BAD("upload = { spool_files = 100001; };", "integer from 1 to 100000"),
	BAD("upload = { spool_days = 366; };", "an integer from 1 to 365"),
	BAD("upload = { spool_dir = 5; };", "1: `upload.spool_dir` must be a"),

	/* Fault K2: libconfig would open it, or end the process. */
	BAD("@include \"/etc\"", "1: @include is not supported"),
	BAD("\n  @include \"/dev/zero\"\n", "2: @include is not supported"),
	BAD("ring = {\n@include \"t.conf\"\n};", "2: @include is not"),
	BAD("/* */ @include \"x\"", "1: @include is not supported"),

	/* Fault K3: numbers that libconfig reads in another way. */
	BAD("sampling = { hz = 99999999999; };", "1: number `99999999999` is"),
	BAD("sampling = { hz = 4294967397; };", "1: number `4294967397` is"),
	BAD("sampling = { hz = 123456789012345678901234567890; };",
	    "is out of range"),
	BAD("sampling = { hz = 99999999999999999999L; };", "is out of range"),
	BAD("sampling = { hz = 4294967397L; };", "from 1 to 1000"),
	BAD("sampling = { hz = 0101; };", "1: `0101` is not a decimal number"),
	BAD("sampling = { hz = 0x65; };", "`0x65` is not a decimal number"),
	BAD("sampling = { hz = 1e2; };", "not a number with a fraction"),
	BAD("sampling = { hz = +1e2; };", "not a number with a fraction"),
	BAD("sampling = { hz = 1.5e2; };", "not a number with a fraction"),
	BAD("sampling = { hz = 101.0; };",
	    "must be an integer from 1 to 1000, not a number with a fraction"),
	BAD("sampling = { hz = .; };", "`.` is not a decimal number"),
	BAD("sampling = { hz = -; };", "`-` is not a decimal number"),
	BAD("sampling = { hz = 1LLL; };", "1: syntax error: each setting"),
	BAD("sampling = { hz = 101Hz; };", "1: syntax error: each setting"),

	/* Bytes. */
	BAD("socket = \"a\\x00b\";", "1: unsupported escape in a string"),
	BAD("socket = \"a\\xffb\";", "1: unsupported escape in a string"),
	BAD("socket = \"a\\nb\";", "1: unsupported escape in a string"),
	BAD("socket = \"a\\qb\";", "1: unsupported escape in a string"),
	BAD("socket = \"a\\x4\";", "1: unsupported escape in a string"),
	BAD("socket = \"a\0b\";", "1: control character 0x00"),
	BAD("ring = {};\n\0", "2: control character 0x00"),
	BAD("\n# comment \x1b[31m", "2: control character 0x1b"),
	BAD("ring = {};\rsampling = {};", "1: control character 0x0d"),
	BAD("socket = \"\xc3\x28\";", "1: not valid UTF-8"),
	BAD("\n\nsocket = \"\xed\xa0\x80\";", "3: not valid UTF-8"),
	BAD("socket = \"\xc0\xaf\";", "1: not valid UTF-8"),
	BAD("\xff\xfer\0i\0", "1: not valid UTF-8"),

	/* Grammar. */
	BAD("ring", "1: syntax error: each setting is `key = value;`"),
	BAD("ring = ", "1: syntax error: each setting is"),
	BAD("\n\nring = (\n{ seconds = 5; }", "3: a bracket is never closed"),
	BAD("socket = \"a\\x7fb\";", "1: unsupported escape in a string"),
	BAD("sampling = { max_cpu_percent = .; };", "`.` is not a decimal"),
	BAD("sampling = { max_cpu_percent = 1e999; };", "from 0.1 to 100"),
	BAD("ring = { seconds = 5;", "1: a bracket is never closed; add its }"),
	BAD("ring = { seconds 5 };", "1: syntax error: each setting is"),
	BAD("log = { level = info; };", "strings stand in double quotes"),
	BAD("log = { level = \"info };", "1: string is not closed on its line"),
	BAD("/* open", "1: comment is never closed"),
	BAD("ring = { seconds = 5; } }", "1: syntax error: each setting is"),
	BAD("targets = ( { pid = 1; }, );", "1: syntax error: each setting"),
	BAD("targets = ( { pid = 1; } { pid = 2; } );", "1: syntax error: "),
	BAD("symbols = { debug_dirs = [ \"a\", 5 ]; };", "holds strings only"),
	BAD("symbols = { debug_dirs = [ ( ) ]; };", "1: syntax error: "),
	BAD("= 5;", "1: syntax error: each setting is"),
	BAD("true = 5;", "1: syntax error: each setting is"),
	BAD("ring & 5;", "1: syntax error: each setting is"),
	BAD("sampling.hz = 5;", "1: syntax error: each setting is"),
	BAD("a=((((((((((1))))))))))", "1: nested deeper than 8 levels"),

	/* Fault K5: secrets. */
	BAD(DEST("dsn = \"https://0123456789abcdef0123456789abcdef@h/1\";"),
	    "1: a DSN is a secret: put it into a file"),
	BAD("upload = { dsn = \"x\"; };", "1: a DSN is a secret"),
};

/* Each group has a value that is not the default. */
static const char FULL[] =
	"sampling: { hz = 99; max_depth = 64; state_frames = \"leaf\";\n"
	"  include_self = true; }; ring: { seconds = 10;\n"
	"  memory_mb = 32; total_mb = 128; per_user = 4; };\n"
	"targets = ( { pid = 1234; }, { name = \"redis\"; children = true; },\n"
	"  { exe = \"/usr/sbin/a \\\"b\\\\\"; }, { cgroup = \"a.slice\"; } );\n"
	"triggers = ( { name = \"hot\"; deliver = \"/d\"; window_s = 5; when: {\n"
	"  cpu_percent = 90.5; }; min_gap_s = 5; } ); socket = \"/run/x.sock\";\n"
	"upload: { release = \"app@1.0\"; environment = \"lab\";\n"
	"  ca_file = \"/etc/ca\"; allow_http = true;\n"
	"  destinations = ( { name = \"s\"; dsn_file = \"/etc/dsn\"; },\n"
	"    { dsn_file = \"/etc/lab\"; },\n"
	"    { name = \"s3\"; url = \"https://s3/b/{host}/{time}.fgt\";\n"
	"      aws_keys_file = \"/etc/keys\"; aws_region = \"eu\"; },\n"
	"    { name = \"d\"; directory = \"/var/d\"; format = \"pprof\";\n"
	"      max_files = 9; max_mb = 8; } );\n"
	"  transactions = [ \"s\", \"d\" ]; };\n"
	"symbols: { demangle = \"no\"; debug_dirs = [ \"/a\", \"/b\" ]; };\n"
	"log: { level = \"debug\"; format = \"json\"; };\n";

#endif
