/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throws C++ exceptions as fast as it can: part of a program, and a plug-in
 * of one that is written in C.
 */
#include <chrono>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unwind.h>

namespace {

struct Guard {
	unsigned int *left;
	explicit Guard(unsigned int *counter) : left(counter) { ++*left; }
	~Guard() { --*left; }
};

__attribute__((noinline)) unsigned int zoo_burn_down(unsigned int depth,
						     unsigned int *left)
{
	Guard guard(left);

	if (depth == 0)
		throw std::runtime_error(std::string(20, 'x'));
	return zoo_burn_down(depth - 1, left) + 1;
}

__attribute__((noinline)) void pass_on(unsigned int depth, unsigned int *left)
{
	try {
		zoo_burn_down(depth, left);
	} catch (const std::logic_error &) {
		*left += 1000; /* never */
	} catch (...) {
		throw;
	}
}

/* How many exceptions did not arrive as thrown. */
unsigned long throw_until(std::chrono::steady_clock::time_point end)
{
	unsigned long wrong = 0;

	for (unsigned int turn = 0; std::chrono::steady_clock::now() < end;
	     turn++) {
		unsigned int left = 0;
		bool is_caught = false;

		try {
			pass_on(turn % 25, &left);
		} catch (const std::exception &error) {
			is_caught = std::string(error.what()) ==
				    std::string(20, 'x');
		}
		wrong += !is_caught || left != 0;
	}
	return wrong;
}

} // namespace

extern "C" unsigned long zoo_throw(unsigned int ms)
{
	auto end = std::chrono::steady_clock::now() +
		   std::chrono::milliseconds(ms);
	unsigned long wrong[2] = { 0, 0 };
	std::thread other([&] { wrong[1] = throw_until(end); });

	wrong[0] = throw_until(end);
	other.join();
	return wrong[0] + wrong[1];
}

/* The library whose function raises the exceptions thrown here. */
extern "C" const char *zoo_unwinder(void)
{
	Dl_info info;

	return dladdr(reinterpret_cast<void *>(&_Unwind_RaiseException),
		      &info) &&
			       info.dli_fname
		       ? info.dli_fname
		       : "";
}
