/* template_tests.h - what stands behind "is". */
#ifndef CHAT_TEMPLATE_TESTS_H
#define CHAT_TEMPLATE_TESTS_H

#include "chat/template_call.h"

/* NULL when there is none of that name. */
const tpl_row *tpl_test_find(str name);

#endif
