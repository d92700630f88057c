// SPDX-License-Identifier: Apache-2.0
// Throws and catches in several threads: through frames with destructors, out
// of callbacks, rethrown, and across threads.
//
// throwers SECONDS
//
// Prints "N thrown N caught N destroyed" and exits 1 if they disagree.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<unsigned long> thrown, caught, destroyed;

struct Witness {
	~Witness() { destroyed++; }
};

[[gnu::noinline]] static void fall(unsigned depth)
{
	Witness witness;

	if (depth == 0) {
		thrown++;
		throw std::runtime_error("at the bottom");
	}
	fall(depth - 1);
}

[[gnu::noinline]] static void rethrow(unsigned depth)
{
	try {
		fall(depth);
	} catch (const std::runtime_error &error) {
		throw std::logic_error(std::string("again: ") + error.what());
	}
}

static void work(std::chrono::steady_clock::time_point end)
{
	std::function<void(unsigned)> callback = [](unsigned depth) {
		rethrow(depth);
	};

	for (unsigned i = 0; std::chrono::steady_clock::now() < end; i++) {
		try {
			callback(1 + i % 20);
		} catch (const std::logic_error &) {
			caught++;
		}
		if (i % 64 == 0) {
			auto answer = std::async(std::launch::async,
						 [] { fall(3); });

			try {
				answer.get();
			} catch (const std::exception &) {
				caught++;
			}
		}
	}
}

int main(int argc, char **argv)
{
	auto end = std::chrono::steady_clock::now() +
		   std::chrono::milliseconds(
			   (int)(1000 * (argc > 1 ? std::atof(argv[1]) : 1)));
	std::vector<std::thread> threads;

	for (int i = 0; i < 3; i++)
		threads.emplace_back(work, end);
	for (auto &thread : threads)
		thread.join();
	std::printf("%lu thrown %lu caught %lu destroyed\n", thrown.load(),
		    caught.load(), destroyed.load());
	return thrown != caught || destroyed < thrown;
}
