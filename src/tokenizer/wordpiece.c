/* wordpiece.c - greedy matching in a trie. */
#include "tokenizer/wordpiece.h"

weft_status wordpiece_init(wordpiece *w, const weft_allocator *allocator, weft_error *err)
{
    *w = (wordpiece){.max_chars = 100, .unknown = -1};
    return trie_init(&w->trie, allocator, err);
}

void wordpiece_deinit(wordpiece *w)
{
    trie_deinit(&w->trie);
}

weft_status wordpiece_fill(wordpiece *w, const vocab *v, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (uint32_t id = 0; id < v->n && !w->restored && status == WEFT_OK; id++) {
        const vocab_entry *entry = &v->entries[id];
        bool is_new;
        if (vocab_find_plain(v, (str){entry->text, entry->text_len}) != (int32_t)id) continue;
        status = trie_put(&w->trie, (str){entry->text, entry->text_len}, id, &is_new, err);
    }
    uint32_t number;
    w->follow = 0;
    w->follows = true;
    for (size_t i = 0; i < w->prefix.len && w->follows; i++)
        w->follows = trie_step(&w->trie, &w->follow, w->prefix.ptr[i], &number);
    return status;
}

static uint64_t count_chars(str text)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
    return n;
}

weft_status wordpiece_encode(const wordpiece *w, str word, token_list *out, weft_error *err)
{
    size_t before = out->len;
    weft_status status = WEFT_OK;
    bool spelled = word.len <= w->max_chars || count_chars(word) <= w->max_chars;
    for (size_t at = 0; spelled && at < word.len && status == WEFT_OK;) {
        uint32_t id = 0;
        size_t n = 0;
        str rest = {word.ptr + at, word.len - at};
        if (at == 0 || w->follows) n = trie_longest(&w->trie, at == 0 ? 0 : w->follow, rest, &id);
        spelled = n != 0;
        if (spelled) status = token_list_add(out, (int32_t)id, err);
        at += n;
    }
    if (spelled || status != WEFT_OK) return status;
    out->len = before;
    return w->unknown < 0 ? WEFT_OK : token_list_add(out, w->unknown, err);
}
