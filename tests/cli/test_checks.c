/* test_checks.c - the checker is checked: what weft selfcheck runs finds nothing where there is
 * nothing, and in each of its rows one bit that is planted there.
 *
 * tests/CMakeLists.txt compiles the checks with other names for weft_submit and weft_poll, those of
 * functions in this file, where a result may be changed on its way. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "cli/checks.h"
#include "support/files.h"
#include "support/runs.h"

/* ---- between the checks and the library ------------------------------------------------------ */

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_LOGIT,
    FAULT_LOGPROB,
    FAULT_TOKEN,
    FAULT_ERROR,     /* the request fails */
    FAULT_FORGETFUL, /* of every request: nothing was known */
    FAULT_MINDFUL,   /* of every request: all was known */
    FAULT_SILENT,    /* of every request: nothing was drafted */
} fault_kind;

enum { REQUESTS_MOST = 512, ALONE = CHECK_ROWS, TRACE_QUICK = 14 };

/* Requests with logits are counted; the others only ask whether there is room. */
static struct {
    fault_kind kind;
    uint32_t at; /* which request, from 0 */
    uint32_t n;
    uint32_t row; /* where the checks are */
    struct {
        weft_handle handle;
        uint32_t row, n_prompt, max_new, n_tokens;
        bool has_form;
        float *logits;
    } requests[REQUESTS_MOST];
    uint32_t n_vocab;
} plant;

weft_status planted_submit(weft_engine *engine, const weft_request *request, weft_handle *handle,
                           weft_error *err);
weft_status planted_poll(weft_engine *engine, weft_handle handle, weft_event *event,
                         weft_error *err);

weft_status planted_submit(weft_engine *engine, const weft_request *request, weft_handle *handle,
                           weft_error *err)
{
    weft_status status = weft_submit(engine, request, handle, err);
    if (status != WEFT_OK || request->new_logits == NULL) return status;
    assert_true(plant.n < REQUESTS_MOST);
    plant.requests[plant.n].handle = *handle;
    plant.requests[plant.n].row = plant.row;
    plant.requests[plant.n].n_prompt = request->n_prompt;
    plant.requests[plant.n].max_new = request->max_new;
    plant.requests[plant.n].n_tokens = 0;
    plant.requests[plant.n].has_form = request->grammar != NULL;
    plant.requests[plant.n].logits = request->new_logits;
    plant.n++;
    return WEFT_OK;
}

static void flip_lowest_bit(float *number)
{
    uint32_t bits;
    memcpy(&bits, number, sizeof bits);
    bits ^= 1;
    memcpy(number, &bits, sizeof bits);
}

/* The last logit of the last token, the log-probability of the first, or the second token. */
static void plant_fault(uint32_t i, weft_event *event)
{
    if (event->kind == WEFT_EVENT_TOKEN) {
        uint32_t token = plant.requests[i].n_tokens++;
        if (plant.kind == FAULT_LOGPROB && token == 0) flip_lowest_bit(&event->logprob);
        if (plant.kind == FAULT_TOKEN && token == 1) event->token ^= 1;
    }
    if (event->kind != WEFT_EVENT_DONE) return;
    size_t n_logits = (size_t)plant.requests[i].max_new * plant.n_vocab;
    if (plant.kind == FAULT_LOGIT) flip_lowest_bit(&plant.requests[i].logits[n_logits - 1]);
    if (plant.kind == FAULT_ERROR) {
        event->finish = WEFT_FINISH_ERROR;
        event->error = (weft_error){WEFT_DEVICE, "planted"};
    }
}

weft_status planted_poll(weft_engine *engine, weft_handle handle, weft_event *event,
                         weft_error *err)
{
    weft_status status = weft_poll(engine, handle, event, err);
    uint32_t i = plant.n;
    while (i > 0 && plant.requests[i - 1].handle != handle) i--;
    if (status != WEFT_OK || i == 0) return status;
    i--;
    if (plant.kind == FAULT_FORGETFUL) event->n_cached = 0;
    if (plant.kind == FAULT_MINDFUL) event->n_cached = plant.requests[i].n_prompt - 1;
    if (plant.kind == FAULT_SILENT) event->n_drafted = 0;
    if (i == plant.at) plant_fault(i, event);
    return WEFT_OK;
}

