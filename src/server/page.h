/* page.h - the files of the chat page, src/server/page, as the program carries them.
 *
 * tools/embed_page.py writes them at build time. The first is the page itself, "/"; what it asks
 * for lies under "/page/". No file holds a script or style within HTML, or anything of another
 * host, so that the policy below holds.
 */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include <stddef.h>
#include <stdint.h>

/* For the header Content-Security-Policy of every file. */
#define PAGE_POLICY                                                                                \
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

typedef struct page_file {
    const char *path; /* of the request, from the first slash on */
    const char *type; /* for the header Content-Type */
    const unsigned char *bytes;
    size_t n_bytes;
} page_file;

extern const page_file page_files[];
extern const uint32_t n_page_files;

#endif
