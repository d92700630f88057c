/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a configuration may choose for capture, delivery and symbols. Those
 * rooms include this header; the configuration includes neither of them.
 */
#ifndef FGT_AGENT_CONFIG_CHOICES_H
#define FGT_AGENT_CONFIG_CHOICES_H

/* sampling.who_ran: the source of which threads ran; procfs where BPF is
 * refused. */
enum fgt_provider {
	FGT_PROVIDER_AUTO,
	FGT_PROVIDER_BPF, /* the kernel, at each context switch */
	FGT_PROVIDER_SCHEDSTAT, /* procfs, polled */
};

/* http.token */
enum fgt_web_token {
	FGT_WEB_TOKEN_AUTO, /* made at each start */
	FGT_WEB_TOKEN_OFF,
};

/* sentry.profile: the version of the format in which profiles leave. */
enum fgt_sentry_version {
	FGT_SENTRY_V2, /* chunks, beside their transaction */
	FGT_SENTRY_V1, /* in the envelope of their transaction */
};

/* symbols.demangle */
enum fgt_demangle {
	FGT_DEMANGLE_FULL, /* with parameters */
	FGT_DEMANGLE_NAME, /* without parameters */
	FGT_DEMANGLE_NO,
};

#endif
