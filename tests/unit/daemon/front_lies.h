/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a front that lies answers: the first byte of a frame chooses it.
 */
#ifndef FGT_TESTS_UNIT_FRONT_LIES_H
#define FGT_TESTS_UNIT_FRONT_LIES_H

#define FRONT_LIAR ".liar" /* ends the name of its program */

enum front_lie {
	FRONT_LIES_NOT, /* but passes a descriptor, as each of them */
	FRONT_LIES_VERB, /* one that there is not */
	FRONT_LIES_SIZE, /* a byte is missing */
	FRONT_LIES_TEXT, /* without an end */
	FRONT_LIES_LATER, /* a verb of registered connections */
	FRONT_LIES_TWICE, /* a second answer to one request */
	FRONT_LIES_END, /* it is gone */
	FRONT_LIES,
};

#endif
