/* codecs.c - codecs worth comparing. */
#include "cli/codecs.h"

const char *const CODECS[CODECS_USUAL] = {"f32",         "f16",         "bf16",       "affine8g32",
                                          "affine8g64",  "affine8g128", "affine4g32", "affine4g64",
                                          "affine4g128", "q8_0",        "turbo-k8v8", "turbo-k8v5",
                                          "turbo-k8v4",  "turbo-k8v3",  "turbo-k8v2", "turbo-k5v3",
                                          "turbo-k4v3",  "turbo-k4v2",  "turbo-k2v2"};
