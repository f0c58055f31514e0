/* test_reader.c - files read by threads: every byte where it belongs, urgent jobs first, jobs taken
 * back, and failures. */
#include "base/reader.h"

#include <stdlib.h>
#include <string.h>

#include "support/fault.h"
#include "support/group_folder.h"

enum { BLOCKS = 700, FILE_BYTES = BLOCKS * IO_BLOCK + 100, JOBS = 24 };

static unsigned char content[FILE_BYTES];

/* A file of FILE_BYTES, mapped only to say which it is. */
typedef struct source {
    fault_io disk;
    io_map map;
    io_file file;
    const char *path;
} source;

static void source_open(source *s)
{
    weft_error err = {WEFT_OK, ""};
    for (size_t i = 0; i < FILE_BYTES; i++) content[i] = (unsigned char)(i * 2654435761u >> 13);
    s->path = test_folder_write(&folder, "file", content, FILE_BYTES);
    fault_io_init(&s->disk, 0);
    const io *files = &s->disk.io;
    assert_ok(files->map(files, s->path, &s->map, &err), &err);
    assert_ok(files->open_blocks(files, s->path, &s->map, &s->file, &err), &err);
}

static void source_close(source *s)
{
    const io *files = &s->disk.io;
    assert_ok(files->close(files, &s->file, NULL), NULL);
    files->unmap(files, &s->map);
    fault_io_check(&s->disk);
}

static unsigned char *memory_of(size_t n_bytes)
{
    unsigned char *memory = mem_alloc_aligned(mem_system(), n_bytes, IO_BLOCK);
    assert_non_null(memory);
    memset(memory, 0xee, n_bytes);
    return memory;
}

/* Two ranges of job i, in any order, one of them larger than a piece. */
static void make_job(reader_job *job, const source *s, unsigned char *to, size_t i)
{
    memset(job, 0, sizeof *job);
    job->n_ranges = 2;
    job->ranges[0] = (reader_range){.file = &s->file,
                                    .offset = (300 + i) * IO_BLOCK,
                                    .to = to,
                                    .n_bytes = (size_t)READER_PIECE + IO_BLOCK,
                                    .n_least = (size_t)READER_PIECE + 1};
    job->ranges[1] = (reader_range){.file = &s->file,
                                    .offset = i * IO_BLOCK,
                                    .to = to + READER_PIECE + IO_BLOCK,
                                    .n_bytes = IO_BLOCK,
                                    .n_least = IO_BLOCK};
}

enum { JOB_BYTES = READER_PIECE + 2 * IO_BLOCK };

static void check_job(const unsigned char *memory, size_t i)
{
    assert_memory_equal(memory, content + (300 + i) * IO_BLOCK, READER_PIECE + 1);
    assert_memory_equal(memory + READER_PIECE + IO_BLOCK, content + i * IO_BLOCK, IO_BLOCK);
}

static void test_many_jobs(void **state)
{
    (void)state;
    source s;
    source_open(&s);
    static reader_job jobs[JOBS];
    unsigned char *memory = memory_of((size_t)JOBS * JOB_BYTES);
    for (uint32_t n_threads = 1; n_threads <= 5; n_threads += 2) {
        reader *r;
        weft_error err = {WEFT_OK, ""};
        memset(memory, 0, (size_t)JOBS * JOB_BYTES);
        assert_ok(reader_create(mem_system(), &s.disk.io, n_threads, &r, &err), &err);
        for (size_t i = 0; i < JOBS; i++) {
            make_job(&jobs[i], &s, memory + i * JOB_BYTES, i);
            reader_submit(r, &jobs[i], i % 3 == 0);
        }
        for (size_t i = 0; i < JOBS; i += 5) reader_hurry(r, &jobs[i]);
        for (size_t i = JOBS; i-- > 0;) {
            assert_ok(reader_wait(r, &jobs[i], &err), &err);
            assert_true(reader_is_done(&jobs[i]));
            assert_false(reader_drop(r, &jobs[i]));
            check_job(memory + i * JOB_BYTES, i);
        }
        assert_int_equal(reader_bytes(r), (uint64_t)JOBS * (READER_PIECE + 1 + IO_BLOCK));
        reader_destroy(r);
    }
    mem_free_aligned(mem_system(), memory, (size_t)JOBS * JOB_BYTES, IO_BLOCK);
    source_close(&s);
}

/* Whole blocks are asked for where the file ends within one. */
static void test_end_of_file(void **state)
{
    (void)state;
    source s;
    source_open(&s);
    reader *r;
    weft_error err = {WEFT_OK, ""};
    unsigned char *memory = memory_of(2 * IO_BLOCK);
    assert_ok(reader_create(mem_system(), &s.disk.io, 2, &r, &err), &err);
    reader_job job = {.n_ranges = 1};
    job.ranges[0] = (reader_range){.file = &s.file,
                                   .offset = (uint64_t)(BLOCKS - 1) * IO_BLOCK,
                                   .to = memory,
                                   .n_bytes = 2 * IO_BLOCK,
                                   .n_least = IO_BLOCK + 100};
    reader_submit(r, &job, true);
    assert_ok(reader_wait(r, &job, &err), &err);
    assert_memory_equal(memory, content + (BLOCKS - 1) * IO_BLOCK, IO_BLOCK + 100);
    /* One byte more than there is. */
    job.ranges[0].n_least++;
    reader_submit(r, &job, true);
    assert_status(WEFT_IO, reader_wait(r, &job, &err), &err);
    assert_message(&err, s.path);
    assert_message(&err, "it ends at byte");
    reader_destroy(r);
    mem_free_aligned(mem_system(), memory, 2 * IO_BLOCK, IO_BLOCK);
    source_close(&s);
}

