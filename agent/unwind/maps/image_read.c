/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of the files of the cache. Runs in any thread; must never map a file.
 */
#include <string.h>

#include "agent/unwind/maps/image_cache.h"

int fgt_image_file_read_head(struct fgt_image_file *file, uint8_t *buffer,
			     size_t len)
{
	return fgt_elf_source_read(&file->source, 0, buffer, len);
}

/* The page with that number of the file, NULL if unreadable. Lock held. */
static const struct fgt_image_page *get_page(struct fgt_image_file *file,
					     uint64_t number)
{
	struct fgt_image_cache *cache = file->cache;
	uint64_t hash = (file->serial * 31 + number) * 0x9e3779b97f4a7c15ull;
	struct fgt_image_page *page = &cache->pages[hash >> 58];
	uint64_t offset = number * FGT_IMAGE_PAGE_BYTES;

	if (page->serial == file->serial && page->number == number)
		return page;
	if (offset >= file->source.len)
		return NULL;
	page->serial = 0;
	page->len = FGT_IMAGE_PAGE_BYTES;
	if (file->source.len - offset < FGT_IMAGE_PAGE_BYTES)
		page->len = (uint32_t)(file->source.len - offset);
	if (fgt_elf_source_read(&file->source, offset, page->bytes, page->len) <
	    0)
		return NULL;
	page->serial = file->serial;
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
