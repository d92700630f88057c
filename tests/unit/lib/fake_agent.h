/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent for tests of the library: a socket, a thread, and one way of
 * behaving at a time, good or bad.
 */
#ifndef FGT_TESTS_FAKE_AGENT_H
#define FGT_TESTS_FAKE_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum fake_behaviour {
	FAKE_GOOD,
	FAKE_SILENT, /* reads, never answers */
	FAKE_CLOSES, /* hangs up instead of an answer */
	FAKE_REFUSES, /* -ENOSPC */
	FAKE_NEWER, /* of the next version of the protocol */
	FAKE_OLDER,
	FAKE_HZ_NAN, /* rates that are none */
	FAKE_HZ_NEGATIVE,
	FAKE_HZ_HUGE,
	FAKE_HZ_TEXT,
	/* Misbehaviour with slices only; registers well. */
	FAKE_SLICE_SILENT,
	FAKE_SLICE_BUSY,
	FAKE_SLICE_NO_DATA,
	FAKE_SLICE_UNKNOWN, /* -ESRCH: the agent was restarted */
	FAKE_SLICE_NEGATIVE, /* ticks below zero */
	FAKE_SLICE_REVERSED, /* ends before it begins */
	FAKE_SLICE_GIANT, /* claims 4 GiB */
	FAKE_SLICE_TRUNCATED, /* ends in the middle */
	FAKE_SLICE_SHORT, /* the end counts more bytes than came */
	FAKE_SLICE_NO_MAGIC,
	FAKE_SLICE_JUNK, /* the magic, and then nothing of sense */
	FAKE_SLICE_NO_VERSION,
	FAKE_SLICE_GARBAGE, /* no frames */
	FAKE_SLICE_ENDLESS, /* empty pieces without end */
	FAKE_SLICE_FLOOD, /* full pieces without end */
	FAKE_SLICE_DRIPS, /* a byte now and then */
	FAKE_SLICE_BREAKS_OFF, /* an error instead of the end */
	FAKE_SLICE_LARGE, /* good, and more than 16 MiB */
};

#define FAKE_CLIENTS 64

/* The good one: as little as a slice can be. */
#define FAKE_SLICE     "FGT1\x81\xa7version\x01"
#define FAKE_SLICE_LEN 14

struct fake_agent {
	char folder[64], path[100];
	atomic_int behaviour; /* enum fake_behaviour */
	atomic_int registers, slices, byes; /* requests that came */
	atomic_int hang_ups; /* of FAKE_CLOSES */
	atomic_int passed; /* descriptors of the last register */
	atomic_bool shall_end;
	int listen_fd;
	atomic_int clients[FAKE_CLIENTS];
	pthread_t thread;
	bool is_running;
};

/* Makes the folder; nothing listens yet. */
void fake_agent_init(struct fake_agent *agent);
void fake_agent_start(struct fake_agent *agent);
/* Leaves what a kill leaves: connections end, the socket's name stays. */
void fake_agent_kill(struct fake_agent *agent);
void fake_agent_done(struct fake_agent *agent);

#endif
