/* fingerprint.h - what tells one model from another by content, for state that outlives a process.
 */
#ifndef MODELS_FINGERPRINT_H
#define MODELS_FINGERPRINT_H

#include "models/model.h"

enum { FINGERPRINT_BYTES = 32 };

/* SHA-256 over the computation (family, graph, ropes) and, in the order of their names, every
 * tensor's name, type, shape and bytes, each with its length before it. Reads all weights. Names of
 * files and folders are not in it. */
weft_status llm_fingerprint(const llm *m, unsigned char digest[FINGERPRINT_BYTES], weft_error *err);

/* SHA-256 over what a checkpoint's tokenizer is read from: files of a folder, or GGUF metadata. */
weft_status llm_tokenizer_hash(const llm *m, unsigned char digest[FINGERPRINT_BYTES],
                               weft_error *err);

#endif
