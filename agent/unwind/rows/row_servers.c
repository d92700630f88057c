/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What row servers answer, checked, for a cache of images. Runs in the
 * sampler's thread and in those that attach targets and tend the cache; must
 * believe no number of a server.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/unwind/arch/arch.h"
#include "agent/unwind/maps/image_server.h"
#include "agent/unwind/rows/row_users.h"
#include "agent/unwind/rows/rows.h"
#include "ringbuf/base/thread.h"

#define IDLE_NS	    UINT64_C(60000000000) /* without files: stopped */
#define RULES_BYTES ((uint64_t)256 << 20)

/* ---- Answers, checked ------------------------------------------------------ */

static int take_elf(const uint8_t *bytes, size_t len, struct fgt_elf *ret_elf)
{
	struct fgt_elf elf = { .machine = fgt_arch_host.elf_machine };
	struct fgt_rows_elf sent;

	if (len != sizeof(sent))
		return -EBADMSG;
	memcpy(&sent, bytes, sizeof(sent));
	if (!sent.load_count || sent.load_count > FGT_ELF_LOADS_MAX ||
	    sent.build_id_len > FGT_BUILD_ID_MAX ||
	    sent.tls_kind >= FGT_ELF_TLS_KINDS)
		return -EBADMSG;
	elf.load_count = sent.load_count;
	for (uint32_t i = 0; i < sent.load_count; i++) {
		/* As fgt_elf_parse(): no sum of them wraps round. */
		if (sent.loads[i].file_size > ~sent.loads[i].address ||
		    sent.loads[i].file_size > ~sent.loads[i].offset)
			return -EBADMSG;
		elf.loads[i] = (struct fgt_elf_load){
			.address = sent.loads[i].address,
			.offset = sent.loads[i].offset,
			.file_size = sent.loads[i].file_size,
			.is_executable = sent.loads[i].is_executable != 0,
			.is_writable = sent.loads[i].is_writable != 0,
		};
	}
	elf.build_id_len = sent.build_id_len;
	memcpy(elf.build_id, sent.build_id, sent.build_id_len);
	elf.build_id_address = sent.build_id_address;
	elf.thread_context = (struct fgt_elf_tls){
		.kind = (enum fgt_elf_tls_kind)sent.tls_kind,
		.word = sent.tls_word,
		.offset = sent.tls_offset,
	};
	*ret_elf = elf;
	return 0;
}

static int get_elf(void *context, struct fgt_image_served *file,
		   unsigned int wait_ms, struct fgt_elf *ret_elf)
{
	struct fgt_row_servers *servers = context;
	const uint8_t *bytes;
	struct fgt_row_user *user;
	size_t len;
	int r = fgt_row_users_ask(servers, file, FGT_ROWS_ELF, 0, wait_ms,
				  &user, &bytes, &len);

	if (r < 0)
		return r;
	r = take_elf(bytes, len, ret_elf);
	file->is_counted = r == 0;
	fgt_row_users_end(servers, user, r == 0);
	return r;
}

static int get_page(void *context, struct fgt_image_served *file,
		    unsigned int wait_ms, uint64_t number, uint8_t *page,
		    uint32_t *ret_len)
{
	struct fgt_row_servers *servers = context;
	const uint8_t *bytes;
	struct fgt_row_user *user;
	size_t len;
	int r = fgt_row_users_ask(servers, file, FGT_ROWS_PAGE, number, wait_ms,
				  &user, &bytes, &len);

	if (r < 0)
		return r;
	if (len > FGT_IMAGE_PAGE_BYTES)
		r = -EIO;
	else
		memcpy(page, bytes, len);
	*ret_len = (uint32_t)len;
	fgt_row_users_end(servers, user, false);
	return r;
}

static int take_row(const uint8_t *bytes, size_t len, uint64_t address,
		    struct fgt_cfi_row *ret_row,
		    struct fgt_image_function *ret_function)
{
	const uint8_t flags = 2u * FGT_CFI_ROW_SIGNAL - 1;
	struct fgt_rows_row sent;

	if (len != sizeof(sent))
		return -EBADMSG;
	memcpy(&sent, bytes, sizeof(sent));
	if (address < sent.start || address >= sent.end ||
	    (sent.row.flags & ~flags) || sent.saved > 64)
		return -EBADMSG;
	*ret_row = sent.row;
	*ret_function = (struct fgt_image_function){
		.start = sent.start,
		.end = sent.end,
		.saved = sent.saved,
		.is_signal_frame = sent.is_signal_frame != 0,
	};
	return 0;
}

