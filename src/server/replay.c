/* replay.c - a table of answers by 128 bits of a SHA-256, chained by their last use: what one
 * client made up must not come to be what another one's answer is taken for. */
#include "server/replay.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"

enum { SLOTS = 4096 };

typedef struct replay_entry {
    struct replay_entry *newer, *older; /* by use */
    struct replay_entry *next;          /* of the same slot */
    replay_key key;
    uint32_t n_ids;
    int32_t ids[];
} replay_entry;

struct replay {
    thread_lock *lock;
    size_t n_bytes, most;
    replay_entry *newest, *oldest;
    replay_entry *slots[SLOTS];
};

weft_status replay_create(size_t n_bytes, replay **out, weft_error *err)
{
    *out = NULL;
    replay *r = mem_alloc_zero(mem_system(), sizeof *r);
    if (r == NULL) return err_set(err, WEFT_NOMEM, "out of memory for answers to come back");
    r->most = n_bytes;
    weft_status status = thread_lock_create(mem_system(), &r->lock, err);
    if (status == WEFT_OK) {
        *out = r;
    } else {
        mem_free(mem_system(), r, sizeof *r);
    }
    return status;
}

static size_t bytes_of(const replay_entry *e)
{
    return sizeof *e + e->n_ids * sizeof *e->ids;
}

static void unlink_use(replay *r, replay_entry *e)
{
    if (e->newer != NULL) e->newer->older = e->older;
    if (e->older != NULL) e->older->newer = e->newer;
    if (r->newest == e) r->newest = e->older;
    if (r->oldest == e) r->oldest = e->newer;
}

static void link_newest(replay *r, replay_entry *e)
{
    e->newer = NULL;
    e->older = r->newest;
    if (r->newest != NULL) r->newest->newer = e;
    r->newest = e;
    if (r->oldest == NULL) r->oldest = e;
}

static replay_entry **slot_of(replay *r, replay_key k)
{
    return &r->slots[k.low % SLOTS];
}

static void drop(replay *r, replay_entry *e)
{
    replay_entry **at = slot_of(r, e->key);
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    unlink_use(r, e);
    r->n_bytes -= bytes_of(e);
    mem_free(mem_system(), e, bytes_of(e));
}

void replay_destroy(replay *r)
{
    if (r == NULL) return;
    while (r->newest != NULL) drop(r, r->newest);
    thread_lock_destroy(r->lock);
    mem_free(mem_system(), r, sizeof *r);
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void mix(replay_key *k, str text)
{
    unsigned char digest[32];
    hash_stream h;
    k->failed = k->failed || hash_stream_open(&h, NULL) != WEFT_OK;
    if (k->failed) return;
    hash_stream_add(&h, &k->low, sizeof k->low);
    hash_stream_add(&h, &k->high, sizeof k->high);
    hash_stream_add_field(&h, text.ptr, text.len);
    k->failed = hash_stream_close(&h, digest, NULL) != WEFT_OK;
    k->low = get_u64(digest);
    k->high = get_u64(digest + 8);
}

void replay_key_init(replay_key *k, str model, str content)
{
    while (content.len > 0 && is_blank(content.ptr[content.len - 1])) content.len--;
    while (content.len > 0 && is_blank(content.ptr[0])) {
        content.ptr++;
        content.len--;
    }
    *k = (replay_key){0};
    mix(k, model);
    mix(k, content);
}

/* Arguments count as values, not as text: clients parse them and write them anew. */
void replay_key_add_call(replay_key *k, str name, str arguments)
{
    json_doc doc;
    strbuf text;
    strbuf_init(&text, mem_system(), 0);
    mix(k, name);
    if (json_parse(&doc, arguments.ptr, arguments.len, NULL) == WEFT_OK) {
        if (json_write(doc.root, 0, &text) == WEFT_OK) arguments = (str){text.ptr, text.len};
        json_doc_free(&doc);
    }
    mix(k, arguments);
    strbuf_deinit(&text);
}

static replay_entry *find(replay *r, replay_key k)
{
    replay_entry *e = *slot_of(r, k);
    while (e != NULL && (e->key.low != k.low || e->key.high != k.high)) e = e->next;
    return e;
}

void replay_put(replay *r, replay_key k, const int32_t *ids, uint32_t n_ids)
{
    size_t n_bytes = sizeof(replay_entry) + n_ids * sizeof *ids;
    if (k.failed || n_ids == 0 || n_bytes > r->most / 4) return;
    thread_lock_take(r->lock);
    replay_entry *e = find(r, k);
    if (e != NULL) drop(r, e);
    while (r->oldest != NULL && r->n_bytes + n_bytes > r->most) drop(r, r->oldest);
    e = mem_alloc(mem_system(), n_bytes);
    if (e != NULL) {
        *e = (replay_entry){.next = *slot_of(r, k), .key = k, .n_ids = n_ids};
        memcpy(e->ids, ids, n_ids * sizeof *ids);
        *slot_of(r, k) = e;
        r->n_bytes += n_bytes;
        link_newest(r, e);
    }
    thread_lock_drop(r->lock);
}

bool replay_get(replay *r, replay_key k, strbuf *out)
{
    if (k.failed) return false;
    thread_lock_take(r->lock);
    replay_entry *e = find(r, k);
    if (e != NULL) {
        unlink_use(r, e);
        link_newest(r, e);
        strbuf_add_char(out, '[');
        for (uint32_t i = 0; i < e->n_ids; i++)
            strbuf_printf(out, "%s%d", i > 0 ? "," : "", e->ids[i]);
        strbuf_add_char(out, ']');
    }
    thread_lock_drop(r->lock);
    return e != NULL;
}
