/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the .fgt form of a slice (ringbuf/README.md, "The .fgt format");
 * slice_decode.c reads it. Runs in any thread; must not change the slice nor
 * hold more than one buffer of output.
 */
#include "ringbuf/slice/slice_codec.h"

#include <endian.h>
#include <errno.h>
#include <msgpack.h>
#include <stdlib.h>

#include "ringbuf/base/hash.h"
#include "ringbuf/slice/processes.h"
#include "ringbuf/slice/slice_layout.h"

static int put_bytes(void *context, const char *bytes, size_t len)
{
	fgt_sink_buffer_put(context, bytes, len);
	return 0;
}

static void pack_text(msgpack_packer *packer, const char *text)
{
	msgpack_pack_str_with_body(packer, text, strlen(text));
}

static void pack_u64(msgpack_packer *packer, const char *key, uint64_t value)
{
	pack_text(packer, key);
	msgpack_pack_uint64(packer, value);
}

static void pack_member(msgpack_packer *packer, const char *key,
			const char *text)
{
	pack_text(packer, key);
	pack_text(packer, text);
}

/* The count was checked by is_encodable(). */
static void pack_array(msgpack_packer *packer, const char *key, uint32_t count,
		       unsigned int width)
{
	pack_text(packer, key);
	msgpack_pack_array(packer, (size_t)count * width);
}

static void pack_process(msgpack_packer *packer,
			 const struct fgt_process_info *process,
			 const char *ended_by)
{
	pack_text(packer, "process");
	msgpack_pack_map(packer,
			 8 + (*process->title != '\0') + (*ended_by != '\0'));
	pack_text(packer, "pid");
	msgpack_pack_int32(packer, process->pid);
	pack_u64(packer, "uid", process->uid);
	pack_u64(packer, "start_time", process->start_time);
	pack_member(packer, "name", process->name);
	pack_member(packer, "exe", process->exe);
	pack_member(packer, "host", process->host);
	pack_member(packer, "arch", process->arch);
	pack_member(packer, "os_release", process->os_release);
	if (*process->title)
		pack_member(packer, "title", process->title);
	if (*ended_by)
		pack_member(packer, "ended_by", ended_by);
}

static void pack_range(msgpack_packer *packer,
		       const struct fgt_ring_slice *slice)
{
	pack_text(packer, "range");
	msgpack_pack_array(packer, 2);
	msgpack_pack_uint64(packer, slice->requested_from_ns);
	msgpack_pack_uint64(packer, slice->requested_to_ns);
	pack_u64(packer, "period", slice->period_ns);
	pack_text(packer, "effective_hz");
	msgpack_pack_double(packer, slice->effective_hz);
	pack_text(packer, "lost");
	msgpack_pack_array(packer, 3);
	msgpack_pack_uint64(packer, slice->missed_ticks);
	msgpack_pack_uint64(packer, slice->evicted_ticks);
	msgpack_pack_uint64(packer, slice->lapped_ticks);
}

static void pack_service(msgpack_packer *packer,
			 const struct fgt_service *service)
{
	uint32_t count = fgt_service_count(service);

	if (!count)
		return;
	pack_text(packer, "service");
	msgpack_pack_map(packer, count);
	for (size_t i = 0; i < FGT_SERVICE_TEXTS; i++)
		if (*fgt_service_text_of(service, i))
			pack_member(packer, fgt_service_texts[i].key,
				    fgt_service_text_of(service, i));
}

static bool has_brief(const struct fgt_ring_slice *slice)
{
	return slice->brief_threads || slice->brief_cpu_ns;
}

static void pack_brief(msgpack_packer *packer,
		       const struct fgt_ring_slice *slice)
{
	if (!has_brief(slice))
		return;
	pack_text(packer, "brief");
	msgpack_pack_array(packer, 2);
	msgpack_pack_uint64(packer, slice->brief_threads);
	msgpack_pack_uint64(packer, slice->brief_cpu_ns);
}

