# The configuration, on its own: the command line needs it without a daemon.
pkg_check_modules(LIBCONFIG REQUIRED IMPORTED_TARGET libconfig)

add_library(fgt_config STATIC
	config.c
	config_check.c
	config_env.c
	config_file.c
	config_scan.c
	config_schema.c
	config_show.c
	config_text.c
	config_token.c
	config_value.c)
target_sources(fgt_config PUBLIC FILE_SET HEADERS
	BASE_DIRS ${PROJECT_SOURCE_DIR} FILES
	config.h
	config_check.h
	config_env.h
	config_file.h
	config_scan.h
	config_schema.h
	config_text.h
	config_token.h)
target_link_libraries(fgt_config PUBLIC fgt_deliver
	PRIVATE PkgConfig::LIBCONFIG)
