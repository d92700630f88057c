/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users whose files are not asked for at present. Runs in any thread with the
 * lock of the readers; a hostile user must not cost other users' targets their
 * ticks.
 */
#include <errno.h>
#include <string.h>

#include "agent/files/reader.h"

#define USERS_MAX   64u
#define SECOND_NS   UINT64_C(1000000000)
#define REFUSED_MAX 9u /* doubled so often: 512 s */
#define FORGET_NS   (600 * SECOND_NS) /* then a failure is the first one again */
/*
 * A file that takes 200 ms each time does not time out, but each of them is 20
 * ticks of all targets: the sampler waits for files of one user for a second,
 * and then for a twentieth of the time.
 */
#define ALLOWED_MAX_NS	 SECOND_NS
#define ALLOWED_PART	 20
#define ALLOWED_LEAST_NS (SECOND_NS / 5) /* what one request may take */

static struct fgt_reader_user users[USERS_MAX];

struct fgt_reader_user *fgt_reader_user_get(uint32_t uid, uint64_t now_ns)
{
	struct fgt_reader_user *oldest = users;

	for (size_t i = 0; i < USERS_MAX; i++) {
		struct fgt_reader_user *user = &users[i];

		if (user->is_used && user->uid == uid) {
			user->asked_ns = now_ns;
			return user;
		}
		if (!user->is_used ||
		    (oldest->is_used && user->asked_ns < oldest->asked_ns))
			oldest = user;
	}
	*oldest = (struct fgt_reader_user){
		.uid = uid,
		.is_used = true,
		.allowed_ns = ALLOWED_MAX_NS,
		.allowed_at_ns = now_ns,
		.asked_ns = now_ns,
	};
	return oldest;
}

static void refill(struct fgt_reader_user *user, uint64_t now_ns)
{
	user->allowed_ns += (now_ns - user->allowed_at_ns) / ALLOWED_PART;
	user->allowed_at_ns = now_ns;
	if (user->allowed_ns > ALLOWED_MAX_NS)
		user->allowed_ns = ALLOWED_MAX_NS;
}

int fgt_reader_user_may_ask(struct fgt_reader_user *user,
			    const struct fgt_open_request *request,
			    uint64_t now_ns)
{
	if (request->is_trusted)
		return 0;
	refill(user, now_ns);
	if (now_ns < user->refused_until_ns ||
	    (request->is_urgent && user->allowed_ns < ALLOWED_LEAST_NS))
		return -EBUSY;
	return 0;
}

void fgt_reader_user_spend(struct fgt_reader_user *user, uint64_t spent_ns)
{
	user->allowed_ns -= spent_ns < user->allowed_ns ? spent_ns
							: user->allowed_ns;
}

bool fgt_reader_user_fail(struct fgt_reader_user *user, uint64_t now_ns)
{
	bool is_first = !user->failures ||
			now_ns - user->failed_ns >= FORGET_NS;
	unsigned int doubled;

	user->failures = is_first ? 1 : user->failures + 1;
	user->failed_ns = now_ns;
	doubled = user->failures - 1 < REFUSED_MAX ? user->failures - 1
						   : REFUSED_MAX;
	user->refused_until_ns = now_ns + (SECOND_NS << doubled);
	return is_first;
}