static int get_row(void *context, struct fgt_image_served *file,
		   uint64_t address, struct fgt_cfi_row *ret_row,
		   struct fgt_image_function *ret_function)
{
	struct fgt_row_servers *servers = context;
	const uint8_t *bytes;
	struct fgt_row_user *user;
	size_t len;
	int r = fgt_row_users_ask(servers, file, FGT_ROWS_ROW, address, 0,
				  &user, &bytes, &len);

	if (r < 0)
		return r;
	r = take_row(bytes, len, address, ret_row, ret_function);
	fgt_row_users_end(servers, user, false);
	return r;
}

/* The instructions are checked where they are used: fgt_cfi_record_write(). */
static int take_rule(struct fgt_row_servers *servers, const uint8_t *bytes,
		     size_t len, uint64_t address,
		     struct fgt_cfi_rule *ret_rule)
{
	struct fgt_rows_rule sent;

	if (len < sizeof(sent))
		return -EBADMSG;
	memcpy(&sent, bytes, sizeof(sent));
	len -= sizeof(sent);
	if (address < sent.start || address >= sent.end ||
	    len > sizeof(servers->rule) || sent.common_len > len ||
	    sent.instructions_len != len - sent.common_len)
		return -EBADMSG;
	memcpy(servers->rule, bytes + sizeof(sent), len);
	*ret_rule = (struct fgt_cfi_rule){
		.start = sent.start,
		.end = sent.end,
		.code_align = sent.code_align,
		.data_align = sent.data_align,
		.return_column = sent.return_column,
		.is_signal_frame = sent.is_signal_frame != 0,
		.common = servers->rule,
		.common_len = sent.common_len,
		.instructions = servers->rule + sent.common_len,
		.instructions_len = sent.instructions_len,
	};
	return 0;
}

static int get_rule(void *context, struct fgt_image_served *file,
		    uint64_t address, struct fgt_cfi_rule *ret_rule)
{
	struct fgt_row_servers *servers = context;
	const uint8_t *bytes;
	struct fgt_row_user *user;
	size_t len;
	int r = fgt_row_users_ask(servers, file, FGT_ROWS_RULE, address, 0,
				  &user, &bytes, &len);

	if (r < 0)
		return r;
	r = take_rule(servers, bytes, len, address, ret_rule);
	fgt_row_users_end(servers, user, false);
	return r;
}

static int take_service(const uint8_t *bytes, size_t len,
			struct fgt_service *ret_service)
{
	struct fgt_service sent;

	if (len != sizeof(sent))
		return -EBADMSG;
	memcpy(&sent, bytes, sizeof(sent));
	memset(ret_service, 0, sizeof(*ret_service));
	for (size_t i = 0; i < FGT_SERVICE_PUBLISHED; i++) {
		const char *text = fgt_service_text_of(&sent, i);

		fgt_service_set(ret_service, i, text,
				strnlen(text, FGT_SERVICE_TEXT_MAX));
	}
	return 0;
}

static int get_service(void *context, struct fgt_image_served *file,
		       struct fgt_service *ret_service)
{
	struct fgt_row_servers *servers = context;
	const uint8_t *bytes;
	struct fgt_row_user *user;
	size_t len;
	int r = fgt_row_users_ask(servers, file, FGT_ROWS_SERVICE, 0, 0, &user,
				  &bytes, &len);

	if (r < 0)
		return r;
	r = take_service(bytes, len, ret_service);
	fgt_row_users_end(servers, user, false);
	return r;
}

/* ---- The cache's other calls ------------------------------------------------ */

static struct fgt_row_user *find_user(struct fgt_row_servers *servers,
				      uint64_t number)
{
	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++)
		if (servers->users[i].is_used &&
		    servers->users[i].user == number)
			return &servers->users[i];
	return NULL;
}

/* A server that is asked just now keeps the file until it needs the room. */
static void forget(void *context, const struct fgt_image_served *file)
{
	const struct fgt_rows_request request = { .verb = FGT_ROWS_FORGET,
						  .image = file->serial };
	struct fgt_row_servers *servers = context;
	struct fgt_row_user *user;

	pthread_mutex_lock(&servers->lock);
	user = find_user(servers, file->user);
	if (user && file->opened_by) {
		user->files -= file->is_counted && user->files;
		if (pthread_mutex_trylock(&user->lock) == 0) {
			fgt_row_server_post(&user->server, &request);
			pthread_mutex_unlock(&user->lock);
		}
	}
	pthread_mutex_unlock(&servers->lock);
}

