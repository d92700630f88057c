/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks requests that fronts have read. Runs in the daemon's loop; must
 * believe nothing of them.
 */
#include "agent/daemon/requests/request.h"

#include <string.h>

#define ERRNO_MAX 4095

#define SIZE_WITH(member)                                                      \
	(offsetof(struct fgt_request, member) +                                \
	 sizeof(((struct fgt_request *)0)->member))

size_t fgt_request_size(uint32_t verb)
{
	switch (verb) {
	case FGT_REQUEST_REFUSED:
		return SIZE_WITH(refusal);
	case FGT_REQUEST_ATTACH:
	case FGT_REQUEST_DETACH:
		return SIZE_WITH(target);
	case FGT_REQUEST_SLICE:
		return SIZE_WITH(slice);
	case FGT_REQUEST_REGISTER:
		return SIZE_WITH(registration);
	case FGT_REQUEST_DELIVER:
		return SIZE_WITH(deliver);
	case FGT_REQUEST_TRIGGERS:
		return SIZE_WITH(triggers);
	default:
		return sizeof(uint32_t);
	}
}

#define IS_TEXT(array) (memchr(array, 0, sizeof(array)) != NULL)

static bool is_truth(uint32_t value)
{
	return value <= 1;
}

static bool is_selector(const struct fgt_request_selector *selector)
{
	return selector->pid >= 0 && is_truth(selector->is_self) &&
	       IS_TEXT(selector->name) &&
	       (selector->pid != 0) + selector->is_self +
			       (selector->name[0] != '\0') <=
		       1;
}

static bool is_end(const struct fgt_request_end *end)
{
	return is_truth(end->is_given) && is_truth(end->is_wall);
}

static bool is_slice(const struct fgt_request_slice *slice)
{
	return is_selector(&slice->selector) && slice->tid >= 0 &&
	       is_truth(slice->is_moment) &&
	       !(slice->tid && slice->is_moment) && is_end(&slice->from) &&
	       is_end(&slice->to) && !(slice->last_ns && slice->from.is_given);
}

static bool is_registration(const struct fgt_request_register *registration)
{
	return is_truth(registration->is_embedded) &&
	       is_truth(registration->has_spans) &&
	       is_truth(registration->has_ring) &&
	       IS_TEXT(registration->destination) &&
	       IS_TEXT(registration->release) &&
	       IS_TEXT(registration->environment);
}

static bool is_delivery(const struct fgt_request_deliver *deliver,
			size_t frame_len)
{
	return deliver->data_at <= frame_len &&
	       deliver->data_len <= frame_len - deliver->data_at &&
	       deliver->from_ns <= deliver->to_ns &&
	       is_truth(deliver->has_times) &&
	       deliver->facts_len <= sizeof(deliver->facts) &&
	       IS_TEXT(deliver->destination) && IS_TEXT(deliver->name) &&
	       IS_TEXT(deliver->event_id);
}

static bool is_refusal(const struct fgt_request_refusal *refusal)
{
	return refusal->error < 0 && refusal->error >= -ERRNO_MAX &&
	       is_truth(refusal->is_malformed) && IS_TEXT(refusal->why.text);
}

static bool are_arguments_valid(const struct fgt_request *request,
				const struct fgt_request_frame *frame)
{
	switch (request->verb) {
	case FGT_REQUEST_REFUSED:
		return is_refusal(&request->refusal);
	case FGT_REQUEST_ATTACH:
	case FGT_REQUEST_DETACH:
		return is_selector(&request->target.selector) &&
		       is_truth(request->target.is_with_children);
	case FGT_REQUEST_SLICE:
		return is_slice(&request->slice);
	case FGT_REQUEST_REGISTER:
		return is_registration(&request->registration);
	case FGT_REQUEST_DELIVER:
		return is_delivery(&request->deliver, frame->len);
	case FGT_REQUEST_TRIGGERS:
		return IS_TEXT(request->triggers.name);
	default:
		return true;
	}
}

bool fgt_request_is_valid(const struct fgt_request *request, size_t len,
			  const struct fgt_request_frame *frame)
{
	bool is_later;

	if (len < sizeof(request->verb) || request->verb >= FGT_REQUEST_VERBS ||
	    len != fgt_request_size(request->verb))
		return false;
	is_later = request->verb >= FGT_REQUEST_CONFIRM;
	return (request->verb == FGT_REQUEST_REFUSED ||
		is_later == frame->is_kept) &&
	       are_arguments_valid(request, frame);
}