static void pack_strings(msgpack_packer *packer,
			 const struct fgt_strings *strings)
{
	uint32_t count = strings->count ? strings->count - 1 : 0;

	pack_array(packer, "strings", count, 1);
	for (uint32_t i = 0; i < count; i++)
		pack_text(packer, fgt_strings_get(strings, i + 1));
}

static void pack_images(msgpack_packer *packer,
			const struct fgt_ring_slice *slice)
{
	pack_array(packer, "images", slice->image_count, 1);
	for (uint32_t i = 0; i < slice->image_count; i++) {
		const struct fgt_slice_image *image = &slice->images[i];

		msgpack_pack_map(packer, 8);
		pack_u64(packer, "path", image->path);
		pack_text(packer, "build_id");
		msgpack_pack_bin_with_body(packer, image->build_id,
					   image->build_id_len);
		pack_u64(packer, "is_deleted", image->is_deleted);
		pack_u64(packer, "bias", image->bias);
		pack_u64(packer, "start", image->start);
		pack_u64(packer, "end", image->end);
		pack_u64(packer, "dev", image->dev);
		pack_u64(packer, "ino", image->ino);
	}
}

static void pack_back(msgpack_packer *packer, uint32_t index, uint32_t target)
{
	msgpack_pack_uint32(packer,
			    target == FGT_NODE_NONE ? 0 : index - target);
}

static void pack_double(msgpack_packer *packer, const uint8_t *record,
			uint8_t offset)
{
	double value;

	memcpy(&value, record + offset, sizeof(value));
	msgpack_pack_double(packer, value);
}

static void pack_position(msgpack_packer *packer, uint32_t position,
			  struct fgt_row *row)
{
	msgpack_pack_uint32(packer, position - row->position);
	row->position = position;
}

static void pack_group(msgpack_packer *packer, uint32_t difference,
		       struct fgt_row *row)
{
	if (difference)
		row->position = 0;
	msgpack_pack_uint32(packer, difference);
}

static void pack_field(msgpack_packer *packer, const struct fgt_field *field,
		       const uint8_t *record, struct fgt_row *row)
{
	uint32_t value = fgt_load32(record, field->offset);
	uint32_t difference = value - fgt_load32(row->last, field->offset);

	switch ((enum fgt_field_kind)field->kind) {
	case FGT_FIELD_LENGTH:
		row->position += value;
		msgpack_pack_uint32(packer, value);
		break;
	case FGT_FIELD_NONE:
	case FGT_FIELD_U32:
		msgpack_pack_uint32(packer, value);
		break;
	case FGT_FIELD_U64:
		msgpack_pack_uint64(packer, fgt_load64(record, field->offset));
		break;
	case FGT_FIELD_I32:
		msgpack_pack_int32(packer, (int32_t)value);
		break;
	case FGT_FIELD_DOUBLE:
		pack_double(packer, record, field->offset);
		break;
	case FGT_FIELD_DELTA32:
		msgpack_pack_uint32(packer, difference);
		break;
	case FGT_FIELD_DELTA64:
		msgpack_pack_uint64(
			packer, fgt_load64(record, field->offset) -
					fgt_load64(row->last, field->offset));
		break;
	case FGT_FIELD_LINK:
		msgpack_pack_uint32(packer, value + 1);
		break;
	case FGT_FIELD_BACK:
		pack_back(packer, row->index, value);
		break;
	case FGT_FIELD_GROUP:
		pack_group(packer, difference, row);
		break;
	case FGT_FIELD_POSITION:
		pack_position(packer, value, row);
		break;
	}
}

