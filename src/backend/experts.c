/* experts.c - slots, who has them, and who gives way. */
#include "backend/experts.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/reader.h"
#include "tensor/encoding.h"

/* Threads that read: more than a disk needs to be busy, few enough to cost nothing. */
enum { READERS = 4 };

#define NO_SLOT UINT32_MAX

typedef struct expert_slot {
    graph_id layer; /* 0: empty */
    uint32_t expert;
    uint32_t newer, older; /* by last use; NO_SLOT at the ends */
    bool in_use;
    bool guessed;   /* read ahead and not used since */
    uint64_t round; /* of the last experts_ahead that wanted it */
    tensor matrices[EXPERT_MATRICES];
    reader_job job;
} expert_slot;

struct expert_store {
    env env;
    const graph *g;
    backend_experts files;
    arena arena;     /* owns what is not below */
    io_file *opened; /* [n_files]; those without experts are not open */
    uint32_t *where; /* [n_values] rows of n_experts, for layers with experts: slot + 1 */
    size_t *rows;    /* [n_values], where such a row begins */
    expert_slot *slots;
    uint32_t n_slots, n_in_use;
    unsigned char *block; /* [n_slots * slot_bytes] */
    size_t slot_bytes, block_bytes;
    uint32_t newest, oldest;
    uint64_t round;
    reader *reader;
    _Atomic(uint64_t) n_used, n_hits, n_ahead, n_ahead_used;
};

static const graph_value *next_experts(const graph *g, graph_id *id)
{
    for (; *id < g->n_values; (*id)++) {
        if (g->values[*id].op == GRAPH_EXPERTS) return &g->values[*id];
    }
    return NULL;
}

static uint32_t count_experts(const graph *g, const graph_value *v)
{
    return g->values[v->in[2]].i[1];
}

/* has_experts: [n_files], or NULL */
static experts_size measure(const graph *g, const backend_experts *files, bool *has_experts)
{
    experts_size size = {0};
    const graph_value *v;
    for (graph_id id = 1; (v = next_experts(g, &id)) != NULL; id++) {
        uint32_t n = count_experts(g, v);
        uint32_t n_top = g->values[v->in[1]].i[0];
        size.n_layers++;
        size.n_all += n;
        if (n > size.n_experts) size.n_experts = n;
        if (n_top > size.n_top) size.n_top = n_top;
        for (uint32_t e = 0; e < n; e++) {
            expert_place place;
            expert_place_find(g, v, e, files, &place);
            if (place.n_bytes > size.slot_bytes) size.slot_bytes = place.n_bytes;
            for (uint32_t i = 0; i < place.n_ranges && has_experts != NULL; i++)
                has_experts[place.ranges[i].file_i] = true;
            for (uint32_t i = 0; i < EXPERT_RANGES; i++) {
                const tensor *t = expert_matrix(g, v, e, i / TENSOR_PLANES);
                if (t->planes[i % TENSOR_PLANES] != NULL)
                    size.n_bytes += t->plane_bytes[i % TENSOR_PLANES];
            }
        }
    }
    if (size.n_all > 0) size.each_bytes = size.slot_bytes + sizeof(expert_slot);
    return size;
}

experts_size experts_measure(const graph *g, const backend_experts *files)
{
    return measure(g, files, NULL);
}

/* ---- order of use ---------------------------------------------------------------------------- */

static void unlink_slot(expert_store *x, uint32_t slot_i)
{
    const expert_slot *s = &x->slots[slot_i];
    if (s->newer != NO_SLOT) x->slots[s->newer].older = s->older;
    if (s->older != NO_SLOT) x->slots[s->older].newer = s->newer;
    if (x->newest == slot_i) x->newest = s->older;
    if (x->oldest == slot_i) x->oldest = s->newer;
}

static void link_newest(expert_store *x, uint32_t slot_i)
{
    expert_slot *s = &x->slots[slot_i];
    s->newer = NO_SLOT;
    s->older = x->newest;
    if (x->newest != NO_SLOT) x->slots[x->newest].newer = slot_i;
    if (x->newest == NO_SLOT) x->oldest = slot_i;
    x->newest = slot_i;
}

