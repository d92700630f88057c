/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variable that leads to a thread's OpenTelemetry context (OTEP 4947), as a
 * library or a program exports it.
 */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED __thread void *otel_thread_ctx_v1;

EXPORTED void set_context(void *record)
{
	__asm__ volatile("" ::: "memory");
	*(void *volatile *)&otel_thread_ctx_v1 = record;
	__asm__ volatile("" ::: "memory");
}
