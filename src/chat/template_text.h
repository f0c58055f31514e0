/* template_text.h - texts of a rendering, which remember byte by byte whether they came from the
 * caller.
 *
 * A text is a view of a buffer; buffers keep runs of untrusted bytes. Slicing is a new view, and
 * adding to a text that ends where its buffer ends goes on in that buffer, so that building a long
 * text piece by piece is linear. Bytes below a view's end are never written again. */
#ifndef CHAT_TEMPLATE_TEXT_H
#define CHAT_TEMPLATE_TEXT_H

#include "base/str.h"

typedef struct tpl_render tpl_render;

typedef struct tpl_run {
    size_t first, end;
} tpl_run;

typedef struct tpl_buffer {
    const char *ptr;
    char *own; /* the same, when it may grow; NULL: borrowed */
    size_t used, capacity;
    bool untrusted; /* all of it, whatever the runs say */
    tpl_run *runs;  /* [n_runs], ascending, disjoint, not touching */
    size_t n_runs, runs_capacity;
} tpl_buffer;

#define TPL_UNCOUNTED SIZE_MAX

typedef struct tpl_text {
    tpl_buffer *buffer;
    size_t first, len; /* bytes */
    size_t
        n_chars; /* TPL_UNCOUNTED until somebody asks; always counted in a template's own texts */
} tpl_text;

str tpl_text_str(const tpl_text *t);
size_t tpl_text_chars(tpl_text *t);

/* The offset of a character, from 0 (chars <= n_chars). */
size_t tpl_text_offset(tpl_text *t, size_t char_i);

/* Bytes from at on (at < len) that all have the same mark. */
size_t tpl_text_piece(const tpl_text *t, size_t at, bool *untrusted);

/* All of these fail with what the rendering has recorded (template_render.h). */
tpl_buffer *tpl_buffer_new(tpl_render *r, size_t capacity);
bool tpl_buffer_add(tpl_render *r, tpl_buffer *b, str bytes, bool untrusted);
bool tpl_buffer_add_text(tpl_render *r, tpl_buffer *b, const tpl_text *t);
bool tpl_buffer_add_char(tpl_render *r, tpl_buffer *b, uint32_t code_point, bool untrusted);
bool tpl_buffer_fill(tpl_render *r, tpl_buffer *b, char c, size_t n);
tpl_text *tpl_buffer_text(tpl_render *r, tpl_buffer *b);

/* A text around bytes that outlive the rendering. */
tpl_text *tpl_text_borrow(tpl_render *r, str bytes, bool untrusted);
/* A trusted copy. */
tpl_text *tpl_text_copy(tpl_render *r, str bytes);
/* Marks a text that no buffer shares yet as untrusted as a whole: for what cannot be followed byte
 * by byte. */
void tpl_text_distrust(tpl_text *t);
bool tpl_text_trusted(const tpl_text *t); /* every byte */
tpl_text *tpl_text_view(tpl_render *r, const tpl_text *t, size_t first, size_t len);
/* The first place of a needle at or behind from; false: failed, its work being charged. An empty
 * needle is found at from. */
bool tpl_text_find(tpl_render *r, str hay, str needle, size_t from, size_t *at, bool *found);
tpl_text *tpl_text_concat(tpl_render *r, tpl_text *a, tpl_text *b);

#endif
