/* select.c - which instruction set's loops are used. */
#include "backend/cpu/cpu_kernels.h"

#include <string.h>

#include "base/assert.h"

static bool has_generic(void)
{
    return true;
}

/* Every processor with AVX2 has F16C, a name that clang 14's builtin does not know. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* The row means AVX-512 with VNNI, as server processors have had since 2019. */
static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

static bool has_avx512bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

static const cpu_isa ISAS[] = {
    {"generic", has_generic, cpu_fill_generic},
    {"avx2", has_avx2, cpu_fill_avx2},
    {"avx512", has_avx512, cpu_fill_avx512},
    {"avx512bf16", has_avx512bf16, cpu_fill_avx512bf16},
};

const cpu_isa *cpu_isa_table(size_t *count)
{
    *count = COUNT_OF(ISAS);
    return ISAS;
}

weft_status cpu_kernels_select(const char *isa, cpu_kernels *k, weft_error *err)
{
    size_t last = COUNT_OF(ISAS);
    for (size_t i = 0; i < COUNT_OF(ISAS); i++) {
        if (isa != NULL && strcmp(ISAS[i].name, isa) == 0) last = i;
    }
    if (isa != NULL && last == COUNT_OF(ISAS)) {
        return err_set(err, WEFT_ARGUMENT,
                       "unknown instruction set '%s', expected generic, avx2, avx512 or "
                       "avx512bf16",
                       isa);
    }
    if (isa != NULL && !ISAS[last].available()) {
        return err_set(err, WEFT_UNSUPPORTED, "this processor does not have the instruction set %s",
                       isa);
    }
    memset(k, 0, sizeof *k);
    for (size_t i = 0; i < COUNT_OF(ISAS) && i <= last; i++) {
        if (!ISAS[i].available()) continue;
        ISAS[i].fill(k);
        k->isa = ISAS[i].name;
    }
    return WEFT_OK;
}
