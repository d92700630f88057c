// SPDX-License-Identifier: Apache-2.0
// Names that need demangling: namespaces, templates, overloads, lambdas,
// anonymous namespaces, and a call that is inlined. Prints nothing.
#include <cstdio>
#include <string>
#include <vector>

namespace geometry
{
template <typename T> struct Point {
	T x, y;
	__attribute__((noinline, noclone)) T dot(const Point &other) const
	{
		return x * other.x + y * other.y;
	}
};

__attribute__((noinline, noclone)) double scale(double value, int times)
{
	return value * times;
}

namespace
{
__attribute__((noinline, noclone)) int secret(const std::string &text)
{
	return static_cast<int>(text.size()) * 3;
}
} // namespace

template <typename F>
inline __attribute__((always_inline)) int apply(F function, int value)
{
	return function(value) + 1;
}

__attribute__((noinline, noclone)) int uses_lambda(int value)
{
	return apply([](int v) { return std::rand() * v; }, value);
}
} // namespace geometry

int main()
{
	geometry::Point<double> point{ 1, 2 };
	int sum = geometry::secret("hello") + geometry::uses_lambda(3);

	std::printf("%d %f\n", sum,
		    point.dot(point) + geometry::scale(1.5, 2));
	return 0;
}