/* ---- runs of the checks ---------------------------------------------------------------------- */

static void watch(void *user, const char *codec, const char *label)
{
    (void)user;
    (void)codec;
    plant.row = ALONE;
    for (uint32_t row = 0; row < CHECK_ROWS; row++) {
        if (strcmp(check_label((check_row)row), label) == 0) plant.row = row;
    }
}

static char state_file[600];
static char state_folder[600];

/* What one run left there would be found by the next. */
static void empty_state_folder(void)
{
    const io *files = io_system();
    char *names;
    size_t n_bytes;
    char path[1200];
    assert_ok(files->list(files, state_folder, mem_system(), &names, &n_bytes, NULL), NULL);
    for (const char *name = names; *name != '\0'; name += strlen(name) + 1) {
        snprintf(path, sizeof path, "%s/%s", state_folder, name);
        files->remove(files, path);
    }
    mem_free(mem_system(), names, n_bytes);
}

static void prepare(checks *c, const weft_model *model, fault_kind kind, uint32_t at)
{
    empty_state_folder();
    memset(&plant, 0, sizeof plant);
    plant.kind = kind;
    plant.at = at;
    plant.n_vocab = run_n_vocab(model);
    *c = (checks){.model = model,
                  .quick = true,
                  .seed = CHECKS_SEED,
                  .file = state_file,
                  .folder = state_folder,
                  .codecs = {"affine8g64"},
                  .n_codecs = 1,
                  .progress = watch,
                  .options = {.n_threads = 2}};
}

static void run_checks(checks *c, const weft_model *model, fault_kind kind, uint32_t at)
{
    weft_error err = {WEFT_OK, ""};
    prepare(c, model, kind, at);
    assert_ok(checks_run(c, &err), &err);
}

static weft_model *open_golden(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", WEFT_GOLDEN_DIR, name);
    return run_open_model(path);
}

/* Its last request, but where that is company whose answer nobody looks at. */
static uint32_t request_of(uint32_t row)
{
    uint32_t first = plant.n;
    uint32_t last = 0;
    for (uint32_t i = plant.n; i-- > 0;) {
        if (plant.requests[i].row != row) continue;
        if (last == 0) last = i;
        first = i;
    }
    assert_true(first < plant.n);
    return row == CHECK_CODECS ? first : last;
}

/* ---- nothing planted, and one bit in each row ------------------------------------------------ */

static void test_every_row_sees_a_fault_and_only_its_own(void **state)
{
    (void)state;
    checks c;
    weft_model *model = open_golden("gemma3");
    run_checks(&c, model, FAULT_NONE, 0);
    assert_int_equal(c.n_wrong, 0);
    assert_int_equal(c.n_threads, 2);
    uint32_t n_compared = 0;
    for (uint32_t row = 0; row < CHECK_ROWS; row++) {
        assert_int_equal(c.cells[row][0].result, CHECK_EQUAL);
        assert_true(c.cells[row][0].n_compared >= 2);
        n_compared += c.cells[row][0].n_compared;
    }
    assert_int_equal(n_compared, c.n_compared);
    assert_true(c.cells[CHECK_WARM][0].n_reused > 63);
    assert_true(c.cells[CHECK_PRESSED][0].n_reused > 0);
    assert_true(c.cells[CHECK_DRAFTS][0].n_accepted > 0);
    assert_int_equal(c.cells[CHECK_PAUSED][0].n_paused, 2);
    const check_cell *trace = &c.cells[CHECK_TRACE][0];
    assert_int_equal(trace->n_compared, TRACE_QUICK);
    assert_true(trace->n_cancelled > 0 && trace->n_paused > 0 && trace->n_reused > 1);
    assert_true(trace->n_drafted > 0 && trace->n_fetched > 0);
    assert_string_equal(trace->without, "forms");
    uint32_t at[CHECK_ROWS];
    for (uint32_t row = 0; row < CHECK_ROWS; row++) at[row] = request_of(row);
    for (uint32_t row = 0; row < CHECK_ROWS; row += TEST_SLOWED ? 4 : 1) {
        fault_kind kind = (fault_kind)(FAULT_LOGIT + row % 3);
        run_checks(&c, model, kind, at[row]);
        assert_int_equal(c.n_wrong, 1);
        for (uint32_t other = 0; other < CHECK_ROWS; other++) {
            assert_int_equal(c.cells[other][0].result, other == row ? CHECK_DIFFERS : CHECK_EQUAL);
        }
        const check_cell *cell = &c.cells[row][0];
        if (row == CHECK_TRACE) {
            assert_int_equal(cell->prompt, TRACE_QUICK);
        } else {
            assert_int_equal(c.prompts[cell->prompt - 1], plant.requests[at[row]].n_prompt);
        }
        uint32_t last = plant.requests[at[row]].max_new;
        assert_int_equal(cell->token, kind == FAULT_LOGIT ? last : kind == FAULT_LOGPROB ? 1 : 2);
    }
    weft_model_close(model);
}