/* A disk whose reads wait until they are let go, and are noted. */
typedef struct gate {
    io io;
    const io *inner;
    atomic_bool closed;
    atomic_size_t n_waiting, n_read;
    uint64_t offsets[8]; /* [n_read] */
} gate;

static weft_status gate_read(const io *files, const io_file *f, uint64_t offset, void *buffer,
                             size_t n_bytes, size_t n_least, weft_error *err)
{
    gate *g = files->user;
    atomic_fetch_add(&g->n_waiting, 1);
    while (atomic_load(&g->closed)) continue;
    g->offsets[atomic_fetch_add(&g->n_read, 1)] = offset;
    return g->inner->read_blocks(g->inner, f, offset, buffer, n_bytes, n_least, err);
}

/* With one thread that is busy: the order of what waits can be seen. */
static void test_order(void **state)
{
    (void)state;
    source s;
    source_open(&s);
    gate g = {.io = {.user = &g, .read_blocks = gate_read}, .inner = &s.disk.io};
    reader *r;
    weft_error err = {WEFT_OK, ""};
    atomic_store(&g.closed, true);
    assert_ok(reader_create(mem_system(), &g.io, 1, &r, &err), &err);
    reader_job jobs[6];
    unsigned char *memory = memory_of((size_t)6 * IO_BLOCK);
    memset(jobs, 0, sizeof jobs);
    for (size_t i = 0; i < 6; i++) {
        jobs[i].n_ranges = 1;
        jobs[i].ranges[0] = (reader_range){.file = &s.file,
                                           .offset = i * IO_BLOCK,
                                           .to = memory + i * IO_BLOCK,
                                           .n_bytes = IO_BLOCK,
                                           .n_least = IO_BLOCK};
        reader_submit(r, &jobs[i], i == 4);
        while (i == 0 && atomic_load(&g.n_waiting) == 0) continue;
    }
    assert_false(reader_drop(r, &jobs[0])); /* it is being read */
    assert_true(reader_drop(r, &jobs[2]));
    assert_false(reader_drop(r, &jobs[2]));
    reader_hurry(r, &jobs[5]);
    reader_hurry(r, &jobs[0]);
    assert_false(reader_is_done(&jobs[0]));
    atomic_store(&g.closed, false);
    static const uint64_t ORDER[] = {0, 4, 5, 1, 3};
    for (size_t i = 0; i < 5; i++) assert_ok(reader_wait(r, &jobs[ORDER[i]], &err), &err);
    assert_int_equal(atomic_load(&g.n_read), 5);
    for (size_t i = 0; i < 5; i++) assert_int_equal(g.offsets[i], ORDER[i] * IO_BLOCK);
    for (size_t i = 0; i < 6; i++) {
        if (i != 2) assert_memory_equal(memory + i * IO_BLOCK, content + i * IO_BLOCK, IO_BLOCK);
    }
    assert_int_equal(memory[2 * IO_BLOCK], 0xee);
    /* What was taken back can be asked for again. */
    reader_submit(r, &jobs[2], false);
    assert_ok(reader_wait(r, &jobs[2], &err), &err);
    assert_memory_equal(memory + 2 * IO_BLOCK, content + 2 * IO_BLOCK, IO_BLOCK);
    /* Jobs that wait when it ends are forgotten. */
    for (size_t i = 0; i < 3; i++) reader_submit(r, &jobs[i], false);
    reader_destroy(r);
    mem_free_aligned(mem_system(), memory, (size_t)6 * IO_BLOCK, IO_BLOCK);
    source_close(&s);
}

/* The first piece fails, or the last: the job fails, and what comes behind does not. */
static void test_failures(void **state)
{
    (void)state;
    source s;
    source_open(&s);
    unsigned char *memory = memory_of(JOB_BYTES);
    reader *r;
    weft_error err = {WEFT_OK, ""};
    assert_ok(reader_create(mem_system(), &s.disk.io, 1, &r, &err), &err);
    for (size_t nth = 1; nth <= 4; nth++) {
        reader_job job;
        make_job(&job, &s, memory, 3);
        atomic_store(&s.disk.fail_at, atomic_load(&s.disk.n_operations) + nth);
        reader_submit(r, &job, nth % 2 == 0);
        err = (weft_error){WEFT_OK, ""};
        if (nth == 4) {
            assert_ok(reader_wait(r, &job, &err), &err);
            check_job(memory, 3);
            atomic_store(&s.disk.fail_at, 0);
            continue;
        }
        assert_status(WEFT_IO, reader_wait(r, &job, &err), &err);
        assert_message(&err, "injected");
        assert_status(WEFT_IO, reader_wait(r, &job, NULL), NULL);
        err = (weft_error){WEFT_OK, ""};
        reader_submit(r, &job, true);
        assert_ok(reader_wait(r, &job, &err), &err);
        check_job(memory, 3);
    }
    reader_destroy(r);
    mem_free_aligned(mem_system(), memory, JOB_BYTES, IO_BLOCK);
    source_close(&s);
}

static weft_status make_reader(const env *world, void *user, weft_error *err)
{
    (void)user;
    reader *r;
    weft_status status = reader_create(world->allocator, world->io, 3, &r, err);
    reader_destroy(r);
    return status;
}

static void test_allocations(void **state)
{
    (void)state;
    assert_int_equal(fault_sweep(make_reader, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_jobs),   cmocka_unit_test(test_end_of_file),
        cmocka_unit_test(test_order),       cmocka_unit_test(test_failures),
        cmocka_unit_test(test_allocations),
    };
    return cmocka_run_group_tests_name("base/reader", tests, setup, teardown);
}
