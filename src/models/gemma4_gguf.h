/* gemma4_gguf.h - what a GGUF file of Gemma 4 says otherwise than a config. */
#ifndef MODELS_GEMMA4_GGUF_H
#define MODELS_GEMMA4_GGUF_H

#include "models/family.h"

/* Windows, key heads, widths, rows of embeddings, whether there are experts, whether keys are
 * values; sizes that contradict each other are refused. */
weft_status gemma4_read_gguf(model_params *p, const model_source *source, weft_error *err);

#endif
