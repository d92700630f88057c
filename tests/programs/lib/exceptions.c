/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs exceptions.cc, linked or loaded as a plug-in; the unwinder that it uses
 * must be its own compiler's.
 *
 * exceptions MILLISECONDS [PLUGIN]
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zoo.h"

#ifdef ZOO_LINKED
unsigned long zoo_throw(unsigned int ms);
const char *zoo_unwinder(void);
#endif

int main(int argc, char **argv)
{
	unsigned long (*throw_for)(unsigned int) = NULL;
	const char *(*unwinder)(void) = NULL;
	bool is_harmed;

	zoo_begin();
#ifdef ZOO_LINKED
	throw_for = zoo_throw;
	unwinder = zoo_unwinder;
#else
	void *plugin = dlopen(argc > 2 ? argv[2] : "", RTLD_NOW | RTLD_LOCAL);

	if (plugin) {
		throw_for = (unsigned long (*)(unsigned int))dlsym(plugin,
								   "zoo_throw");
		unwinder = (const char *(*)(void))dlsym(plugin, "zoo_unwinder");
	}
#endif
	if (!throw_for || !unwinder)
		return 3;
	printf("# unwinder %s\n", unwinder());
	is_harmed = zoo_note("exceptions",
			     throw_for(argc > 1 ? (unsigned int)atoi(argv[1])
						: 1000)) |
		    zoo_note("unwinder", !strstr(unwinder(), "libgcc_s"));
	zoo_end();
	return is_harmed;
}
