# install.cmake - what leaves the build: libweft.a, libweft.so, weft.h, weft.pc, the program weft.

# ---- the shared library: hidden visibility leaves weft_* as its only symbols
add_library(weft_shared SHARED $<TARGET_OBJECTS:weft_objects>)
target_link_libraries(weft_shared PRIVATE weft_flags ${WEFT_LIBS})
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})
if(NOT WEFT_SANITIZE)
    target_link_options(weft_shared PRIVATE -Wl,--no-undefined)
endif()

# ---- the static library is one object: in an archive of many, a host program's own err_set would
# silently replace ours. Not for LTO objects.
set(archive ${CMAKE_BINARY_DIR}/libweft.a)
add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_LINKER} -r -o weft_one.o $<TARGET_OBJECTS:weft_objects>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden weft_one.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} rcs ${archive} weft_one.o
    DEPENDS weft_objects $<TARGET_OBJECTS:weft_objects>
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
    COMMENT "Linking libweft.a" COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(weft_archive ALL DEPENDS ${archive})
add_library(weft_static INTERFACE)
add_dependencies(weft_static weft_archive)
target_include_directories(weft_static INTERFACE include)
target_link_libraries(weft_static INTERFACE ${archive} ${WEFT_LIBS})

# ---- the program: a client of weft.h, with a second copy of base/ that the archive cannot see
if(EXISTS ${CMAKE_SOURCE_DIR}/src/cli/main.c)
    file(GLOB_RECURSE CLI_SOURCES CONFIGURE_DEPENDS src/cli/*.c)
    add_executable(weft ${CLI_SOURCES} $<TARGET_OBJECTS:weft_server> $<TARGET_OBJECTS:weft_page>
        $<FILTER:$<TARGET_OBJECTS:weft_objects>,INCLUDE,/src/base/>)
    target_include_directories(weft PRIVATE src)
    target_link_libraries(weft PRIVATE weft_flags weft_hub weft_static PkgConfig::UV weft_llhttp)
    set_target_properties(weft PROPERTIES LINK_DEPENDS ${archive})
    if(EDIT_FOUND)
        target_compile_definitions(weft PRIVATE WEFT_EDIT)
        target_link_libraries(weft PRIVATE PkgConfig::EDIT)
    endif()
    install(TARGETS weft RUNTIME)
endif()

install(TARGETS weft_shared LIBRARY)
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY models/tiny/target-mlx8 DESTINATION ${CMAKE_INSTALL_DATADIR}/weft/models/tiny)
install(FILES include/weft.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# Found from where weft.pc lies, so that an installed tree may move.
string(REGEX REPLACE "[^/]+" ".." PC_PREFIX ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_file(cmake/weft.pc.in weft.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# ---- its tests build programs of their own, which have no sanitizer's runtime
if(NOT WEFT_SANITIZE)
    foreach(name header pkgconfig two_copies)
        add_test(NAME install/${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/install/run.sh ${name}
            ${CMAKE_BINARY_DIR})
    endforeach()
endif()
