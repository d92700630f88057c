// SPDX-License-Identifier: Apache-2.0
/*
 * thread_pool [JOBS [auto|agent|embedded]]: a transaction whose work is done by
 * other threads, some of which fail with exceptions. Only the threads that
 * worked for it are in its profile.
 *
 *	c++ -std=c++17 thread_pool.cc $(pkg-config --cflags --libs fgtrace) \
 *		-pthread -o thread_pool
 */
#include <fgtrace.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

// Ends when its scope does, also by an exception.
class Task {
public:
	explicit Task(const char *name, uint64_t parent = 0)
	{
		fgt_task_begin(name, parent, &id_);
	}
	~Task() { fgt_task_end(id_); }
	Task(const Task &) = delete;
	Task &operator=(const Task &) = delete;
	uint64_t id() const { return id_; }

private:
	uint64_t id_ = 0;
};

class Span {
public:
	explicit Span(const char *name) { fgt_span_begin(name, 0, &id_); }
	~Span() { fgt_span_end(id_); }
	Span(const Span &) = delete;
	Span &operator=(const Span &) = delete;

private:
	uint64_t id_ = 0;
};

// A thread that lends itself to a transaction.
class Adopted {
public:
	explicit Adopted(fgt_transaction *transaction) : of_(transaction)
	{
		fgt_transaction_adopt(of_);
	}
	~Adopted() { fgt_transaction_leave(of_); }
	Adopted(const Adopted &) = delete;
	Adopted &operator=(const Adopted &) = delete;

private:
	fgt_transaction *of_;
};

class Pool {
public:
	explicit Pool(unsigned int threads)
	{
		for (unsigned int i = 0; i < threads; i++)
			threads_.emplace_back([this] { work(); });
	}

	~Pool()
	{
		{
			std::lock_guard<std::mutex> lock(mutex_);
			is_ending_ = true;
		}
		more_.notify_all();
		for (auto &thread : threads_)
			thread.join();
	}

	std::future<unsigned int> submit(std::function<unsigned int()> job)
	{
		std::packaged_task<unsigned int()> task(std::move(job));
		auto result = task.get_future();
		{
			std::lock_guard<std::mutex> lock(mutex_);
			jobs_.push_back(std::move(task));
		}
		more_.notify_one();
		return result;
	}

private:
	void work()
	{
		std::unique_lock<std::mutex> lock(mutex_);

		for (;;) {
			more_.wait(lock, [this] {
				return is_ending_ || !jobs_.empty();
			});
			if (jobs_.empty())
				return;
			auto job = std::move(jobs_.front());
			jobs_.pop_front();
			lock.unlock();
			job();
			lock.lock();
		}
	}

	std::mutex mutex_; // protects jobs_ and is_ending_
	std::condition_variable more_;
	std::deque<std::packaged_task<unsigned int()>> jobs_;
	bool is_ending_ = false;
	std::vector<std::thread> threads_;
};

bool is_prime(unsigned int number)
{
	for (unsigned int i = 2; i * i <= number; i++)
		if (number % i == 0)
			return false;
	return number > 1;
}

unsigned int count_primes(unsigned int below)
{
	Span span("count primes");
	unsigned int count = 0;

	for (unsigned int i = 0; i < below; i++)
		count += is_prime(i);
	return count;
}

unsigned int do_job(unsigned int number)
{
	unsigned int primes = count_primes(100000);

	if (number % 5 == 4)
		throw std::runtime_error("job " + std::to_string(number));
	return primes;
}

// Counts the jobs that failed.
unsigned int run_batch(unsigned int jobs, fgt_transaction *transaction)
{
	std::vector<std::future<unsigned int>> results;
	unsigned int failed = 0;
	Task batch("batch");
	Pool pool(4);

	for (unsigned int i = 0; i < jobs; i++)
		results.push_back(pool.submit([=, &batch] {
			Adopted adopted(transaction);
			Task task("job", batch.id());

			return do_job(i);
		}));
	for (auto &result : results) {
		try {
			result.get();
		} catch (const std::runtime_error &) {
			failed++;
		}
	}
	return failed;
}

int start(const char *mode)
{
	fgt_options options{};

	options.size = sizeof(options);
	options.mode = !std::strcmp(mode, "agent")      ? FGT_AGENT
		       : !std::strcmp(mode, "embedded") ? FGT_EMBEDDED
							: FGT_AUTO;
	options.threads = FGT_THREADS_ADOPTED;
	options.release = "thread_pool@1.0";
	options.log = [](void *, const char *line) {
		std::fprintf(stderr, "fgtrace: %s\n", line);
	};
	return fgt_start(&options);
}

} // namespace

int main(int argc, char **argv)
{
	unsigned int jobs = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100;
	fgt_transaction *transaction;
	fgt_status status{};
	unsigned int failed;
	int r = start(argc > 2 ? argv[2] : "auto");

	if (r < 0)
		std::fprintf(stderr, "not recorded: %s\n", std::strerror(-r));
	transaction = fgt_transaction_begin("batch", "job");
	failed = run_batch(jobs, transaction);
	fgt_transaction_finish(transaction);
	fgt_flush(5000);
	status.size = sizeof(status);
	fgt_get_status(&status);
	std::printf("%u jobs, %u failed; %llu kept, %llu delivered, %llu "
		    "misuses\n",
		    jobs, failed, (unsigned long long)status.kept,
		    (unsigned long long)status.delivered,
		    (unsigned long long)status.misuses);
	fgt_stop();
	return 0;
}