static void tend(void *context, uint64_t now_ns)
{
	struct fgt_row_servers *servers = context;
	/* Of no image: a server that is not asked learns what it may keep. */
	struct fgt_rows_request request = { .verb = FGT_ROWS_FORGET };

	pthread_mutex_lock(&servers->lock);
	request.rules_max = fgt_row_users_share(servers);
	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++) {
		struct fgt_row_user *user = &servers->users[i];

		if (!user->is_used || pthread_mutex_trylock(&user->lock) != 0)
			continue;
		fgt_row_server_tend(&user->server, now_ns);
		if (user->sent_max != request.rules_max) {
			fgt_row_server_post(&user->server, &request);
			user->sent_max = request.rules_max;
		}
		if (!user->callers && !user->files &&
		    now_ns > user->used_ns + IDLE_NS) {
			fgt_row_server_stop(&user->server);
			user->is_used = false;
			user->counts = (struct fgt_rows_counts){ 0 };
		}
		pthread_mutex_unlock(&user->lock);
	}
	pthread_mutex_unlock(&servers->lock);
}

static void count(void *context, struct fgt_image_cache_counters *counters)
{
	struct fgt_row_servers *servers = context;

	pthread_mutex_lock(&servers->lock);
	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++) {
		const struct fgt_row_user *user = &servers->users[i];

		counters->cfi_bytes += user->counts.cfi_bytes;
		counters->given_back += user->counts.given_back;
		counters->refused_cfi += user->counts.refused;
	}
	pthread_mutex_unlock(&servers->lock);
}

static void limit_rules(void *context, uint64_t bytes)
{
	struct fgt_row_servers *servers = context;

	pthread_mutex_lock(&servers->lock);
	servers->rules_max = bytes < RULES_BYTES ? bytes : RULES_BYTES;
	pthread_mutex_unlock(&servers->lock);
}

/* The starter's thread. */
static void *start_servers(void *context)
{
	struct fgt_row_servers *servers = context;

	for (;;) {
		while (sem_wait(&servers->wanted) < 0)
			;
		/* Relaxed: the semaphore orders it. */
		if (atomic_load_explicit(&servers->is_ending,
					 memory_order_relaxed))
			return NULL;
		fgt_row_users_start(servers);
	}
}

static void end_starter(struct fgt_row_servers *servers)
{
	atomic_store_explicit(&servers->is_ending, true, memory_order_relaxed);
	sem_post(&servers->wanted);
	pthread_join(servers->starter, NULL);
}

static void destroy(struct fgt_row_servers *servers)
{
	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++) {
		fgt_row_server_done(&servers->users[i].server);
		pthread_mutex_destroy(&servers->users[i].lock);
	}
	pthread_mutex_destroy(&servers->lock);
	sem_destroy(&servers->wanted);
	free(servers);
}

static void free_servers(void *context)
{
	end_starter(context);
	destroy(context);
}

int fgt_rows_serve_cache(struct fgt_image_cache *cache, const char *path)
{
	static const struct fgt_image_server server = {
		.get_elf = get_elf,
		.get_page = get_page,
		.get_row = get_row,
		.get_rule = get_rule,
		.get_service = get_service,
		.forget = forget,
		.tend = tend,
		.count = count,
		.limit_rules = limit_rules,
		.free = free_servers,
	};
	struct fgt_row_servers *servers = calloc(1, sizeof(*servers));
	int r = 0;

	if (!servers)
		return -ENOMEM;
	servers->rules_max = RULES_BYTES;
	pthread_mutex_init(&servers->lock, NULL);
	sem_init(&servers->wanted, 0, 0);
	for (size_t i = 0; i < FGT_ROW_USERS_MAX; i++) {
		pthread_mutex_init(&servers->users[i].lock, NULL);
		if (r == 0)
			r = fgt_row_server_init(&servers->users[i].server,
						path);
		else
			servers->users[i].server.fd =
				servers->users[i].server.pid_fd = -1;
	}
	if (r == 0)
		r = fgt_thread_start(0, start_servers, servers,
				     &servers->starter);
	if (r < 0) {
		destroy(servers);
		return r;
	}
	r = fgt_image_cache_set_server(cache, &server, servers);
	if (r < 0)
		free_servers(servers);
	return r;
}
