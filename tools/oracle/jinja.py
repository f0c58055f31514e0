"""Jinja2 as Transformers sets it up for chat templates: the reference of src/chat/template.c."""
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: its body, in a scope of its own."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_pass", [])
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def environment(now=0):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(fmt):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=now)
        return moment.strftime(fmt)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(template, variables, now=0):
    """(text, None), or (None, what went wrong)."""
    try:
        text = environment(now).from_string(template).render(**variables)
        text.encode()
        return text, None
    except Exception as error:  # whatever a template can raise is a failed rendering
        return None, f"{type(error).__name__}: {error}"
