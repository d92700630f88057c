/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verb deliver of registered processes, and their crashes: orders for
 * deliveries.
 */
#ifndef FGT_AGENT_DAEMON_PROGRAMS_DELIVERY_VERB_H
#define FGT_AGENT_DAEMON_PROGRAMS_DELIVERY_VERB_H

#include "agent/daemon/programs/registration.h"

/* The calls of the service's registrations; the service is their context. */
struct fgt_registration_calls
fgt_delivery_verb_calls(struct fgt_service *service);

#endif