/* The first request of the row. */
static uint32_t first_of(uint32_t row)
{
    uint32_t i = 0;
    while (i < plant.n && plant.requests[i].row != row) i++;
    assert_true(i < plant.n);
    return i;
}

/* Whichever request of the trace it is: of a form, cancelled, paused. */
static void test_every_request_of_a_trace_is_looked_at(void **state)
{
    (void)state;
    checks c;
    weft_model *model = run_open_model(WEFT_SOURCE_DIR "/models/tiny/draft");
    run_checks(&c, model, FAULT_NONE, 0);
    assert_int_equal(c.n_wrong, 0);
    assert_string_equal(c.cells[CHECK_TRACE][0].without, "");
    uint32_t first = first_of(CHECK_TRACE);
    assert_true(plant.n - first >= 2 * TRACE_QUICK);
    uint32_t n_forms = 0;
    for (uint32_t i = plant.n - TRACE_QUICK; i < plant.n; i++)
        n_forms += plant.requests[i].has_form;
    assert_true(n_forms >= 2);
    for (uint32_t i = 0; i < TRACE_QUICK; i += TEST_SLOWED ? 5 : 1) {
        /* In all company, and alone. */
        run_checks(&c, model, FAULT_LOGPROB, i % 2 == 0 ? first + i : plant.n - TRACE_QUICK + i);
        bool none_came = c.n_wrong == 0;
        /* Of what was cancelled before its first token there is nothing to look at. */
        if (none_came) {
            assert_int_equal(i % 2, 1);
            assert_int_equal(plant.requests[first + i].n_tokens, 0);
            continue;
        }
        assert_int_equal(c.n_wrong, 1);
        assert_int_equal(c.cells[CHECK_TRACE][0].result, CHECK_DIFFERS);
        assert_int_equal(c.cells[CHECK_TRACE][0].prompt, i + 1);
        assert_int_equal(c.cells[CHECK_TRACE][0].token, 1);
    }
    weft_model_close(model);
}

static void test_another_seed_is_another_trace(void **state)
{
    (void)state;
    checks c;
    uint32_t lengths[2][TRACE_QUICK];
    weft_model *model = open_golden("llama");
    for (uint32_t pass = 0; pass < 3; pass++) {
        prepare(&c, model, FAULT_NONE, 0);
        c.seed += pass / 2;
        assert_ok(checks_run(&c, NULL), NULL);
        assert_int_equal(c.n_wrong, 0);
        for (uint32_t i = 0; i < TRACE_QUICK; i++)
            lengths[pass > 0][i] = plant.requests[plant.n - TRACE_QUICK + i].n_prompt;
        bool same = memcmp(lengths[0], lengths[1], sizeof lengths[0]) == 0;
        if (pass > 0) assert_int_equal(same, pass == 1);
    }
    weft_model_close(model);
}

/* Without a place for files it is memory alone that gives way. */
static void test_a_trace_without_a_folder(void **state)
{
    (void)state;
    checks c;
    weft_model *model = open_golden("llama");
    prepare(&c, model, FAULT_NONE, 0);
    c.folder = NULL;
    assert_ok(checks_run(&c, NULL), NULL);
    assert_int_equal(c.n_wrong, 0);
    assert_int_equal(c.cells[CHECK_TRACE][0].result, CHECK_EQUAL);
    assert_int_equal(c.cells[CHECK_TRACE][0].n_fetched, 0);
    assert_string_equal(c.cells[CHECK_TRACE][0].without, "forms, drafts, a folder");
    weft_model_close(model);
}

