/* schema_format.c - formats as expressions that match the whole text. Sources: RFC 3339 (dates and
 * durations), RFC 4122, RFC 2673 and 4291 (addresses), RFC 1123 (host names), RFC 5321 (mail), RFC
 * 3986. An expression may match less than its format allows, never more. */
#include "grammar/schema_format.h"

#define DAY_28 "(0[1-9]|1[0-9]|2[0-8])"
#define LEAP "([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(([0-9]{4}-(0[1-9]|1[0-2])-" DAY_28 ")|([0-9]{4}-(0[13-9]|1[0-2])-(29|30))|"                  \
    "([0-9]{4}-(0[13578]|1[02])-31)|(" LEAP "-02-29))"
#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME "(" CLOCK ":[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]" CLOCK "))"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4 "(" BYTE "(\\." BYTE "){3})"
#define H16 "[0-9a-fA-F]{1,4}"
/* Of up to 3 characters: "--" in the third and fourth place has a meaning of its own. */
#define NAME_PART "[a-zA-Z0-9]([a-zA-Z0-9]{0,40}(-[a-zA-Z0-9]{1,10})?)"
#define HOST "(" NAME_PART "(\\." NAME_PART "){0,3})"
#define PATH_CHAR "([A-Za-z0-9_.~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define URI_TAIL "(/" PATH_CHAR "*)*(\\?(" PATH_CHAR "|[/?])*)?(#(" PATH_CHAR "|[/?])*)?"
#define POINTER "(/([^~/]|~[01])*)*"

static const struct {
    const char *name, *pattern;
} FORMATS[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration",
     "P([0-9]{1,9}W|([0-9]{1,9}Y([0-9]{1,9}M([0-9]{1,9}D)?)?|[0-9]{1,9}M([0-9]{1,9}D)?|"
     "[0-9]{1,9}D)(T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|"
     "[0-9]{1,9}S))?|T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|"
     "[0-9]{1,9}S))"},
    {"uuid", "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"},
    {"ipv4", IPV4},
    {"ipv6", "(" H16 ":){7}" H16 "|::|:(:" H16 "){1,7}|" H16 ":(:" H16 "){1,6}|(" H16 ":){2}(:" H16
             "){1,5}|(" H16 ":){3}(:" H16 "){1,4}|(" H16 ":){4}(:" H16 "){1,3}|(" H16 ":){5}(:" H16
             "){1,2}|(" H16 ":){6}:" H16 "|(" H16 ":){1,7}:"},
    {"hostname", HOST},
    {"email",
     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,30}(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,15}){0,2}@" HOST},
    {"uri", "[a-zA-Z][a-zA-Z0-9]*://" HOST "(:[1-9][0-9]{0,3})?" URI_TAIL},
    {"uri-reference", "([a-zA-Z][a-zA-Z0-9]*://" HOST "(:[1-9][0-9]{0,3})?)?" URI_TAIL},
    {"json-pointer", POINTER},
};

const char *schema_format(str name)
{
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
        if (str_equal_text(name, FORMATS[i].name)) return FORMATS[i].pattern;
    return NULL;
}
