/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where no source of running stacks is permitted.
 */
#include "agent/capture/running/running.h"

const struct fgt_running fgt_running_none = { .name = "cpu-time" };
