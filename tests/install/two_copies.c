/* two_copies.c - a host program whose functions are called like ours. Linked with libweft.a it
 * keeps its own, and the library keeps its own too. */
#include <stdio.h>
#include <string.h>
#include <weft.h>

int err_set(void);
int mem_alloc(void);
int str_append(void);

static int n_calls;

int err_set(void)
{
    return ++n_calls;
}

int mem_alloc(void)
{
    return ++n_calls;
}

int str_append(void)
{
    return ++n_calls;
}

int main(void)
{
    weft_error error = {0};
    weft_model *model = NULL;
    weft_status status = weft_model_open("/nonexistent/model", NULL, &model, &error);
    if (status == WEFT_OK || error.status != status ||
        strstr(error.message, "nonexistent") == NULL) {
        fprintf(stderr, "the library lost its error: %d '%s'\n", (int)status, error.message);
        return 1;
    }
    if (n_calls != 0) {
        fprintf(stderr, "the library called the host's functions %d times\n", n_calls);
        return 1;
    }
    return err_set() + mem_alloc() + str_append() == 6 ? 0 : 1;
}
