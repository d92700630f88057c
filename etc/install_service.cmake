# The service unit and the configuration that it names. Runs at installation,
# since only then is it known which prefix the unit contains.
if(NOT IS_ABSOLUTE "${FGT_BINDIR}")
	set(FGT_BINDIR "${CMAKE_INSTALL_PREFIX}/${FGT_BINDIR}")
endif()
# As GNUInstallDirs has it.
if(IS_ABSOLUTE "${FGT_SYSCONFDIR}")
elseif(CMAKE_INSTALL_PREFIX MATCHES "^/(usr/?)?$")
	set(FGT_SYSCONFDIR "/${FGT_SYSCONFDIR}")
elseif(CMAKE_INSTALL_PREFIX MATCHES "^/opt/")
	set(FGT_SYSCONFDIR "/${FGT_SYSCONFDIR}${CMAKE_INSTALL_PREFIX}")
else()
	set(FGT_SYSCONFDIR "${CMAKE_INSTALL_PREFIX}/${FGT_SYSCONFDIR}")
endif()

# Nothing is written into the build folder: it may belong to another user, or be
# in use by another installation.
set(FGT_UNIT
	"${CMAKE_INSTALL_PREFIX}/lib/systemd/system/fgtrace-agent.service")
message(STATUS "Installing: $ENV{DESTDIR}${FGT_UNIT}")
configure_file("${FGT_SOURCE}/fgtrace-agent.service.in"
	"$ENV{DESTDIR}${FGT_UNIT}" @ONLY
	FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${FGT_UNIT}")
# An existing configuration is kept.
if(NOT EXISTS "$ENV{DESTDIR}${FGT_SYSCONFDIR}/fgtrace/fgtrace.conf")
	# Not by INSTALL, which would add it to the manifest, by which an edited
	# file would be uninstalled.
	file(COPY "${FGT_SOURCE}/fgtrace.conf"
		DESTINATION "$ENV{DESTDIR}${FGT_SYSCONFDIR}/fgtrace")
endif()