static void touch(expert_store *x, uint32_t slot_i)
{
    unlink_slot(x, slot_i);
    link_newest(x, slot_i);
}

/* ---- opening --------------------------------------------------------------------------------- */

static weft_status open_files(expert_store *x, const bool *has_experts, weft_error *err)
{
    const io *files = x->env.io;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < x->files.n_files && status == WEFT_OK; i++) {
        if (!has_experts[i]) continue;
        status =
            files->open_blocks(files, x->files.paths[i], &x->files.maps[i], &x->opened[i], err);
    }
    return status;
}

static weft_status check_budget(const expert_store *x, const experts_size *size, weft_error *err)
{
    uint64_t least = size->each_bytes * EXPERTS_LEAST;
    if (x->files.n_bytes >= least) return WEFT_OK;
    return err_set(err, WEFT_LIMIT,
                   "experts cannot be streamed through %llu bytes, at least %llu are needed, for "
                   "%d of them at a time",
                   (unsigned long long)x->files.n_bytes, (unsigned long long)least, EXPERTS_LEAST);
}

static weft_status make_slots(expert_store *x, const experts_size *size, weft_error *err)
{
    uint64_t n = x->files.n_bytes / size->each_bytes;
    if (n > size->n_all) n = size->n_all;
    if (n < EXPERTS_LEAST) n = EXPERTS_LEAST;
    x->slot_bytes = (size_t)size->slot_bytes;
    bool ok = n < NO_SLOT && size_mul((size_t)n, x->slot_bytes, &x->block_bytes);
    if (ok) {
        x->slots = arena_array(&x->arena, (size_t)n, sizeof *x->slots);
        x->block = mem_alloc_aligned(x->env.allocator, x->block_bytes, IO_BLOCK);
    }
    if (!ok || x->slots == NULL || x->block == NULL) {
        return err_set(err, WEFT_NOMEM, "out of memory for %llu experts of %llu bytes",
                       (unsigned long long)n, (unsigned long long)size->slot_bytes);
    }
    x->n_slots = (uint32_t)n;
    for (uint32_t i = 0; i < x->n_slots; i++) link_newest(x, i);
    return WEFT_OK;
}

