/* fuzz_safetensors.c - any bytes as a safetensors file; those that begin with a brace as an index
 * beside a small whole file. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "memory_files.h"
#include "weights_walk.h"

static const char WHOLE[] = "\x36\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\",\"shape\":[1],"
                            "\"data_offsets\":[0,4]}}data";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memory_files files;
    memory_files_init(&files);
    memory_files_add(&files, "config.json", "{}", 2);
    if (size != 0 && data[0] == '{') {
        memory_files_add(&files, "model.safetensors", WHOLE, sizeof WHOLE - 1);
        memory_files_add(&files, "model.safetensors.index.json", data, size);
    } else {
        memory_files_add(&files, "model.safetensors", data, size);
    }
    env world = {mem_system(), &files.io, NULL};
    walk(&world, "m");
    return 0;
}
