/* group_folder.h - one folder for all tests of a program: its group's setup and teardown. */
#ifndef SUPPORT_GROUP_FOLDER_H
#define SUPPORT_GROUP_FOLDER_H

#include "support/test.h"

static test_folder folder;

static int setup(void **state)
{
    (void)state;
    test_folder_create(&folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_folder_remove(&folder);
    return 0;
}

#endif
