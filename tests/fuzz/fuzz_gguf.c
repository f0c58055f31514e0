/* fuzz_gguf.c - any bytes as a GGUF file. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "memory_files.h"
#include "weights_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memory_files files;
    memory_files_init(&files);
    memory_files_add(&files, "m.gguf", data, size);
    env world = {mem_system(), &files.io, NULL};
    walk(&world, "m.gguf");
    return 0;
}
