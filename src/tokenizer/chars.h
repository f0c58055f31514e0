/* chars.h - classes of characters, as Hugging Face's tokenizers draw them. */
#ifndef TOKENIZER_CHARS_H
#define TOKENIZER_CHARS_H

#include <stdbool.h>
#include <stdint.h>

typedef bool char_class(uint32_t c);

bool char_is_space(uint32_t c);       /* White_Space */
bool char_is_word(uint32_t c);        /* \w of Rust's regular expressions */
bool char_is_numeric(uint32_t c);     /* any kind of number */
bool char_is_punctuation(uint32_t c); /* ASCII punctuation and symbols, and punctuation beyond */
bool char_is_mark(uint32_t c);        /* of any kind */
bool char_is_nonspacing(uint32_t c);  /* marks that take no room */
bool char_is_control(uint32_t c);     /* controls, formats, private; not \t \n \r */
bool char_is_ideograph(uint32_t c);   /* the blocks that BERT sets apart */

/* The number of its script, with Hiragana, Katakana and Han as one; 0 for a space and what no
 * script has: they join any. */
uint32_t char_script(uint32_t c);

#endif
