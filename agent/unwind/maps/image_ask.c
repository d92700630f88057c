/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the unwinder asks of a file of the cache: answered from its rules, or by
 * the server that reads it. Runs in the sampler's thread; must hold no lock
 * while a server is waited for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/unwind/maps/image_cache.h"

/* Functions that a server was asked for, direct mapped by file and address. */
struct fgt_image_known {
	uint64_t serial, address; /* serial 0: empty */
	struct fgt_image_function function;
	int error; /* there is none */
};

int fgt_image_cache_set_server(struct fgt_image_cache *cache,
			       const struct fgt_image_server *server,
			       void *context)
{
	cache->known = calloc(FGT_IMAGE_KNOWN, sizeof(*cache->known));
	if (!cache->known)
		return -ENOMEM;
	cache->server = server;
	cache->server_context = context;
	return 0;
}

bool fgt_image_cache_is_served(const struct fgt_image_cache *cache)
{
	return cache->server != NULL;
}

int fgt_image_cache_get_service(struct fgt_image_cache *cache,
				struct fgt_image_served *payload,
				struct fgt_service *ret_service)
{
	return cache->server->get_service(cache->server_context, payload,
					  ret_service);
}

void fgt_image_cache_forget_service(struct fgt_image_cache *cache,
				    const struct fgt_image_served *payload)
{
	cache->server->forget(cache->server_context, payload);
}

const uint64_t *fgt_image_cache_late(const struct fgt_image_cache *cache)
{
	return &cache->late;
}

static int count_late(struct fgt_image_file *file, int r)
{
	if (r == -EAGAIN)
		file->cache->late++;
	return r;
}

static struct fgt_image_known *known_of(struct fgt_image_file *file,
					uint64_t address)
{
	uint64_t hash =
		(file->served.serial << 32 ^ address) * 0x9e3779b97f4a7c15ull;

	return &file->cache->known[hash >> (64 - FGT_IMAGE_KNOWN_BITS)];
}

static int ask_row(struct fgt_image_file *file, uint64_t address,
		   struct fgt_cfi_row *ret_row,
		   struct fgt_image_function *ret_function)
{
	struct fgt_image_cache *cache = file->cache;
	struct fgt_image_known *known = known_of(file, address);
	struct fgt_image_function function = { 0 };
	struct fgt_cfi_row row = { 0 };
	int r = cache->server->get_row(cache->server_context, &file->served,
				       address, &row, &function);

	if (count_late(file, r) == -EAGAIN)
		return r;
	*known = (struct fgt_image_known){ .serial = file->served.serial,
					   .address = address,
					   .function = function,
					   .error = r };
	if (r < 0)
		return r;
	*ret_row = row;
	*ret_function = function;
	return 0;
}

int fgt_image_file_find_row(struct fgt_image_file *file, uint64_t address,
			    struct fgt_cfi_row *ret_row)
{
	struct fgt_image_function function;
	int r;

	if (!file->cache->server)
		return -ENOSYS;
	*ret_row = (struct fgt_cfi_row){ .flags = FGT_CFI_ROW_NONE };
	r = ask_row(file, address, ret_row, &function);
	if (r == 0 || r == -ENOENT)
		return 0;
	ret_row->flags = r == -EAGAIN ? FGT_CFI_ROW_ROOT : FGT_CFI_ROW_COMPLEX;
	return r == -EAGAIN || r == -EIO ? r : 0;
}

/* has_saved: count the registers, too. */
static int find_local(struct fgt_image_file *file, uint64_t address,
		      bool has_saved, struct fgt_image_function *ret_function)
{
	struct fgt_cfi_rule rule;
	int r = fgt_image_cfi_find(file, address, &rule);

	if (r < 0)
		return r;
	ret_function->start = rule.start;
	ret_function->end = rule.end;
	ret_function->is_signal_frame = rule.is_signal_frame;
	ret_function->saved = has_saved ? fgt_cfi_rule_count_saved(&rule) : 0;
	return 0;
}

int fgt_image_file_find_function(struct fgt_image_file *file, uint64_t address,
				 bool has_saved,
				 struct fgt_image_function *ret_function)
{
	const struct fgt_image_known *known;
	struct fgt_cfi_row row;

	if (!file->cache->server)
		return find_local(file, address, has_saved, ret_function);
	known = known_of(file, address);
	if (known->serial != file->served.serial || known->address != address)
		return ask_row(file, address, &row, ret_function);
	if (known->error < 0)
		return known->error;
	*ret_function = known->function;
	return 0;
}

int fgt_image_file_find_rule(struct fgt_image_file *file, uint64_t address,
			     struct fgt_cfi_rule *ret_rule)
{
	struct fgt_image_cache *cache = file->cache;

	if (!cache->server)
		return fgt_image_cfi_find(file, address, ret_rule);
	return count_late(file, cache->server->get_rule(cache->server_context,
							&file->served, address,
							ret_rule));
}

void fgt_image_file_count_late(struct fgt_image_file *file)
{
	file->cache->late++;
}

int fgt_image_file_read_page(struct fgt_image_file *file, unsigned int wait_ms,
			     uint64_t number, uint8_t *bytes, uint32_t *ret_len)
{
	struct fgt_image_cache *cache = file->cache;
	uint64_t offset = number * FGT_IMAGE_PAGE_BYTES;
	uint64_t len = FGT_IMAGE_PAGE_BYTES;
	int r;

	if (offset >= file->source.len)
		return -ENODATA;
	if (cache->server)
		return cache->server->get_page(cache->server_context,
					       &file->served, wait_ms, number,
					       bytes, ret_len);
	if (file->source.len - offset < len)
		len = file->source.len - offset;
	r = fgt_elf_source_read(&file->source, offset, bytes, len);
	if (r == 0)
		*ret_len = (uint32_t)len;
	return r;
}
