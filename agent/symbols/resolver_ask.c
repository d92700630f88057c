/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the helper for the names of an image's addresses. Runs in threads that
 * make slices, with the user's lock; must not read a foreign file, which may
 * not answer.
 */
#include "agent/symbols/resolver.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/files/open_file.h"
#include "ringbuf/base/clock.h"

static void make_key(const struct fgt_ring_slice *slice,
		     const struct fgt_slice_image *image,
		     struct fgt_name_key *ret_key)
{
	memset(ret_key, 0, sizeof(*ret_key));
	ret_key->uid = slice->process.uid;
	if (image->build_id_len && image->build_id_len <= FGT_BUILD_ID_MAX) {
		ret_key->build_id_len = image->build_id_len;
		memcpy(ret_key->build_id, image->build_id, image->build_id_len);
		return;
	}
	ret_key->dev = image->dev;
	ret_key->ino = image->ino;
	ret_key->pid = (uint64_t)slice->process.pid;
	ret_key->start_time = slice->process.start_time;
	/* Without any identity: the mapping itself. */
	if (!image->ino)
		ret_key->dev = image->start;
}

int fgt_resolver_find_image(struct fgt_resolver *resolver,
			    const struct fgt_slice_image *slice_image,
			    struct fgt_name_image **ret_image)
{
	struct fgt_name_key key;

	make_key(resolver->slice, slice_image, &key);
	return fgt_name_cache_get(resolver->user->cache, &key, ret_image);
}

/* Results that the same file would have again. */
static bool is_of_file(int error)
{
	return !error || error == -EFBIG || error == -EIO || error == -EBADMSG;
}

/* Has a checksum had the most time that a call can give it, or nearly? */
static bool had_all_time(const struct fgt_resolver *resolver,
			 int64_t allowed_ms)
{
	int64_t most_ms = resolver->symbolizer->wait_max_ms;

	if (most_ms > FGT_RESOLVER_CHECKSUMS_MS)
		most_ms = FGT_RESOLVER_CHECKSUMS_MS;
	return 2 * allowed_ms > most_ms;
}

/*
 * Lets the helper compute a checksum, within the time that this call has for
 * checksums. One that was ended has no result next time either; it is asked
 * for again only if other images had left it little time.
 */
static int compute_checksum(struct fgt_resolver *resolver, int fd,
			    uint32_t *ret_crc)
{
	int64_t allowed_ms = resolver->checksums_left_ms < resolver->left_ms
				     ? resolver->checksums_left_ms
				     : resolver->left_ms;
	int64_t left_ms = allowed_ms;
	int error = fgt_helper_checksum(&resolver->user->helper, fd, &left_ms,
					&resolver->user->reply, ret_crc);

	resolver->left_ms -= allowed_ms - left_ms;
	resolver->checksums_left_ms -= allowed_ms - left_ms;
	if (!(error == -ETIME ? had_all_time(resolver, allowed_ms)
			      : is_of_file(error)))
		resolver->checksum_error = error;
	return error;
}

static int find_checksum(void *context, int fd, uint32_t *ret_crc)
{
	struct fgt_resolver *resolver = context;
	struct fgt_checksums *known = &resolver->user->checksums;
	struct fgt_checksum checksum;

	if (resolver->checksum_error)
		return resolver->checksum_error;
	if (!fgt_checksums_find(known, fd, &checksum)) {
		checksum.error = compute_checksum(resolver, fd, &checksum.crc);
		if (resolver->checksum_error)
			return resolver->checksum_error;
		fgt_checksums_add(known, fd, &checksum);
	}
	*ret_crc = checksum.crc;
	return checksum.error;
}

/*
 * Lets the helper read who a file is. One that takes long may never come, and
 * the time of the other images goes by.
 */
static int read_ident(void *context, int fd, struct fgt_elf_ident *ret_ident)
{
	struct fgt_resolver *resolver = context;
	int64_t allowed_ms = resolver->left_ms < FGT_RESOLVER_IDENT_MS
				     ? resolver->left_ms
				     : FGT_RESOLVER_IDENT_MS;
	int64_t left_ms = allowed_ms;
	int error = fgt_helper_ident(&resolver->user->helper, fd, &left_ms,
				     &resolver->user->reply, ret_ident);

	resolver->left_ms -= allowed_ms - left_ms;
	if (error == -ETIME && allowed_ms == FGT_RESOLVER_IDENT_MS)
		fgt_file_fail(resolver->root.uid);
	return error;
}

