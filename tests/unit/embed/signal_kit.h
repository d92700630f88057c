/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of running stacks by signals, as tests hold it.
 */
#ifndef FGT_TESTS_UNIT_CAPTURE_SIGNAL_KIT_H
#define FGT_TESTS_UNIT_CAPTURE_SIGNAL_KIT_H

#include "agent/embed/signal/running_signal.h"
#include "ringbuf/base/owner.h"

static inline void kit_signal_close(void *signal)
{
	fgt_running_signal.close(signal);
}
FGT_DEFINE_AUTO(void *, kit_signal_close);

static inline int kit_signal_open(void **ret_signal, struct fgt_why *why)
{
	return fgt_running_signal.open(NULL, 0, ret_signal, why);
}

#endif
