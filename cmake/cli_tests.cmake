# cli_tests.cmake - the program from outside, and the documents that speak of it.
if(TARGET weft)
    add_test(NAME docs/cli COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/docs/test_docs.py
        $<TARGET_FILE:weft> ${CMAKE_SOURCE_DIR})
    # One test a class, so that a slow machine runs them side by side.
    foreach(name Usage Failures Text Logits Run Chat Bench Selfcheck Inspect Fit Experts Eval Convert Cache)
        add_test(NAME cli/${name} COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/cli/test_cli.py
            $<TARGET_FILE:weft> ${CMAKE_SOURCE_DIR} ${name})
    endforeach()
    # The server, as clients that mean it no good see it.
    if(WEFT_SANITIZE)
        set(slowed --sanitized)
    endif()
    foreach(name Bodies Context Leaving Wire Floods Images Models Keys Crowds Ends Files)
        string(TOLOWER ${name} lower)
        add_test(NAME server/hostile_${lower} COMMAND ${PYTHON3}
            ${CMAKE_SOURCE_DIR}/tests/server/test_hostile.py ${slowed} $<TARGET_FILE:weft>
            ${CMAKE_SOURCE_DIR} ${name})
    endforeach()
endif()