/* Puts a reply into the cache. -EBADMSG if it is not what was asked for. */
static int keep_reply(const struct fgt_memory_sink *reply,
		      struct fgt_name_image *image, const uint64_t *addresses,
		      size_t count)
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		struct fgt_names names;
		uint32_t len;
		int error;

		if (reply->len_bytes - at < sizeof(len))
			return -EBADMSG;
		memcpy(&len, reply->bytes + at, sizeof(len));
		at += sizeof(len);
		if (len > reply->len_bytes - at ||
		    fgt_names_unpack(reply->bytes + at, len, &names))
			return -EBADMSG;
		error = fgt_name_image_add(image, addresses[i],
					   reply->bytes + at, len);
		if (error)
			return error;
		at += len;
	}
	return 0;
}

/* One question; opens the image's files only if the helper needs them. */
static int ask_once(struct fgt_resolver *resolver, struct fgt_name_image *image,
		    const struct fgt_slice_image *slice_image,
		    const uint64_t *addresses, size_t count,
		    enum fgt_symbol_reason *ret_reason)
{
	struct fgt_symbolizer *symbolizer = resolver->symbolizer;
	struct fgt_image_places places = symbolizer->places;
	FGT_AUTO(fgt_image_files_close)
	struct fgt_image_files files = FGT_IMAGE_FILES_NONE;
	const struct fgt_helper_request request = {
		.image = image->number,
		.address_count = (uint32_t)count,
		.demangle = symbolizer->demangle,
		.want_dwarf = image->failures < FGT_NAME_FAILURES_DWARF,
	};
	int error;

	error = fgt_helper_ask(&resolver->user->helper, &request, addresses,
			       NULL, &resolver->left_ms,
			       &resolver->user->reply);
	if (error != -ENOENT)
		return error;
	places.checksum = find_checksum;
	/* In a program that names itself, as any other of its files. */
	places.ident = resolver->user->helper.is_local ? NULL : read_ident;
	places.file_context = resolver;
	places.left_ms = &resolver->left_ms;
	resolver->checksum_error = 0;
	*ret_reason = fgt_image_files_open(
		&places, resolver->slice, slice_image, &resolver->root, &files);
	/* Without its debug file the image would have fewer names until it is
	 * forgotten. */
	if (resolver->checksum_error)
		return resolver->checksum_error;
	if (*ret_reason != FGT_SYMBOL_FOUND)
		return -ENOENT;
	return fgt_helper_ask(&resolver->user->helper, &request, addresses,
			      &files, &resolver->left_ms,
			      &resolver->user->reply);
}

int fgt_resolver_ask(struct fgt_resolver *resolver,
		     struct fgt_name_image *image,
		     const struct fgt_slice_image *slice_image,
		     const uint64_t *addresses, size_t count,
		     enum fgt_symbol_reason *ret_reason)
{
	*ret_reason = FGT_SYMBOL_BAD_FILE;
	while (fgt_name_image_may_ask(image, fgt_clock_ns(CLOCK_MONOTONIC))) {
		int error = ask_once(resolver, image, slice_image, addresses,
				     count, ret_reason);

		if (!error)
			error = keep_reply(&resolver->user->reply, image,
					   addresses, count);
		if (!error)
			*ret_reason = FGT_SYMBOL_FOUND;
		if (error == -ENOMEM || error == -ECANCELED)
			return error;
		if (!error || error == -ENOENT)
			return 0;
		/* Neither is the file's fault: the next call asks again. */
		if (error == -EAGAIN || error == -ETIME) {
			*ret_reason = FGT_SYMBOL_NO_FILE;
			return 0;
		}
		*ret_reason = FGT_SYMBOL_BAD_FILE;
		if (error == -EPIPE || error == -ETIMEDOUT)
			fgt_name_image_fail(
				image,
				error == -EPIPE ? 1 : FGT_NAME_FAILURES_DWARF,
				fgt_clock_ns(CLOCK_MONOTONIC));
		else
			fgt_name_image_give_up(image);
	}
	return 0;
}
