# server.cmake - the HTTP server's objects: of the program, not of the library.

# llhttp: Debian 13 has a library; Debian 12 has its C sources in the package of node's.
pkg_check_modules(LLHTTP QUIET IMPORTED_TARGET libllhttp)
add_library(weft_llhttp INTERFACE)
if(LLHTTP_FOUND)
    target_link_libraries(weft_llhttp INTERFACE PkgConfig::LLHTTP)
else()
    find_path(LLHTTP_SOURCES llhttp.c PATHS /usr/share/llhttp NO_DEFAULT_PATH REQUIRED)
    find_path(LLHTTP_INCLUDES llhttp.h PATHS /usr/share/include/llhttp NO_DEFAULT_PATH REQUIRED)
    file(GLOB llhttp_sources ${LLHTTP_SOURCES}/*.c)
    add_library(weft_llhttp_objects OBJECT ${llhttp_sources})
    target_include_directories(weft_llhttp_objects SYSTEM PUBLIC ${LLHTTP_INCLUDES})
    target_compile_definitions(weft_llhttp_objects PUBLIC LLHTTP_STRICT_MODE=1)
    target_compile_options(weft_llhttp_objects PRIVATE -w)
    target_link_libraries(weft_llhttp INTERFACE weft_llhttp_objects
        $<TARGET_OBJECTS:weft_llhttp_objects>)
endif()

file(GLOB_RECURSE SERVER_SOURCES CONFIGURE_DEPENDS src/server/*.c)
add_library(weft_server OBJECT ${SERVER_SOURCES})
target_include_directories(weft_server PUBLIC src include)
if(WEFT_FUZZ)
    target_compile_options(weft_server PRIVATE -fsanitize=fuzzer-no-link)
endif()
target_link_libraries(weft_server PUBLIC weft_flags PkgConfig::UV weft_llhttp)
