# switches.bpf.c for the kernel, as a C header that switches_bpf.c loads.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
	set(bpf_arch arm64)
else()
	set(bpf_arch x86)
endif()
# Where Debian keeps <asm/types.h>, which has no place for clang's target.
set(bpf_include)
if(CMAKE_LIBRARY_ARCHITECTURE)
	set(bpf_include -idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
endif()
set(bpf_object ${CMAKE_CURRENT_BINARY_DIR}/switches.bpf.o)
set(bpf_header ${CMAKE_CURRENT_BINARY_DIR}/switches.skel.h)
add_custom_command(OUTPUT ${bpf_header}
	COMMAND ${FGT_CLANG} -target bpf -mcpu=v3 -D__TARGET_ARCH_${bpf_arch}
		-O2 -g -Wall -Werror -I${PROJECT_SOURCE_DIR} ${bpf_include}
		-c ${CMAKE_CURRENT_SOURCE_DIR}/switches.bpf.c -o ${bpf_object}
	COMMAND ${FGT_BPFTOOL} gen skeleton ${bpf_object}
		name fgt_switches_bpf > ${bpf_header}
	DEPENDS switches.bpf.c socket.bpf.h switch_maps.bpf.h
		switch_slot.h kernel_types.bpf.h
	VERBATIM)
add_library(fgt_switches STATIC switches_bpf.c switches_asked.c ${bpf_header})
target_compile_definitions(fgt_switches PUBLIC FGT_HAS_BPF)
target_include_directories(fgt_switches PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(fgt_switches PUBLIC fgt_capture
	PRIVATE PkgConfig::LIBBPF)
