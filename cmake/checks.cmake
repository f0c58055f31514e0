# checks.cmake - tests that look at the tree itself, registered first so that they run first.
find_program(PYTHON3 python3 REQUIRED)

add_test(NAME tools/format COMMAND ${CMAKE_SOURCE_DIR}/tools/format.sh)
# Sanitizers add globals and calls of their own to the objects.
if(NOT WEFT_SANITIZE)
    add_test(NAME tools/check
        COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/check.py --build ${CMAKE_BINARY_DIR})
    add_test(NAME tools/check_faults COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/test_check.py)
endif()
add_test(NAME bench/compare COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/bench/test_compare.py)
if(WEFT_TIDY)
    add_test(NAME tools/tidy COMMAND ${CMAKE_SOURCE_DIR}/tools/tidy.sh ${CMAKE_BINARY_DIR})
    set_tests_properties(tools/tidy PROPERTIES TIMEOUT 3600)
endif()

# Each fuzz target for a minute; what it learns stays in the build folder, the seeds are only read.
if(WEFT_FUZZ)
    set(WEFT_FUZZ_SECONDS 60 CACHE STRING "How long a fuzz target runs as a test")
    math(EXPR fuzz_timeout "${WEFT_FUZZ_SECONDS} + 120")
    file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
    foreach(source ${fuzz_sources})
        cmake_path(GET source STEM target)
        string(REGEX REPLACE "^fuzz_" "" name ${target})
        set(learnt ${CMAKE_BINARY_DIR}/corpus/${name})
        set(seeds ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
        file(MAKE_DIRECTORY ${learnt})
        add_test(NAME fuzz/${name} COMMAND ${target}
            -max_total_time=${WEFT_FUZZ_SECONDS} -timeout=20 -rss_limit_mb=3072
            -artifact_prefix=${CMAKE_BINARY_DIR}/${target}- ${learnt} ${seeds})
        set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT ${fuzz_timeout})
    endforeach()
endif()
