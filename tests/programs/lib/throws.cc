// SPDX-License-Identifier: Apache-2.0
//
// A C++17 program that throws and catches all the time, from several frames
// deep, while the library records it.
// throws MODE SOCKET SECONDS → "thrown N caught N destroyed N slice R ticks N"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fgtrace.h>

static std::atomic<unsigned long> thrown, caught, destroyed;
static std::atomic<bool> shall_end;

struct Witness {
	std::string text = "seen by the unwinder, and longer than a word";
	~Witness()
	{
		destroyed += !text.empty();
	}
};

__attribute__((noinline)) static void throw_below(int depth)
{
	Witness witness;

	if (depth == 0) {
		thrown++;
		throw std::runtime_error(witness.text);
	}
	throw_below(depth - 1);
}

static void throw_and_catch()
{
	while (!shall_end) {
		try {
			throw_below(10);
		} catch (const std::exception &error) {
			caught += std::strlen(error.what()) > 10;
		}
	}
}

int main(int argc, char **argv)
{
	fgt_options options = {};
	fgt_slice *slice = nullptr;
	fgt_slice_info info = {};
	std::vector<std::thread> threads;

	if (argc != 4)
		return 2;
	options.size = sizeof(options);
	options.mode = std::string(argv[1]) == "agent" ? FGT_AGENT
						       : FGT_EMBEDDED;
	options.socket = argv[2];
	options.hz = 1000;
	if (int r = fgt_start(&options); r != 0) {
		std::printf("start %d\n", r);
		return 1;
	}
	for (int i = 0; i < 2; i++)
		threads.emplace_back(throw_and_catch);
	std::this_thread::sleep_for(
		std::chrono::milliseconds(int(std::atof(argv[3]) * 1000)));
	int r = fgt_get_slice(0, fgt_now(), &slice);
	shall_end = true;
	for (std::thread &thread : threads)
		thread.join();
	info.size = sizeof(info);
	if (r == 0)
		fgt_slice_get_info(slice, &info);
	fgt_slice_free(slice);
	fgt_stop();
	std::printf("thrown %lu caught %lu destroyed %lu slice %d ticks %lu\n",
		    thrown.load(), caught.load(), destroyed.load(), r,
		    static_cast<unsigned long>(info.ticks));
	return 0;
}