static weft_status open_store(expert_store *x, weft_error *err)
{
    const graph *g = x->g;
    uint32_t n_files = x->files.n_files;
    bool *has_experts = arena_array(&x->arena, n_files, sizeof *has_experts);
    x->opened = arena_array(&x->arena, n_files, sizeof *x->opened);
    for (uint32_t i = 0; i < n_files && x->opened != NULL; i++) x->opened[i].fd = -1;
    x->rows = arena_array(&x->arena, g->n_values, sizeof *x->rows);
    if (has_experts == NULL || x->opened == NULL || x->rows == NULL)
        return err_set(err, WEFT_NOMEM, "out of memory for a store of experts");
    experts_size size = measure(g, &x->files, has_experts);
    ASSERT(size.n_all > 0);
    weft_status status = check_budget(x, &size, err);
    if (status != WEFT_OK) return status;
    size_t n_where = 0;
    const graph_value *v;
    for (graph_id id = 1; (v = next_experts(g, &id)) != NULL; id++) {
        x->rows[id] = n_where;
        n_where += count_experts(g, v);
    }
    x->where = arena_array(&x->arena, n_where, sizeof *x->where);
    if (x->where == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a store of experts");
    status = make_slots(x, &size, err);
    if (status == WEFT_OK) status = open_files(x, has_experts, err);
    if (status == WEFT_OK)
        status = reader_create(x->env.allocator, x->env.io, READERS, &x->reader, err);
    return status;
}

weft_status experts_create(const env *world, const graph *g, const backend_experts *files,
                           expert_store **out, weft_error *err)
{
    *out = NULL;
    expert_store *x = mem_alloc_zero(world->allocator, sizeof *x);
    if (x == NULL) return err_set(err, WEFT_NOMEM, "out of memory for a store of experts");
    x->env = *world;
    x->g = g;
    x->files = *files;
    x->newest = x->oldest = NO_SLOT;
    arena_init(&x->arena, world->allocator, 0);
    weft_status status = open_store(x, err);
    if (status != WEFT_OK) {
        experts_destroy(x);
        return status;
    }
    *out = x;
    return WEFT_OK;
}

void experts_destroy(expert_store *x)
{
    if (x == NULL) return;
    reader_destroy(x->reader);
    for (uint32_t i = 0; i < x->files.n_files && x->opened != NULL; i++) {
        if (x->opened[i].fd >= 0) x->env.io->close(x->env.io, &x->opened[i], NULL);
    }
    mem_free_aligned(x->env.allocator, x->block, x->block_bytes, IO_BLOCK);
    arena_deinit(&x->arena);
    mem_free(x->env.allocator, x, sizeof *x);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void empty(expert_store *x, uint32_t slot_i)
{
    expert_slot *s = &x->slots[slot_i];
    if (s->layer != 0) x->where[x->rows[s->layer] + s->expert] = 0;
    s->layer = 0;
    s->guessed = false;
}

/* The slot of an expert that is there or being read. One that could not be read is forgotten. */
static uint32_t find(expert_store *x, graph_id layer, uint32_t expert)
{
    uint32_t slot_i = x->where[x->rows[layer] + expert] - 1;
    if (slot_i == NO_SLOT) return NO_SLOT;
    const reader_job *job = &x->slots[slot_i].job;
    if (!reader_is_done(job) || job->status == WEFT_OK) return slot_i;
    empty(x, slot_i);
    return NO_SLOT;
}

static bool is_there(expert_store *x, graph_id layer, uint32_t expert)
{
    uint32_t slot_i = find(x, layer, expert);
    return slot_i != NO_SLOT && reader_is_done(&x->slots[slot_i].job);
}

/* Whether nobody reads into a slot; a job that has not begun is taken back. */
static bool is_quiet(expert_store *x, expert_slot *s)
{
    return s->layer == 0 || reader_is_done(&s->job) || reader_drop(x->reader, &s->job);
}

/* What was used longest ago and is not wanted; NO_SLOT: there is nothing that could give way
 * now. */
static uint32_t find_victim(expert_store *x)
{
    for (uint32_t i = x->oldest; i != NO_SLOT; i = x->slots[i].newer) {
        expert_slot *s = &x->slots[i];
        if (!s->in_use && s->round != x->round && is_quiet(x, s)) return i;
    }
    return NO_SLOT;
}

static void start_read(expert_store *x, uint32_t slot_i, graph_id layer, uint32_t expert,
                       bool urgent)
{
    const graph_value *v = &x->g->values[layer];
    expert_slot *s = &x->slots[slot_i];
    unsigned char *memory = x->block + (size_t)slot_i * x->slot_bytes;
    expert_place place;
    empty(x, slot_i);
    expert_place_find(x->g, v, expert, &x->files, &place);
    ASSERT(place.n_bytes <= x->slot_bytes);
    for (uint32_t i = 0; i < EXPERT_MATRICES; i++) {
        tensor *t = &s->matrices[i];
        *t = *expert_matrix(x->g, v, expert, i);
        for (uint32_t k = 0; k < TENSOR_PLANES; k++) {
            if (t->planes[k] != NULL) t->planes[k] = memory + place.planes[i][k];
        }
    }
    s->job.n_ranges = place.n_ranges;
    for (uint32_t i = 0; i < place.n_ranges; i++) {
        const expert_range *from = &place.ranges[i];
        s->job.ranges[i] = (reader_range){.file = &x->opened[from->file_i],
                                          .offset = from->first,
                                          .to = memory + from->at,
                                          .n_bytes = (size_t)(from->end - from->first),
                                          .n_least = (size_t)(from->needed - from->first)};
    }
    s->layer = layer;
    s->expert = expert;
    x->where[x->rows[layer] + expert] = slot_i + 1;
    reader_submit(x->reader, &s->job, urgent);
}

/* ---- what a layer does ----------------------------------------------------------------------- */

static void add(_Atomic(uint64_t) *count, uint64_t n)
{
    atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

size_t experts_scratch_bytes(const expert_store *x)
{
    return sizeof *x + x->arena.taken - x->n_slots * sizeof *x->slots;
}

uint32_t experts_capacity(const expert_store *x)
{
    return x->n_slots;
}

void experts_begin(expert_store *x, graph_id layer, uint32_t *list, uint32_t n)
{
    uint32_t n_there = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t expert = list[i];
        uint32_t slot_i = find(x, layer, expert);
        if (slot_i != NO_SLOT && x->slots[slot_i].guessed) {
            x->slots[slot_i].guessed = false;
            add(&x->n_ahead_used, 1);
        }
        if (!is_there(x, layer, expert)) continue;
        for (uint32_t k = i; k > n_there; k--) list[k] = list[k - 1];
        list[n_there++] = expert;
    }
    add(&x->n_used, n);
    add(&x->n_hits, n_there);
}

void experts_rest(expert_store *x)
{
    for (uint32_t i = x->newest; x->n_in_use > 0; i = x->slots[i].older) {
        if (x->slots[i].in_use) x->n_in_use--;
        x->slots[i].in_use = false;
    }
}

static void take_in_use(expert_store *x, uint32_t slot_i)
{
    x->slots[slot_i].in_use = true;
    x->n_in_use++;
    touch(x, slot_i);
}

/* Every slot that is not in use is being read into: one of them will be done. */
static uint32_t wait_for_victim(expert_store *x)
{
    for (uint32_t i = x->oldest; i != NO_SLOT; i = x->slots[i].newer) {
        if (x->slots[i].in_use) continue;
        reader_wait(x->reader, &x->slots[i].job, NULL);
        return i;
    }
    ASSERT(false);
    return NO_SLOT;
}

void experts_use(expert_store *x, graph_id layer, const uint32_t *list, uint32_t n, uint32_t *slots)
{
    ASSERT(n <= x->n_slots);
    experts_rest(x);
    x->round++; /* what an earlier layer wanted ahead may give way */
    for (uint32_t i = 0; i < n; i++) {
        slots[i] = find(x, layer, list[i]);
        if (slots[i] == NO_SLOT) continue;
        take_in_use(x, slots[i]);
        reader_job *job = &x->slots[slots[i]].job;
        if (!reader_is_done(job)) reader_hurry(x->reader, job);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (slots[i] != NO_SLOT) continue;
        uint32_t victim = find_victim(x);
        if (victim == NO_SLOT) victim = wait_for_victim(x);
        start_read(x, victim, layer, list[i], true);
        take_in_use(x, victim);
        slots[i] = victim;
    }
}

/* What is read ahead stays where what it replaced was in the order of use: wanted, it is in use
 * before anything else gives way; not wanted, it is the first to do so. Else wrong guesses would
 * fill the memory with what nobody wants. */
void experts_ahead(expert_store *x, graph_id layer, const uint32_t *list, uint32_t n, bool guessed)
{
    uint32_t room = x->n_slots - x->n_in_use;
    if (n > room) n = room;
    x->round++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot_i = find(x, layer, list[i]);
        if (slot_i != NO_SLOT) x->slots[slot_i].round = x->round;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (find(x, layer, list[i]) != NO_SLOT) continue;
        uint32_t victim = find_victim(x);
        if (victim == NO_SLOT) return;
        if (x->slots[victim].layer == 0) touch(x, victim); /* others are empty, too */
        start_read(x, victim, layer, list[i], false);
        x->slots[victim].round = x->round;
        x->slots[victim].guessed = guessed;
        if (guessed) add(&x->n_ahead, 1);
    }
}

weft_status experts_wait(expert_store *x, uint32_t slot, weft_error *err)
{
    return reader_wait(x->reader, &x->slots[slot].job, err);
}

const tensor *experts_matrix(const expert_store *x, uint32_t slot, uint32_t i)
{
    return &x->slots[slot].matrices[i];
}

void experts_get_stats(expert_store *x, backend_expert_stats *stats)
{
    *stats = (backend_expert_stats){
        .n_bytes = x->block_bytes + x->n_slots * sizeof *x->slots,
        .n_used = atomic_load_explicit(&x->n_used, memory_order_relaxed),
        .n_hits = atomic_load_explicit(&x->n_hits, memory_order_relaxed),
        .n_ahead = atomic_load_explicit(&x->n_ahead, memory_order_relaxed),
        .n_ahead_used = atomic_load_explicit(&x->n_ahead_used, memory_order_relaxed),
        .bytes_read = reader_bytes(x->reader),
    };
}
