// SPDX-License-Identifier: Apache-2.0
// A C++ thread pool: a queue below a mutex with a condition variable, a shared
// mutex around a table, futures. pool SECONDS
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace
{
std::mutex queue_lock;
std::condition_variable queue_filled;
std::deque<std::packaged_task<long()>> queue;
std::shared_mutex table_lock;
std::map<long, long> table;

void work()
{
	for (;;) {
		std::packaged_task<long()> task;
		{
			std::unique_lock lock(queue_lock);
			queue_filled.wait(lock, [] { return !queue.empty(); });
			task = std::move(queue.front());
			queue.pop_front();
		}
		if (!task.valid())
			return;
		task();
	}
}

long change(long job)
{
	if (job % 7 == 0) {
		std::unique_lock lock(table_lock);
		table[job % 100] += job;
		std::this_thread::sleep_for(3ms);
		return job;
	}
	std::shared_lock lock(table_lock);
	std::this_thread::sleep_for(500us);
	return table.count(job % 100);
}
} // namespace

int main(int, char **argv)
{
	auto end = std::chrono::steady_clock::now() +
		   std::chrono::seconds(std::atol(argv[1]));
	std::vector<std::thread> workers;

	for (int i = 0; i < 6; i++)
		workers.emplace_back(work);
	std::puts("ready");
	std::fflush(stdout);
	for (long job = 0; std::chrono::steady_clock::now() < end; job++) {
		std::packaged_task<long()> task([job] { return change(job); });
		std::future<long> result = task.get_future();
		{
			std::lock_guard lock(queue_lock);
			queue.push_back(std::move(task));
		}
		queue_filled.notify_one();
		if (job % 5 == 0)
			result.wait();
		std::this_thread::sleep_for(1ms);
	}
	{
		std::lock_guard lock(queue_lock);
		for (size_t i = 0; i < workers.size(); i++)
			queue.emplace_back();
	}
	queue_filled.notify_all();
	for (std::thread &worker : workers)
		worker.join();
}
