/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that a test steps through one instruction at a time: first calls
 * through the PLT (lazy binding), vDSO, callbacks, realigned and variable
 * frames, tail calls, recursion. Prints "ready" and waits for a byte.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline, noclone)) static int leaf(int value)
{
	return value * 3 + 1;
}

__attribute__((noinline, noclone)) static int tail(int value)
{
	return leaf(value + 1);
}

__attribute__((noinline, noclone)) static int recurse(int depth)
{
	return depth ? recurse(depth - 1) + tail(depth) : leaf(depth);
}

/* Its stack pointer is aligned by hand, its CFA an expression. */
__attribute__((noinline, noclone)) static int realigned(int value)
{
	char buffer[128] __attribute__((aligned(64)));

	memset(buffer, value, sizeof(buffer));
	__asm__ volatile("" : : "r"(buffer) : "memory");
	return leaf(buffer[5]) + recurse(2);
}

__attribute__((noinline, noclone)) static int variable(size_t len)
{
	char *bytes = __builtin_alloca(len);

	memset(bytes, 1, len);
	__asm__ volatile("" : : "r"(bytes) : "memory");
	return leaf(bytes[len / 2]);
}

/* Arguments on the stack move SP between prologue and call. */
__attribute__((noinline, noclone)) static int
many(int a, int b, int c, int d, int e, int f, int g, int h, int i)
{
	return leaf(a + b + c + d + e + f + g + h + i);
}

static int compare(const void *a, const void *b)
{
	return leaf(*(const int *)a) - leaf(*(const int *)b);
}

__attribute__((noinline, noclone)) static int sort(void)
{
	int numbers[] = { 5, 3, 9, 1, 7, 2, 8 };

	qsort(numbers, sizeof(numbers) / sizeof(numbers[0]), sizeof(numbers[0]),
	      compare);
	return numbers[0];
}

__attribute__((noinline, noclone)) static int clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int)now.tv_nsec;
}

__attribute__((noinline, noclone)) static void round_trip(int i)
{
	char text[64];

	sink += recurse(i % 5);
	sink += realigned(i);
	sink += variable(100 + (size_t)i);
	sink += many(i, 2, 3, 4, 5, 6, 7, 8, 9);
	sink += sort();
	sink += clock_now();
	sink += (int)strtol("1234", NULL, 10);
	sink += snprintf(text, sizeof(text), "%d %s", i, "text");
	sink += (int)(100 * sin(i));
}

int main(void)
{
	char byte;

	printf("ready\n");
	fflush(stdout);
	if (read(STDIN_FILENO, &byte, 1) != 1)
		return 1;
	for (int i = 0; i < 1000000; i++)
		round_trip(i);
	return sink == 42;
}
