/* assert.h - checks of what only a bug can break. What a file, request, user or machine can cause
 * is a status instead. ASSERT traps in every build; ASSERT_HOT, for inner loops, only where
 * WEFT_DEBUG is set. */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#define ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())

#ifdef WEFT_DEBUG
#define ASSERT_HOT(condition) ASSERT(condition)
#else
#define ASSERT_HOT(condition) ((void)0)
#endif

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
