# SPDX-License-Identifier: Apache-2.0
"""ELF files with all that the daemon and its helpers read, and what a hostile
user makes of them."""
import os
import struct
import subprocess
import zlib

SOURCE = """
typedef void rest_fn(void);
struct facts { int depth; const char *name; struct facts *next; };
int inner(rest_fn *rest, const struct facts *facts)
	__asm__("_ZN5stand5innerIiEEiPFvvERKSt6vectorIT_SaIS4_EE");
__attribute__((noinline, noclone, visibility("hidden")))
int inner(rest_fn *rest, const struct facts *facts)
{
	volatile char room[100];
	struct facts next = { facts->depth - 1, facts->name, 0 };

	room[0] = (char)facts->depth;
	if (facts->depth > 0)
		return inner(rest, &next) + room[0];
	rest();
	return room[0];
}
static inline __attribute__((always_inline))
int in_between(rest_fn *rest, int depth)
{
	struct facts facts = { depth, 0, 0 };

	return inner(rest, &facts) + 1;
}
__attribute__((noinline, noclone)) int stand_here(rest_fn *rest)
{
	return in_between(rest, 3) + 1;
}
#ifdef PROGRAM
#include <unistd.h>
static void rest_a_while(void)
{
	for (;;) {
		for (volatile int i = 0; i < 20000; i++)
			;
		usleep(15000);
	}
}
int main(void)
{
	return stand_here(rest_a_while);
}
#endif
"""
BARE = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
# Flags of the compiler, and what is done with the result.
LIBRARIES = {
    "plain": ("-g",), "packed": ("-gdwarf-4", "-gz=zlib"),
    "frame": ("-g", *BARE), "long": ("-g", "-Wl,--no-eh-frame-hdr"),
    "gnu": ("-g", "-Wl,--hash-style=gnu,--build-id=sha1"),
    "linked": ("-g", "-Wl,--build-id=none"), "mini": ("-g",),
}
PROGRAMS = {"dynamic": ("-g",), "old": ("-gdwarf-4", "-no-pie"),
            "static": ("-g", "-static")}
EXTREMES = (0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
            1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 4096)
SPARSE = 1 << 30
# Where an error is most likely to matter; what has another name has 1.
WEIGHTS = {".eh_frame": 8, ".eh_frame_hdr": 6, ".debug_frame": 8,
           ".debug_info": 4, ".debug_abbrev": 4, ".debug_line": 4,
           ".symtab": 4, ".strtab": 2, ".dynsym": 2, ".gnu_debugdata": 4,
           ".note.gnu.build-id": 4, ".gnu_debuglink": 3, "head": 4,
           "programs": 6, "sections": 8, ".shstrtab": 2}


class Elf:
    """Where the parts of a seed are: name, offset, size."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        head = struct.unpack_from("<16sHHIQQQIHHHHHH", self.bytes)
        programs, sections = head[5], head[6]
        program_count, section_count, names = head[10], head[12], head[13]
        self.parts = [("head", 0, 64), ("programs", programs,
                                        56 * program_count),
                      ("sections", sections, 64 * section_count)]
        rows = [struct.unpack_from("<IIQQQQ", self.bytes, sections + 64 * i)
                for i in range(section_count)]
        for name, kind, _, address, offset, size in rows:
            at = rows[names][4] + name
            text = self.bytes[at:self.bytes.index(b"\0", at)].decode()
            if text == ".text":
                self.text = (offset, offset + size, address)
            elif size and kind != 8:  # SHT_NOBITS
                self.parts.append((text, offset, size))

    def part(self, name):
        return next(((at, size) for text, at, size in self.parts
                     if text == name), None)


def make(folder, name, flags):
    """A seed; the symbols of "linked" are in its debug file."""
    source, path = os.path.join(folder, "seed.c"), os.path.join(folder, name)
    with open(source, "w") as file:
        file.write(SOURCE)

    def run(*command):
        subprocess.run(command, check=True, cwd=folder,
                       stderr=subprocess.DEVNULL)
    run("cc", "-O2", "-fomit-frame-pointer", "-fno-stack-protector", *flags,
        "-o", path, source)
    if name == "linked":
        run("objcopy", "--only-keep-debug", path, "0000.debug")
        run("strip", "--strip-all", path)
        run("objcopy", "--add-gnu-debuglink=0000.debug", path)
    if name == "mini":
        run("strip", "--strip-debug", "-o", "mini.debug", path)
        run("xz", "-kf", "mini.debug")
        run("strip", "--strip-all", path)
        run("objcopy", "--add-section", ".gnu_debugdata=mini.debug.xz", path)
    return Elf(path)


def offset_of_function(path):
    """Of stand_here, in the file."""
    text = subprocess.run(["nm", "-D", path], capture_output=True, text=True,
                          check=True).stdout
    address = next(int(line.split()[0], 16) for line in text.splitlines()
                   if line.endswith(" stand_here"))
    begin, _, first = Elf(path).text
    return address - first + begin


def change(random, data, at):
    """Some bytes there."""
    how = random.randrange(6)
    if how <= 1:
        data[at] ^= 1 << random.randrange(8)
    elif how == 2:
        data[at] = random.choice((0, 1, 0x7f, 0x80, 0xff))
    elif how == 5:
        other = random.randrange(len(data))
        size = random.choice((4, 16, 64))
        data[at:at + size] = (data[other:other + size] + bytes(size))[:size]
    else:
        form, size = random.choice((("<I", 4), ("<Q", 8), ("<H", 2)))
        value = random.choice(EXTREMES) & ((1 << 8 * size) - 1)
        data[at:at + size] = struct.pack(form, value)


def mutate(random, elf, is_code_kept):
    """Bytes of a mutated file. is_code_kept: its .text, which is run."""
    data = bytearray(elf.bytes)
    weights = [WEIGHTS.get(name, 1) for name, _, _ in elf.parts]
    for _ in range(random.choice((1, 1, 2, 3, 5, 10, 30))):
        _, at, size = random.choices(elf.parts, weights)[0]
        change(random, data, min(len(data) - 1, at + random.randrange(size)))
    begin, end, _ = elf.text
    if is_code_kept:
        data[begin:end] = elf.bytes[begin:end]
    del data[len(elf.bytes):]
    if random.random() < 0.05:
        del data[random.randrange(end, len(data)):]
    return data


def write(random, path, data):
    with open(path, "wb") as file:
        file.write(data)
    if random.random() < 0.02:
        os.truncate(path, SPARSE)
    os.chmod(path, 0o755)


def write_linked(random, path, elf, debug):
    """Both may be mutated; the link names the debug file that there is."""
    data = mutate(random, debug, False)
    name = os.path.basename(path)[:4] + ".debug"
    with open(os.path.join(os.path.dirname(path), name), "wb") as file:
        file.write(data)
    image = bytearray(elf.bytes) if random.random() < 0.7 else \
        mutate(random, elf, True)
    at, size = elf.part(".gnu_debuglink")
    if len(image) >= at + size:
        image[at:at + size] = name.encode() + bytes(size - 4 - len(name)) + \
            struct.pack("<I", zlib.crc32(data))
    write(random, path, image)