/* What all is compared with is no more trusted than the rest. */
static void test_a_fault_in_what_is_compared_with(void **state)
{
    (void)state;
    checks c;
    weft_model *model = open_golden("llama");
    /* After the text that repeats itself: the prompt of one token. */
    run_checks(&c, model, FAULT_LOGIT, 1);
    assert_int_equal(plant.requests[1].row, ALONE);
    assert_int_equal(plant.requests[1].n_prompt, 1);
    static const check_row USES[] = {CHECK_CHUNKS_1, CHECK_COMPANY_3, CHECK_COMPANY_6,
                                     CHECK_THREADS,  CHECK_PRESSED,   CHECK_PAUSED};
    assert_int_equal(c.n_wrong, sizeof USES / sizeof USES[0]);
    for (size_t i = 0; i < sizeof USES / sizeof USES[0]; i++) {
        assert_int_equal(c.cells[USES[i]][0].result, CHECK_DIFFERS);
        assert_int_equal(c.cells[USES[i]][0].prompt, 1);
    }
    weft_model_close(model);
}

/* ---- checks that did not do what they are about ---------------------------------------------- */

static void test_a_check_of_nothing_fails(void **state)
{
    (void)state;
    checks c;
    weft_model *model = open_golden("gemma3");
    run_checks(&c, model, FAULT_FORGETFUL, 0);
    assert_int_equal(c.n_wrong, 4);
    assert_int_equal(c.cells[CHECK_TRACE][0].result, CHECK_EMPTY);
    assert_string_equal(c.cells[CHECK_TRACE][0].reason, "nothing was reused");
    assert_int_equal(c.cells[CHECK_RESTORED][0].result, CHECK_EMPTY);
    assert_string_equal(c.cells[CHECK_RESTORED][0].reason, "nothing was restored");
    assert_int_equal(c.cells[CHECK_WARM][0].result, CHECK_EMPTY);
    assert_string_equal(c.cells[CHECK_WARM][0].reason, "nothing was reused");
    assert_int_equal(c.cells[CHECK_PRESSED][0].result, CHECK_EMPTY);
    run_checks(&c, model, FAULT_MINDFUL, 0);
    assert_int_equal(c.n_wrong, 1);
    assert_int_equal(c.cells[CHECK_PRESSED][0].result, CHECK_EMPTY);
    assert_string_equal(c.cells[CHECK_PRESSED][0].reason, "nothing was evicted");
    run_checks(&c, model, FAULT_SILENT, 0);
    assert_int_equal(c.n_wrong, 0);
    assert_int_equal(c.cells[CHECK_DRAFTS][0].result, CHECK_SKIPPED);
    assert_string_equal(c.cells[CHECK_DRAFTS][0].reason, "nothing was drafted");
    weft_model_close(model);
}

static void test_a_request_that_fails_ends_the_checks(void **state)
{
    (void)state;
    checks c;
    weft_model *model = open_golden("llama");
    for (uint32_t at = 0; at < 150; at += 37) {
        weft_error err = {WEFT_OK, ""};
        prepare(&c, model, FAULT_ERROR, at);
        weft_status status = checks_run(&c, &err);
        assert_status(plant.n > at ? WEFT_DEVICE : WEFT_OK, status, &err);
        if (at == 0) assert_message(&err, "planted");
    }
    weft_model_close(model);
}

static void test_contexts_that_hold_little(void **state)
{
    (void)state;
    checks c;
    weft_error err = {WEFT_OK, ""};
    weft_model *model = open_golden("llama");
    prepare(&c, model, FAULT_NONE, 0);
    c.context = 6;
    assert_status(WEFT_LIMIT, checks_run(&c, &err), &err);
    assert_message(&err, "the context holds 6 tokens, the checks need 7");
    for (uint32_t context = 7; context < 90; context += 16) {
        prepare(&c, model, FAULT_NONE, 0);
        c.context = context;
        assert_ok(checks_run(&c, NULL), NULL);
        assert_int_equal(c.n_wrong, 0);
        assert_int_equal(c.cells[CHECK_CHUNKS_1][0].result, CHECK_EQUAL);
        for (uint32_t i = 0; i < c.n_prompts; i++) assert_true(c.prompts[i] + 6 <= context);
        assert_int_equal(c.cells[CHECK_WARM][0].result, context < 71 ? CHECK_SKIPPED : CHECK_EQUAL);
    }
    weft_model_close(model);
}

