/* avx512_i8.c - the loops of avx512.c for inputs of 8 bits against integer codes. */
#include "backend/cpu/vec_avx512.h"

#define FORM_LOW 0
#include "backend/cpu/vec_form_bytes.h"

#include "backend/cpu/vec_codes.h"
#include "backend/cpu/vec_linear_codes.h"
#include "backend/cpu/vec_linear_few.h"
#include "backend/cpu/vec_prepare.h"

void cpu_fill_avx512_i8(cpu_kernels *k)
{
    k->linear_codes_b = linear_codes_q;
    k->prepare_i8 = prepare_i8;
    k->form_i8 = FORM;
}
