/* avx512.c - the loops of cpu_kernels.h for AVX-512 with VNNI: the vec_*.h loops in 16 lanes. */
#include "backend/cpu/vec_avx512.h"

#define FORM_LOW 1
#include "backend/cpu/vec_form_bytes.h"

#include "backend/cpu/vec_attend.h"
#include "backend/cpu/vec_attend_packed.h"
#include "backend/cpu/vec_codes.h"
#include "backend/cpu/vec_dense.h"
#include "backend/cpu/vec_elem.h"
#include "backend/cpu/vec_kv.h"
#include "backend/cpu/vec_linear_codes.h"
#include "backend/cpu/vec_linear_few.h"
#include "backend/cpu/vec_prepare.h"
#include "backend/cpu/vec_recur.h"
#include "backend/cpu/vec_scores_bytes.h"

void cpu_fill_avx512(cpu_kernels *k)
{
    cpu_fill_avx512_i8(k);
    k->linear_f32 = linear_f32;
    k->linear_f16 = linear_f16;
    k->linear_bf16 = linear_bf16;
    k->linear_bf16_h = linear_bf16;
    k->linear_codes = linear_codes;
    k->linear_codes_q = linear_codes_q;
    k->linear_any = linear_any;
    k->linear_turned = linear_turned;
    k->prepare_bf16 = prepare_bf16;
    k->prepare_i16 = prepare_i16;
    k->form_i16 = FORM;
    k->rms_norm = rms_norm;
    k->layer_norm = layer_norm;
    k->rope_half = rope_half;
    k->rope_interleaved = rope_interleaved;
    k->glu_silu = glu_silu;
    k->glu_gelu_tanh = glu_gelu_tanh;
    k->glu_sigmoid = glu_sigmoid;
    k->glu_gpt_oss = glu_gpt_oss;
    k->conv_silu = conv_silu;
    k->conv_plain = conv_plain;
    k->delta = delta;
    k->scores_f32 = scores_f32;
    k->scores_f16 = scores_f16;
    k->scores_bf16 = scores_bf16;
    k->values_f32 = values_f32;
    k->values_f16 = values_f16;
    k->values_bf16 = values_bf16;
    k->prepare_query = prepare_query;
    k->query_bytes = true;
    k->scores_packed = scores_packed;
    k->values_packed = values_packed;
    k->decode_packed = decode_packed;
    k->exp_sum = exp_sum;
    k->max = largest;
    k->relu_sum = relu_sum;
    k->read = read_block;
}
