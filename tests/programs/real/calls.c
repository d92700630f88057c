/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spends its time in libc: callbacks from sorting and walking, text, numbers,
 * regular expressions, files, memory, signals. Prints "ready PID" and works
 * until it is killed.
 */
#include <dirent.h>
#include <fnmatch.h>
#include <ftw.h>
#include <glob.h>
#include <iconv.h>
#include <locale.h>
#include <regex.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static volatile unsigned int sink;
static jmp_buf back;

static int compare(const void *a, const void *b)
{
	const unsigned int *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static void sort_and_search(unsigned int seed)
{
	unsigned int numbers[200], *found;
	void *root = NULL;

	for (int i = 0; i < 200; i++)
		numbers[i] = seed = seed * 1664525u + 1013904223u;
	for (int i = 0; i < 50; i++)
		tsearch(&numbers[i], &root, compare);
	while (root)
		tdelete(*(void **)root, &root, compare);
	qsort(numbers, 200, sizeof(numbers[0]), compare);
	found = bsearch(&seed, numbers, 200, sizeof(numbers[0]), compare);
	sink += found ? *found : 0;
}

static void write_text(unsigned int seed)
{
	char text[256], *end;
	wchar_t wide[64];

	for (int i = 0; i < 20; i++) {
		snprintf(text, sizeof(text), "%.17g %-20d %s %lc %a",
			 seed / (i + 1.25), i, "word", L'x', (double)seed);
		sink += (unsigned int)strtod(text, &end);
		sink += (unsigned int)mbstowcs(wide, text, 64);
		sink += (unsigned int)sscanf(text, "%*g %d", &i);
	}
}

static int visit(const char *path, const struct stat *status, int kind,
		 struct FTW *where)
{
	(void)status;
	(void)kind;
	(void)where;
	sink += (unsigned int)strlen(path);
	return 0;
}

static void look_at_files(void)
{
	glob_t found;

	nftw("/etc/alternatives", visit, 8, FTW_PHYS);
	if (glob("/usr/lib/*/lib[a-c]*.so*", 0, NULL, &found) == 0)
		globfree(&found);
	sink += (unsigned int)fnmatch("*[a-z]?x*", "some words with x", 0);
}

static void match(void)
{
	char in[] = "gr\xc3\xbc\xc3\x9f Gott, 2026-11-21 12:00", out[256];
	char *from = in, *to = out;
	size_t in_left = sizeof(in), out_left = sizeof(out);
	iconv_t converter = iconv_open("UTF-16", "UTF-8");
	regmatch_t matches[4];
	struct tm tm;
	regex_t regex;

	if (regcomp(&regex, "([0-9]+)-([0-9]+)|(a|b)*c", REG_EXTENDED) == 0) {
		sink += (unsigned int)regexec(&regex, in, 4, matches, 0);
		regfree(&regex);
	}
	if (converter != (iconv_t)-1) {
		sink += (unsigned int)iconv(converter, &from, &in_left, &to,
					    &out_left);
		iconv_close(converter);
	}
	memset(&tm, 0, sizeof(tm));
	strptime("2026-11-21 12:00:00", "%Y-%m-%d %H:%M:%S", &tm);
	sink += (unsigned int)mktime(&tm);
}

static void handle(int number)
{
	(void)number;
	sort_and_search(sink);
}

static void jump(int depth)
{
	if (!depth)
		longjmp(back, 1);
	jump(depth - 1);
	sink++;
}

int main(void)
{
	setlocale(LC_ALL, "");
	signal(SIGUSR1, handle);
	printf("ready %d\n", getpid());
	fflush(stdout);
	for (unsigned int seed = 1;; seed++) {
		sort_and_search(seed);
		write_text(seed);
		match();
		raise(SIGUSR1);
		if (setjmp(back) == 0)
			jump(20);
		if (seed % 16 == 0)
			look_at_files();
	}
}
