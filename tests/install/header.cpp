/* header.cpp - weft.h is C++: every type and the calls that need no model. */
#include <weft.h>

#include <cstring>

int main()
{
    weft_model_options model_options = {};
    model_options.struct_size = sizeof model_options;
    weft_engine_options engine_options = {};
    engine_options.struct_size = sizeof engine_options;
    weft_request request = {};
    request.struct_size = sizeof request;
    weft_event event = {};
    event.struct_size = sizeof event;

    weft_error error = {};
    weft_model *model = nullptr;
    weft_status status = weft_model_open("/nonexistent/model", &model_options, &model, &error);
    if (status == WEFT_OK || model != nullptr || error.status != status) return 1;
    if (error.message[0] == '\0') return 1;
    weft_model_close(model);
    weft_engine_close(nullptr);
    if (std::strcmp(weft_status_name(WEFT_NOMEM), "NOMEM") != 0) return 1;
    return weft_version()[0] == '\0';
}
