# page.cmake - the chat page as an object file: written by tools/embed_page.py, declared in src/server/page.h.
find_program(PYTHON3 python3 REQUIRED)
file(GLOB PAGE_FILES CONFIGURE_DEPENDS src/server/page/*)
set(PAGE_SOURCE ${CMAKE_BINARY_DIR}/generated/page.c)
add_custom_command(OUTPUT ${PAGE_SOURCE}
    COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/embed_page.py ${CMAKE_SOURCE_DIR}/src/server/page
        ${PAGE_SOURCE}
    DEPENDS ${PAGE_FILES} ${CMAKE_SOURCE_DIR}/tools/embed_page.py
    COMMENT "Writing page.c" VERBATIM)
add_library(weft_page OBJECT ${PAGE_SOURCE})
target_include_directories(weft_page PRIVATE src)
target_link_libraries(weft_page PRIVATE weft_flags)

# The page in a browser, once and not for every preset; 77 says that there is no browser.
if(NOT WEFT_SANITIZE AND NOT WEFT_TIDY AND NOT WEFT_FUZZ)
    foreach(name Functions Files Conversation Failures Keeping Hostile Phone Scrolling Looks)
        add_test(NAME page/${name} COMMAND ${PYTHON3}
            ${CMAKE_SOURCE_DIR}/tests/server/page/test_page.py ${name})
        set_tests_properties(page/${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
    endforeach()
endif()
