/* trace.c - where the time of steps went: the engine's parts, sampling, and what is left. */
#include "cli/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"

enum { PARTS_MOST = 256 };

typedef struct trace_times {
    uint64_t n_steps;
    double steps, sampling, rest; /* seconds */
    uint32_t n_parts;
    weft_trace_part parts[PARTS_MOST];
} trace_times;

static weft_status get_info(weft_engine *engine, weft_engine_info *info, weft_error *err)
{
    *info = (weft_engine_info){.struct_size = sizeof *info};
    return weft_engine_get_info(engine, info, err);
}

weft_status step_trace_begin(step_trace *t, weft_engine *engine, weft_error *err)
{
    weft_engine_info info;
    *t = (step_trace){0};
    weft_status status = get_info(engine, &info, err);
    if (status == WEFT_OK) status = weft_engine_trace(engine, true, err);
    if (status != WEFT_OK) return status;
    *t = (step_trace){engine, info.n_steps, info.ns_steps, info.ns_samples};
    return WEFT_OK;
}

static int compare_parts(const void *a, const void *b)
{
    const weft_trace_part *x = a;
    const weft_trace_part *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static weft_status read_times(const step_trace *t, trace_times *times, weft_error *err)
{
    weft_engine_info info;
    weft_status status = get_info(t->engine, &info, err);
    if (status != WEFT_OK) return status;
    times->n_steps = info.n_steps - t->n_steps;
    times->steps = (double)(info.ns_steps - t->ns_steps) * 1e-9;
    times->sampling = (double)(info.ns_samples - t->ns_samples) * 1e-9;
    times->rest = times->steps - times->sampling;
    for (uint32_t i = 0; i < PARTS_MOST; i++) {
        weft_trace_part *part = &times->parts[i];
        part->struct_size = sizeof *part;
        /* There are no more. */
        if (weft_engine_trace_part(t->engine, i, part, NULL) != WEFT_OK) break;
        times->rest -= part->seconds;
        times->n_parts++;
    }
    if (times->rest < 0.0) times->rest = 0.0;
    qsort(times->parts, times->n_parts, sizeof *times->parts, compare_parts);
    return WEFT_OK;
}

/* ---- as a table ------------------------------------------------------------------------------ */

static double per_step_ms(const trace_times *times, double seconds)
{
    return seconds * 1e3 / (double)times->n_steps;
}

static void add_row(const trace_times *times, const char *work, double seconds, strbuf *table)
{
    strbuf_printf(table, "%-18s %54.3f %6.1f%%\n", work, per_step_ms(times, seconds),
                  100.0 * seconds / times->steps);
}

static void add_part(const trace_times *times, const weft_trace_part *part, strbuf *table)
{
    char shape[32] = "";
    double n_steps = (double)times->n_steps;
    if (part->n_in != 0) snprintf(shape, sizeof shape, "%u x %u", part->n_out, part->n_in);
    strbuf_printf(table, "%-18s %-16s %15s %10.1f %10.3f %6.1f%% %9.3f", part->work, part->weights,
                  shape, (double)part->n_calls / n_steps, per_step_ms(times, part->seconds),
                  100.0 * part->seconds / times->steps, per_step_ms(times, part->idle_seconds));
    if (part->n_bytes != 0 && part->seconds > 0.0)
        strbuf_printf(table, " %9.2f %7.1f", (double)part->n_bytes / n_steps / 1e6,
                      (double)part->n_bytes / part->seconds / 1e9);
    strbuf_add_text(table, "\n");
}

static void add_table(const trace_times *times, const char *title, strbuf *table)
{
    strbuf_printf(table, "\n%s: %llu steps of %.3f ms\n", title, (unsigned long long)times->n_steps,
                  per_step_ms(times, times->steps));
    strbuf_printf(table, "%-18s %-16s %15s %10s %10s %7s %9s %9s %7s\n", "work", "weights",
                  "rows x columns", "calls/step", "ms/step", "share", "idle ms", "MB/step", "GB/s");
    for (uint32_t i = 0; i < times->n_parts; i++) {
        if (times->parts[i].n_calls != 0) add_part(times, &times->parts[i], table);
    }
    add_row(times, "sampling", times->sampling, table);
    add_row(times, "rest of the engine", times->rest, table);
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void add_json(const trace_times *times, strbuf *members)
{
    strbuf_printf(members, ",\"steps\":%llu,\"seconds\":%.9f,\"sampling\":%.9f,\"rest\":%.9f",
                  (unsigned long long)times->n_steps, times->steps, times->sampling, times->rest);
    strbuf_add_text(members, ",\"parts\":[");
    const char *between = "";
    for (uint32_t i = 0; i < times->n_parts; i++) {
        const weft_trace_part *part = &times->parts[i];
        if (part->n_calls == 0) continue;
        strbuf_printf(members, "%s{\"work\":", between);
        json_write_text(str_of(part->work), members);
        strbuf_add_text(members, ",\"weights\":");
        json_write_text(str_of(part->weights), members);
        strbuf_printf(members,
                      ",\"rows\":%u,\"columns\":%u,\"calls\":%llu,\"bytes\":%llu,"
                      "\"seconds\":%.9f,\"idle\":%.9f}",
                      part->n_out, part->n_in, (unsigned long long)part->n_calls,
                      (unsigned long long)part->n_bytes, part->seconds, part->idle_seconds);
        between = ",";
    }
    strbuf_add_text(members, "]");
}

weft_status step_trace_end(step_trace *t, const char *title, strbuf *table, strbuf *members,
                           weft_error *err)
{
    if (t->engine == NULL) return WEFT_OK;
    trace_times *times = mem_alloc_zero(mem_system(), sizeof *times);
    weft_status status = WEFT_OK;
    if (times == NULL) status = err_set(err, WEFT_NOMEM, "out of memory for a trace");
    if (status == WEFT_OK) status = read_times(t, times, err);
    if (status == WEFT_OK && times->n_steps > 0) {
        add_table(times, title, table);
        add_json(times, members);
    }
    mem_free(mem_system(), times, sizeof *times);
    weft_engine_trace(t->engine, false, NULL);
    t->engine = NULL;
    return status;
}
