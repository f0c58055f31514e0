/* bytes.h - numbers of bytes for people. */
#ifndef CLI_BYTES_H
#define CLI_BYTES_H

#include <stddef.h>
#include <stdint.h>

enum { BYTES_TEXT = 64 };

/* "1.5 MiB (1572864 bytes)", "512 bytes"; short: "1.5 MiB". text: [BYTES_TEXT]. */
void bytes_print(uint64_t n, char *text);
void bytes_print_short(uint64_t n, char *text);

#endif
