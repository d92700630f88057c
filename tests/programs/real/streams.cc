// SPDX-License-Identifier: Apache-2.0
// Spends its time in libstdc++: streams, locales, numbers, exceptions. Prints
// "ready PID" and works until it is killed.
#include <cstdio>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <list>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

[[gnu::noinline]] static std::string write_numbers(unsigned seed)
{
	std::ostringstream out;

	for (unsigned i = 0; i < 40; i++)
		out << std::setw(12) << seed * i << ' ' << std::setprecision(9)
		    << seed / (i + 1.5) << ' ' << std::hex << i << std::dec
		    << std::put_money(seed) << '\n';
	return out.str();
}

[[gnu::noinline]] static double read_numbers(const std::string &text)
{
	std::istringstream in(text);
	std::multiset<std::string> words;
	std::string line, word;
	double sum = 0, value;

	while (std::getline(in, line)) {
		std::istringstream fields(line);

		if (fields >> value)
			sum += value;
		while (fields >> word)
			words.insert(word + line.substr(0, 3));
	}
	return sum + static_cast<double>(words.size());
}

[[gnu::noinline]] static int fail_deep(int depth)
{
	std::list<std::string> held(3, std::to_string(depth));

	if (depth == 0)
		throw std::out_of_range("the end");
	return fail_deep(depth - 1) + static_cast<int>(held.size());
}

int main()
{
	std::ofstream nowhere("/dev/null");
	unsigned seed = 1;

	std::printf("ready %d\n", getpid());
	std::fflush(stdout);
	for (;;) {
		nowhere << read_numbers(write_numbers(seed)) << std::endl;
		try {
			seed += static_cast<unsigned>(fail_deep(12));
		} catch (const std::out_of_range &) {
			seed = seed * 1664525u + 1013904223u;
		}
	}
}