static void pack_table(msgpack_packer *packer, const struct fgt_table *table,
		       const struct fgt_ring_slice *slice)
{
	uint32_t count = fgt_table_count(table, slice);
	const uint8_t *record = fgt_table_records(table, slice);
	struct fgt_row row = { 0 };

	pack_array(packer, table->key, count, table->field_count);
	for (; row.index < count; row.index++, record += table->record_bytes) {
		for (unsigned int i = 0; i < table->field_count; i++)
			pack_field(packer, &table->fields[i], record, &row);
		row.last = record;
	}
}

/* An array of msgpack has at most 2^32 - 1 elements. */
static bool is_encodable(const struct fgt_ring_slice *slice)
{
	for (size_t i = 0; i < FGT_TABLE_COUNT; i++)
		if (fgt_table_count(&fgt_slice_tables[i], slice) >
		    UINT32_MAX / FGT_FIELDS_MAX)
			return false;
	return true;
}

static bool is_left_out(const struct fgt_table *table,
			const struct fgt_ring_slice *slice)
{
	return table->is_rare && !fgt_table_count(table, slice);
}

static uint32_t count_keys(const struct fgt_ring_slice *slice)
{
	uint32_t count = FGT_SLICE_KEY_COUNT + has_brief(slice) +
			 !!fgt_service_count(&slice->process.service) +
			 !!slice->lost_wakes;

	for (size_t i = 0; i < FGT_TABLE_COUNT; i++)
		count += fgt_slice_tables[i].is_rare &&
			 !is_left_out(&fgt_slice_tables[i], slice);
	return count;
}

/* What was written to a sink, added up. */
struct sum {
	const struct fgt_sink *target;
	uint32_t crc;
};

static int write_summed(void *context, const void *bytes, size_t len)
{
	struct sum *sum = context;

	sum->crc = fgt_crc32c(sum->crc, bytes, len);
	return fgt_sink_write(sum->target, bytes, len);
}

static int encode(const struct fgt_ring_slice *slice,
		  const struct fgt_sink *target)
{
	struct sum sum = { .target = target };
	const struct fgt_sink sink = { .write = write_summed, .context = &sum };
	struct fgt_sink_buffer buffer;
	msgpack_packer packer;
	uint32_t crc;
	int r;

	fgt_sink_buffer_init(&buffer, &sink);
	msgpack_packer_init(&packer, &buffer, put_bytes);
	fgt_sink_buffer_put(&buffer, FGT_SLICE_MAGIC, FGT_SLICE_MAGIC_LEN);
	msgpack_pack_map(&packer, count_keys(slice));
	pack_u64(&packer, "version", FGT_SLICE_VERSION);
	pack_process(&packer, &slice->process, slice->ended_by);
	pack_service(&packer, &slice->process.service);
	pack_range(&packer, slice);
	pack_brief(&packer, slice);
	if (slice->lost_wakes)
		pack_u64(&packer, "lost_wakes", slice->lost_wakes);
	pack_strings(&packer, &slice->strings);
	pack_images(&packer, slice);
	for (size_t i = 0; i < FGT_TABLE_COUNT; i++)
		if (!is_left_out(&fgt_slice_tables[i], slice))
			pack_table(&packer, &fgt_slice_tables[i], slice);
	fgt_sink_buffer_put(&buffer, FGT_SLICE_CHECKSUM,
			    FGT_SLICE_CHECKSUM_LEN);
	r = fgt_sink_buffer_flush(&buffer);
	if (r)
		return r;
	crc = htobe32(sum.crc);
	return fgt_sink_write(target, &crc, sizeof(crc));
}

int fgt_slice_encode(const struct fgt_ring_slice *slice,
		     const struct fgt_sink *sink)
{
	struct fgt_ring_slice full = *slice;
	int r;

	if (!is_encodable(slice))
		return -EOVERFLOW;
	r = fgt_run_waits_new(slice, &full.run_waits, &full.run_wait_count);
	if (r == 0)
		r = fgt_members_new(slice, &full.members, &full.member_count);
	if (r == 0)
		r = encode(&full, sink);
	free(full.run_waits);
	free(full.members);
	return r;
}
