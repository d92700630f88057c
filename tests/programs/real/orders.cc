// SPDX-License-Identifier: Apache-2.0
// A C++ program as users write them: templates, lambdas, exceptions, threads.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace shop {

template <typename Key> class Index {
public:
	void insert(Key key)
	{
		entries_[key] += 1;
		if (entries_.size() > 20000)
			entries_.clear();
	}

private:
	std::map<Key, unsigned> entries_;
};

[[gnu::noinline]] unsigned price_order(unsigned seed)
{
	std::vector<unsigned> lines(500);

	for (auto &line : lines)
		line = seed = seed * 1664525u + 1013904223u;
	std::sort(lines.begin(), lines.end(),
		  [](unsigned a, unsigned b) { return a > b; });
	if (lines[0] % 97 == 0)
		throw std::runtime_error("no such article");
	return lines[7];
}

[[gnu::noinline]] void serve_orders(std::chrono::steady_clock::time_point end)
{
	Index<std::string> index;
	unsigned seed = 1;

	while (std::chrono::steady_clock::now() < end) {
		try {
			seed = price_order(seed);
		} catch (const std::runtime_error &) {
			seed++;
		}
		index.insert(std::to_string(seed));
	}
}

} // namespace shop

int main(int argc, char **argv)
{
	auto end = std::chrono::steady_clock::now() +
		   std::chrono::seconds(argc > 1 ? std::stoi(argv[1]) : 5);
	std::condition_variable quiet;
	std::mutex mutex;
	std::thread worker(shop::serve_orders, end);
	std::unique_lock<std::mutex> lock(mutex);

	std::printf("ready %d\n", getpid());
	std::fflush(stdout);
	quiet.wait_until(lock, end, [] { return false; });
	worker.join();
	return 0;
}
