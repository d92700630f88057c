/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of the files of the cache. Runs in any thread; must never map a file.
 */
#include <errno.h>
#include <string.h>

#include "agent/unwind/maps/image_cache.h"

int fgt_image_file_read_head(struct fgt_image_file *file, unsigned int wait_ms,
			     uint8_t buffer[FGT_IMAGE_PAGE_BYTES])
{
	uint32_t len;
	int r = fgt_image_file_read_page(file, wait_ms, 0, buffer, &len);

	return r < 0 ? r : len == FGT_IMAGE_PAGE_BYTES ? 0 : -ENODATA;
}

static struct fgt_image_page *place_of(struct fgt_image_file *file,
				       uint64_t number)
{
	uint64_t hash =
		(file->served.serial * 31 + number) * 0x9e3779b97f4a7c15ull;

	return &file->cache->pages[hash >> (64 - FGT_IMAGE_PAGES_BITS)];
}

/*
 * The page with that number of the file, NULL if unreadable. Lock held, but
 * not while the file is read, which may take for ever.
 */
static const struct fgt_image_page *get_page(struct fgt_image_file *file,
					     uint64_t number)
{
	struct fgt_image_cache *cache = file->cache;
	struct fgt_image_page *page = place_of(file, number);
	uint8_t bytes[FGT_IMAGE_PAGE_BYTES];
	uint32_t len;
	int r;

	if (page->serial == file->served.serial && page->number == number)
		return page;
	pthread_mutex_unlock(&cache->lock);
	r = fgt_image_file_read_page(file, 0, number, bytes, &len);
	if (r == -EAGAIN)
		fgt_image_file_count_late(file);
	pthread_mutex_lock(&cache->lock);
	if (r < 0)
		return NULL;
	memcpy(page->bytes, bytes, len);
	page->len = len;
	page->serial = file->served.serial;
	page->number = number;
	return page;
}

static const struct fgt_elf_load *find_load(const struct fgt_elf *elf,
					    uint64_t address)
{
	for (uint32_t i = 0; i < elf->load_count; i++)
		if (!elf->loads[i].is_writable &&
		    address >= elf->loads[i].address &&
		    address - elf->loads[i].address < elf->loads[i].file_size)
			return &elf->loads[i];
	return NULL;
}

size_t fgt_image_file_read(struct fgt_image_file *file, uint64_t address,
			   uint8_t *buffer, size_t len)
{
	const struct fgt_elf_load *load = find_load(&file->elf, address);
	size_t done = 0;

	if (!load)
		return 0;
	if (len > load->file_size - (address - load->address))
		len = load->file_size - (address - load->address);
	pthread_mutex_lock(&file->cache->lock);
	while (done < len) {
		uint64_t offset =
			load->offset + (address - load->address) + done;
		const struct fgt_image_page *page =
			get_page(file, offset / FGT_IMAGE_PAGE_BYTES);
		size_t at = offset % FGT_IMAGE_PAGE_BYTES, piece;

		if (!page || at >= page->len)
			break;
		piece = page->len - at;
		if (piece > len - done)
			piece = len - done;
		memcpy(buffer + done, page->bytes + at, piece);
		done += piece;
	}
	pthread_mutex_unlock(&file->cache->lock);
	return done;
}