/* Prompts are counted as they are listed, those that do not fit left out. */
static void test_the_number_of_a_prompt(void **state)
{
    (void)state;
    checks c;
    weft_model *model = open_golden("llama");
    prepare(&c, model, FAULT_NONE, 0);
    c.context = 80;
    assert_ok(checks_run(&c, NULL), NULL);
    uint32_t at = request_of(CHECK_DRAFTS) - 1;
    assert_int_equal(plant.requests[at].n_prompt, 48);
    prepare(&c, model, FAULT_LOGPROB, at);
    c.context = 80;
    assert_ok(checks_run(&c, NULL), NULL);
    assert_int_equal(c.n_wrong, 1);
    assert_int_equal(c.n_prompts, 6);
    assert_int_equal(c.cells[CHECK_DRAFTS][0].prompt, 6);
    assert_int_equal(c.prompts[5], 48);
    weft_model_close(model);
}

/* What the model refuses is no fault, what nobody knows is one. */
static void test_codecs_that_are_refused(void **state)
{
    (void)state;
    checks c;
    weft_error err = {WEFT_OK, ""};
    weft_model *model = open_golden("deepseek_v3");
    prepare(&c, model, FAULT_NONE, 0);
    c.codecs[1] = "turbo-k8v4";
    c.n_codecs = 2;
    c.context = 70;
    assert_ok(checks_run(&c, &err), &err);
    assert_int_equal(c.n_wrong, 0);
    assert_string_equal(c.refusals[0], "");
    assert_non_null(strstr(c.refusals[1], "latent"));
    for (uint32_t row = 0; row < CHECK_ROWS; row++)
        assert_int_equal(c.cells[row][1].result, CHECK_REFUSED);
    c.codecs[1] = "affine9";
    assert_status(WEFT_ARGUMENT, checks_run(&c, &err), &err);
    weft_model_close(model);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void test_answers_are_compared_as_bits(void **state)
{
    (void)state;
    enum { N_NEW = 3, N_VOCAB = 5 };
    static const int32_t ID = 1;
    question q = {.ids = &ID, .n_ids = 1, .max_new = N_NEW};
    answer a;
    answer b;
    assert_ok(answer_init(&a, &q, N_VOCAB, NULL), NULL);
    assert_ok(answer_init(&b, &q, N_VOCAB, NULL), NULL);
    a.n_tokens = b.n_tokens = N_NEW;
    assert_int_equal(answer_difference(&a, &b), 0);
    b.logits[(size_t)2 * N_VOCAB] = -0.0F;
    assert_int_equal(answer_difference(&a, &b), 3);
    b.logprobs[1] = 1e-45F;
    assert_int_equal(answer_difference(&a, &b), 2);
    b.tokens[0] = 7;
    assert_int_equal(answer_difference(&a, &b), 1);
    answer_deinit(&b);
    assert_ok(answer_init(&b, &q, N_VOCAB, NULL), NULL);
    b.n_tokens = 2;
    assert_int_equal(answer_difference(&a, &b), 3);
    assert_int_equal(answer_difference(&b, &a), 3);
    answer_deinit(&a);
    answer_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_compared_as_bits),
        cmocka_unit_test(test_every_row_sees_a_fault_and_only_its_own),
        cmocka_unit_test(test_every_request_of_a_trace_is_looked_at),
        cmocka_unit_test(test_another_seed_is_another_trace),
        cmocka_unit_test(test_a_trace_without_a_folder),
        cmocka_unit_test(test_a_fault_in_what_is_compared_with),
        cmocka_unit_test(test_a_check_of_nothing_fails),
        cmocka_unit_test(test_a_request_that_fails_ends_the_checks),
        cmocka_unit_test(test_contexts_that_hold_little),
        cmocka_unit_test(test_the_number_of_a_prompt),
        cmocka_unit_test(test_codecs_that_are_refused),
    };
    test_folder folder;
    test_folder_create(&folder);
    snprintf(state_file, sizeof state_file, "%s/state", folder.path);
    snprintf(state_folder, sizeof state_folder, "%s/kept", folder.path);
    if (mkdir(state_folder, 0700) != 0) return 1;
    int result = TEST_RUN("cli/checks", tests);
    empty_state_folder();
    rmdir(state_folder);
    test_folder_remove(&folder);
    return result;
}
