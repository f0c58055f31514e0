/* expert_place.c - ranges of files for an expert's matrices.
 *
 * A matrix is up to three planes, each a run of bytes in a file: codes, scales, biases. What reads
 * may be narrower than what is touched (every second row of a matrix that gate and up share), so
 * runs overlap and are joined. Blocks are kept whole in memory, so that files are read directly
 * into place and every plane has the alignment that it has in its file. */
#include "backend/expert_place.h"

#include "base/assert.h"
#include "tensor/encoding.h"

const tensor *expert_matrix(const graph *g, const graph_value *v, uint32_t expert, uint32_t i)
{
    return &g->tensors[g->values[v->in[2 + i]].i[0] + expert];
}

static expert_range find_range(const backend_experts *files, const unsigned char *first,
                               uint64_t n_bytes)
{
    uintptr_t at = (uintptr_t)first;
    uint32_t i = 0;
    while (at - (uintptr_t)files->maps[i].data >= files->maps[i].size) {
        i++;
        ASSERT(i < files->n_files);
    }
    uint64_t offset = at - (uintptr_t)files->maps[i].data;
    ASSERT(n_bytes <= files->maps[i].size - offset);
    uint64_t end = offset + n_bytes;
    return (expert_range){.file_i = i,
                          .first = offset / IO_BLOCK * IO_BLOCK,
                          .end = (end + IO_BLOCK - 1) / IO_BLOCK * IO_BLOCK,
                          .needed = end};
}

static bool is_before(const expert_range *a, const expert_range *b)
{
    return a->file_i != b->file_i ? a->file_i < b->file_i : a->first < b->first;
}

/* Keeps them in order. */
static void add_range(expert_place *place, expert_range range)
{
    uint32_t i = place->n_ranges++;
    for (; i > 0 && is_before(&range, &place->ranges[i - 1]); i--)
        place->ranges[i] = place->ranges[i - 1];
    place->ranges[i] = range;
}

static void join_ranges(expert_place *place)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < place->n_ranges; i++) {
        const expert_range range = place->ranges[i];
        expert_range *last = n > 0 ? &place->ranges[n - 1] : NULL;
        if (last == NULL || last->file_i != range.file_i || last->end < range.first) {
            place->ranges[n++] = range;
            continue;
        }
        if (range.end > last->end) last->end = range.end;
        if (range.needed > last->needed) last->needed = range.needed;
    }
    place->n_ranges = n;
    for (uint32_t i = 0; i < n; i++) {
        place->ranges[i].at = place->n_bytes;
        place->n_bytes += place->ranges[i].end - place->ranges[i].first;
    }
}

void expert_place_find(const graph *g, const graph_value *v, uint32_t expert,
                       const backend_experts *files, expert_place *place)
{
    expert_range of[EXPERT_RANGES];
    place->n_ranges = 0;
    place->n_bytes = 0;
    for (uint32_t i = 0; i < EXPERT_RANGES; i++) {
        const tensor *t = expert_matrix(g, v, expert, i / TENSOR_PLANES);
        uint64_t n_bytes = tensor_plane_reach(t, i % TENSOR_PLANES);
        of[i].end = 0;
        if (n_bytes == 0) continue;
        of[i] = find_range(files, t->planes[i % TENSOR_PLANES], n_bytes);
        add_range(place, of[i]);
    }
    join_ranges(place);
    for (uint32_t i = 0; i < EXPERT_RANGES; i++) {
        const tensor *t = expert_matrix(g, v, expert, i / TENSOR_PLANES);
        uint64_t *plane = &place->planes[i / TENSOR_PLANES][i % TENSOR_PLANES];
        *plane = 0;
        if (of[i].end == 0) continue;
        const expert_range *in = place->ranges;
        while (in->file_i != of[i].file_i || of[i].first >= in->end) in++;
        uintptr_t start = (uintptr_t)files->maps[in->file_i].data;
        *plane = in->at + ((uintptr_t)t->planes[i % TENSOR_PLANES] - start - in->first);
    }
}
