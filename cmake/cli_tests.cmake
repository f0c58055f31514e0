# cli_tests.cmake - the program from outside, and the documents that speak of it.
if(TARGET weft)
    add_test(NAME docs/cli COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/docs/test_docs.py
        $<TARGET_FILE:weft> ${CMAKE_SOURCE_DIR})
    # One test a class, so that a slow machine runs them side by side.
    foreach(name Usage Failures Text Logits Embed Run Chat Bench Selfcheck Inspect Fit Experts Eval Convert
        Cache Serve)
        add_test(NAME cli/${name} COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/cli/test_cli.py
            $<TARGET_FILE:weft> ${CMAKE_SOURCE_DIR} ${name})
    endforeach()
    foreach(name Pull Choice Broken Wrong Access)
        add_test(NAME cli/hub/${name} COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/hub/test_hub.py
            $<TARGET_FILE:weft> ${CMAKE_SOURCE_DIR} ${name})
        set_tests_properties(cli/hub/${name} PROPERTIES SKIP_RETURN_CODE 77)
    endforeach()
    add_test(NAME server/apis COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/server/test_apis.py
        $<TARGET_FILE:weft> ${CMAKE_SOURCE_DIR})
    # As the clients' own packages see it: tools/clients.sh has them.
    add_test(NAME server/clients COMMAND ${PYTHON3}
        ${CMAKE_SOURCE_DIR}/tests/server/test_clients.py $<TARGET_FILE:weft> ${CMAKE_SOURCE_DIR})
    add_test(NAME page/Served COMMAND ${PYTHON3}
        ${CMAKE_SOURCE_DIR}/tests/server/page/test_served.py $<TARGET_FILE:weft> ${CMAKE_SOURCE_DIR})
    set_tests_properties(server/clients page/Served PROPERTIES SKIP_RETURN_CODE 77)
    # The server, as clients that mean it no good see it.
    if(WEFT_SANITIZE)
        set(slowed --sanitized)
    endif()
    foreach(name Bodies Context Leaving Wire Floods Images Models Keys Crowds Deaf Ends Memory Files)
        string(TOLOWER ${name} lower)
        add_test(NAME server/hostile_${lower} COMMAND ${PYTHON3}
            ${CMAKE_SOURCE_DIR}/tests/server/test_hostile.py ${slowed} $<TARGET_FILE:weft>
            ${CMAKE_SOURCE_DIR} ${name})
    endforeach()
    # A sanitizer's run may take its time; by hand it is half an hour.
    set(soak_seconds 20)
    if(WEFT_SANITIZE)
        set(soak_seconds 120)
    endif()
    add_test(NAME server/soak COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tests/server/soak.py ${slowed}
        --seconds ${soak_seconds} $<TARGET_FILE:weft> ${CMAKE_SOURCE_DIR})
    set_tests_properties(server/soak PROPERTIES TIMEOUT 400)
endif()
