"""One-line templates for tests/chat: every operator, filter, test and method with its edges."""

VARS = {
    "s": "Hello, World", "e": "", "u": "héllo wörld ΣΑΣ ß 😀", "m": "a\nb\r\nc\n", "q": "it's \"q\" \\ \t\x01",
    "pad": "  \t x y \n ", "n": 7, "z": 0, "neg": -3, "f": 2.5, "big": 9007199254740993, "t": True, "no": False,
    "nil": None, "l": [3, 1, 2], "el": [], "w": ["b", "A", "c", "a"], "mix": [1, "a", None, True, 2.0, [1], {"k": "v"}],
    "d": {"b": 1, "a": 2, "items": 3, "C": 0}, "ed": {},
    "p": [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"n": "X", "v": 3}],
    "deep": {"a": {"b": [{"c": "found"}]}},
    "csv": "a,b,,c", "num": "42", "hex": "0x1f", "flo": " 3.75 ", "xml": "<a href='x'>&\"</a>",
}

EXPRESSIONS = r"""
1 + 2 * 3 - 4
2 ** 3 ** 2
-2 ** 2
7 // 2 ~ ' ' ~ -7 // 2 ~ ' ' ~ 7 // -2
7 % 3 ~ ' ' ~ -7 % 3 ~ ' ' ~ 7 % -3
7.5 // 2
-7.5 % 2
7 / 2
6 / 3
1 / 3
2 ** -1
2 ** 0.5
1e16
1e15
123456789012345678.0
0.1 + 0.2
1e-5
0.0001
1.5e300 * 1e10
-0.0
1_000 + 0x1F + 0b101 + 0o17
1.0
100.0
1e22
5e-324
1.7976931348623157e308
9223372036854775807
true + 1
true == 1
1 == 1.0
'a' == 'a'
1 == '1'
[1, 2] == [1, 2]
(1, 2) == [1, 2]
(1, 2) == (1, 2)
{'a': 1} == {'a': 1.0}
none == false
undefined == missing
1 < 2 < 3
1 < 3 < 2
1 < 2 == true
'a' < 'b'
'B' < 'a'
[1, 2] < [1, 3]
(1, 'a') < (1, 'b')
1 <= 1.0
2 != 3
'ell' in s
'x' in s
'' in s
3 in l
'a' in d
9 not in l
'k' not in d
1 in missing
not 1
not not e
1 and 2
0 and 2
'' or 'x'
0 or none
none or 0 or []
1 or missing.foo
s and e
'yes' if t else 'no'
'yes' if no else 'no'
'yes' if no
('yes' if no) is defined
1 if 0 else 2 if 0 else 3
'a' ~ 1 ~ none ~ true ~ 2.0 ~ [1]
'a' + 'b'
'ab' * 3
3 * 'ab'
'ab' * 0
'ab' * -1
[1] * 2
[1] + [2]
(1,) + (2,)
(1,) * 2
()
(1,)
(1, 'a')
[]
{}
{'a': 1, 'b': [1, 2.5, none, true, 'x']}
{1: 'a', none: 'b', true: 'c', 2.5: 'd'}
['it\'s', "say \"x\"", 'both \' "', '\n\t\\', '\x00\x7f', 'é', '\u200b', '😀']
'\x41\u00e9\U0001F600\101\a\q'
'a' 'b' "c"
"tab\there"
mix
d
d['items']
d.items()
d.keys()
d.values()
d.get('a')
d.get('zz')
d.get('zz', 5)
d.a
d['a']
d.zz
d.zz is defined
d['zz'] is undefined
ed.keys() | list
deep.a.b[0].c
deep['a']['b'][0]['c']
deep.a.b.0.c
deep.a.x
deep.a.x is defined
l[0]
l[-1]
l[5]
l['0']
l.0
l[1:]
l[:2]
l[::-1]
l[::2]
l[-2:]
l[5:]
l[2:1]
l[-100:100]
l[1:3:2]
(1, 2, 3)[1:]
s[0]
s[-1]
s[100]
s[1:5]
s[::-1]
s[::3]
s[-5:]
u[1]
u[1:5]
u[::-1]
u[::2]
u[-1]
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
s.startswith('Hell')
s.startswith(('x', 'He'))
s.startswith('ello', 1)
s.endswith('ld')
s.endswith(('x', 'ld'))
s.find('o')
s.find('o', 5)
s.find('zz')
s.find('o', -5, -1)
s.rfind('o')
s.index('W')
s.count('l')
s.count('')
s.count('l', 5)
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('', '-')
e.replace('', '-')
s.split()
s.split(', ')
s.split('o', 1)
csv.split(',')
csv.rsplit(',', 1)
csv.split(',', 2)
pad.split()
pad.split(none, 1)
pad.rsplit(none, 1)
pad.split(maxsplit=1)
e.split()
e.split(',')
m.splitlines()
m.splitlines(true)
pad.strip()
pad.lstrip()
pad.rstrip()
s.strip('Hd')
s.lstrip('Hle')
s.rstrip('dl')
'xxabcxx'.strip('x')
s.partition(', ')
s.partition('zz')
s.rpartition('o')
s.rpartition('zz')
', '.join(w)
''.join([])
'-'.join('abc')
s.center(20)
s.center(21, '*')
'ab'.center(5)
'abc'.center(6)
s.ljust(15) ~ '|'
s.rjust(15, '.')
'42'.zfill(5)
'-42'.zfill(5)
'abc'.isalpha()
'abc1'.isalnum()
'123'.isdigit()
''.isdigit()
'١٢'.isdigit()
'½'.isnumeric()
' '.isspace()
'abc'.islower()
'ABC1'.isupper()
'é'.isascii()
s.removeprefix('Hello')
s.removesuffix('World')
u.upper()
u.lower()
u.title()
u.capitalize()
'ﬁ'.upper()
'ǆx'.title()
'İ'.lower()
'{} {}'.format(1, 'a')
'{1} {0}'.format(1, 'a')
'{a} {b[0]} {c.x}'.format(a=1, b=[2], c={'x': 3})
'{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c')
'{:05d} {:+d} {:x} {:b} {:,}'.format(42, 42, 255, 5, 1234567)
'{:.2f} {:8.3f} {:e} {:.1%} {:g}'.format(3.14159, 2.5, 12345.678, 0.256, 0.0001)
'{{}} {!r} {!s}'.format('a', 'b')
'{:*^9}'.format('mid')
'%s and %s' % ('a', 1)
'%d%%' % 5
'%5.2f|%-5s|%05d|%x' % (3.14159, 'ab', 42, 255)
'%(a)s-%(b)d' % {'a': 'x', 'b': 2}
'%r' % 'q'
'%s' % [1, 2]
'%s' % none
'%c' % 65
'%+d' % 3
'%s'
l.index(1)
l.count(1)
l.copy()
l.append
l.append is defined
l.append(1)
d.update({'x': 1})
d.pop('a')
s | upper
s | lower
s | title
'foo-bar baz(qux)' | title
s | capitalize
pad | trim
pad | trim('\n ')
s | trim('Hd')
missing | trim
missing | upper
n | upper
s | replace('l', 'L')
s | replace('l', 'L', 2)
n | replace('7', '8')
s | length
u | length
l | length
d | length
missing | length
s | count
nil | length
l | first
l | last
el | first
el | last is defined
s | first
s | last
d | first
l | sum
l | sum(start=10)
p | sum(attribute='v')
l | max
l | min
w | max
w | min
w | min(case_sensitive=true)
el | max
l | sort
l | sort(reverse=true)
w | sort
w | sort(case_sensitive=true)
w | sort(true, true)
p | sort(attribute='n') | map(attribute='v') | list
p | sort(attribute='n,v') | map(attribute='v') | list
p | sort(reverse=true, attribute='v') | map(attribute='n') | join
w | unique | list
['a', 'A', 'b'] | unique(true) | list
l | reverse | list
s | reverse
l | join(', ')
l | join
mix | join('|')
p | join(', ', attribute='n')
p | map(attribute='n') | list
p | map(attribute='zz', default='-') | join
p | map(attribute='zz') | list
w | map('upper') | list
w | map('replace', 'a', 'z') | join(',')
l | map('string') | join
p | selectattr('v', 'gt', 1) | map(attribute='n') | list
p | selectattr('n', 'equalto', 'x') | list | length
p | selectattr('n', 'in', ['x', 'y']) | map(attribute='v') | list
p | selectattr('zz') | list
p | selectattr('zz', 'defined') | list
p | rejectattr('n', '==', 'x') | map(attribute='n') | list
l | select('odd') | list
l | select | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
l | reject('odd') | list
l | select('>', 1) | list
nil | selectattr('x') | list
(p | selectattr('n', 'equalto', 'none such')) is iterable
'T' if (p | selectattr('n', 'equalto', 'none such')) else 'F'
(l | select) | length
(l | select)[0] is defined
l | batch(2) | list
l | batch(2, 'x') | list
l | slice(2) | list
l | slice(2, 'x') | list
d | dictsort
d | dictsort(true)
d | dictsort(false, 'value')
d | dictsort(by='value', reverse=true)
d | items | list
missing | items | list
d | list
s | list
missing | list
d.items() | list
p | groupby('n')
p | groupby('n') | map(attribute='grouper') | list
p | groupby('n') | map('last') | map('length') | list
s | default('x')
missing | default('x')
missing | default
missing | d('x')
e | default('x')
e | default('x', true)
nil | default('x')
nil | default('x', boolean=true)
missing.foo | default('x')
num | int
hex | int
hex | int(base=16)
'ff' | int(base=16)
'x' | int
'x' | int(5)
'12.7' | int
flo | int
flo | float
'x' | float
'x' | float(1.5)
f | int
t | int
nil | int
nil | int(9)
n | float
'1e3' | float
'inf' | float
'nan' | float
' 12 ' | int
'1_000' | int
neg | abs
-2.5 | abs
f | round
3.5 | round
2.675 | round(2)
2.5 | round(0, 'ceil')
2.4 | round(method='floor')
1234 | round(-2)
1250 | round(-2)
n | round
1.005 | round(2)
42.55 | round(1, 'floor')
n | string ~ 'x'
nil | string
l | string
xml | e
xml | escape
s | safe
s | center(20) ~ '|'
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2, true)
'a\nb\n\nc' | indent(2, first=true, blank=true)
'a\nb' | indent('> ')
s | truncate(8)
s | truncate(5, true)
s | truncate(9, false, '…')
s | truncate(8, leeway=0)
s | truncate(8, true, '', 0)
'foo bar_baz 12 é' | wordcount
'a b/c?d=é&e' | urlencode
{'a b': 'c/d', 'e': 1} | urlencode
'%s-%s' | format('a', 2)
'%(x)s' | format(x=3)
1000 | filesizeformat
1 | filesizeformat
1500000 | filesizeformat
1500000 | filesizeformat(true)
999 | filesizeformat
d | tojson
mix | tojson
d | tojson(indent=2)
mix | tojson(indent=4)
el | tojson(indent=2)
{'a': [], 'b': {}} | tojson(indent=2)
d | tojson(sort_keys=true)
d | tojson(separators=(',', ':'))
d | tojson(separators=(',', ': '), indent=1)
d | tojson(indent='--')
d | tojson(indent=0)
u | tojson
u | tojson(ensure_ascii=true)
q | tojson
'</script>\u2028' | tojson
'\x7f\x1f\b\f' | tojson
(1, (2, 3)) | tojson
{1: 2, none: 3, true: 4, 2.5: 5} | tojson
1e400 | tojson
0.1 | tojson
1e16 | tojson
missing | tojson
{'a': missing} | tojson
range(3) | tojson
l | attr('count') is callable
d | attr('a') is defined
missing is defined
s is defined
missing is undefined
missing is not defined
nil is none
nil is not none
s is string
n is string
n is number
f is number
t is number
n is integer
t is integer
f is float
n is float
t is boolean
n is boolean
t is true
1 is true
no is false
d is mapping
l is mapping
l is sequence
s is sequence
d is sequence
n is sequence
l is iterable
n is iterable
missing is iterable
d.items() is sequence
range(3) is sequence
n is odd
n is even
9 is divisibleby 3
9 is divisibleby(2)
'abc' is lower
'ABC' is upper
1 is eq 1
1 is equalto(2)
1 is ne 2
1 is lt 2
1 is gt 2
1 is ge(1)
1 is le 0
1 is in [1, 2]
'a' is in 'abc'
'upper' is filter
'nope' is filter
'odd' is test
range is callable
s is callable
nil is sameas none
1 is sameas 1
[] is sameas []
s is escaped
not n is odd
n is odd and f is float
n is not odd or t
range(5) | list
range(2, 5) | list
range(10, 0, -3) | list
range(5)
range(0, 10, 2)
range(0)
range(5)[1:3]
range(5)[-1]
3 in range(5)
range(5) | length
range(3) == range(0, 3)
range(200000)
range(1, 2, 0)
dict(a=1, b=2)
dict([('a', 1)], b=2)
namespace(a=1).a
namespace(a=1)
namespace({'x': 1}, y=2)
namespace().zz is defined
cycler('a', 'b').next()
joiner('; ')()
strftime_now('%Y-%m-%d %H:%M:%S')
strftime_now('%d %B %Y, %A %a %b %j %I %p %y %U %W %w %e %-d %-m %F %T')
strftime_now('%G-W%V-%u %C %D %R %r %c %x %X %% %n%t|')
missing
missing.foo
missing['foo']
missing()
missing + 1
1 + missing
'a' + missing
missing ~ 'a'
missing < 1
missing and 1
-missing
missing | int
nil.foo
nil.foo.bar
n.foo is defined
s.nope is defined
s.nope()
l.nope
s + 1
1 + s
l + 1
1 / 0
1 // 0
1 % 0
1.0 / 0
0 ** -1
l < 1
nil < 1
d < d
none + 1
1 in 1
1 in s
[1, 'a'] | sort
d[[1]]
{[1]: 2}
l['a']
l[none]
l[1.0]
s[1.5]
n[0]
n[1:2]
nil[1:2]
d[1:2]
l[::0]
l['a':]
'a' | int('q')
s.foo.bar
range('a')
'%d' % 'x'
'%s %s' % 'x'
'%s' % ('a', 'b')
'{}'.format()
'{a}'.format()
s | join(1)
s | round
'abc' | abs
n | first
n | list
n | join
s.join([1])
s.split('')
s.index('zz')
l.index(99)
raise_exception('boom')
s(1)
n()
d.get()
d.get([1])
s.upper(1)
s | upper(1)
s | replace('a')
s | trim(1)
1 is divisibleby 0
s is odd
(1, 2)[0]
(1, 2).count(1)
'a,b' .split(',')
{'a': 1}.a
{'a': {'b': 2}}.a.b
[1, 2, 3][1]
'abc'[1]
'abc' [1:]
{'x': 'y'}['x']
[[1, 2], [3]][0][1]
(l | sort)[0]
(s | upper)[0:2]
s | upper | lower | title
-n | abs
-f
+t
not t == no
1 - -1
1 - - 1
2 * -3
(1 if t else 2) + 1
[1, 2,]
{'a': 1,}
(1, 2,)
'a' if 'b' in d else 'c'
'a' in d and 'b' in d
d.a + d.b
d.a ~ d.b
{'a': 1} | tojson ~ 'x'
[t, no, nil]
[1.0, 2.50, 1e100]
['a', ['b', ('c',)], {'d': none}]
big
big * 1.0
9007199254740993 == 9007199254740992.0
9223372036854775807 < 9223372036854775808.0
3 == 3.0000000000000001
t and no or n
'1' * n
'%s' % (1,)
s.split(',')[1].strip()
(csv.split(',') | first) ~ (csv.split(',') | last)
p[0].n ~ p[-1]['n']
p | map(attribute='n') | map('upper') | unique | join
w | map('length') | sum
(w | join)[::-1]
[3, 1] + l[::-1]
mix[5][0] + mix[0]
mix[-1].k
'é' ~ 'x'
'é' < 'z'
u.split()
u.find('😀')
u.index('ö')
u.count('l')
u | first ~ u | last
u[3:] | length
u.replace('😀', 'x')
u.center(30, '·')
'ΑΣ Σ ΣΑ'.lower()
'x' in 'xyz' == true
loop is defined
varargs is defined
"a" is defined and "b" is string
[1,2,3] | map('string') | map('int') | list
[{'a': {'b': 1}}] | map(attribute='a.b') | list
[[1, 2], [3, 4]] | map('first') | list
[[1, 2], [3, 4]] | map(attribute=1) | list
[[1, 2], [3, 4]] | map(attribute='1') | list
[{'r': 'a'}, {}] | selectattr('r', 'defined') | list
range(9, 0, -2)[1:9:2] ~ range(5, 0, -2)[5:1] ~ range(4)[3:1] ~ range(4)[::-1]
u.casefold() ~ 'Straße ﬃ ΣΑΣ ʼn Ǆ Ꭰ ꭰ ſ µ'.casefold()
['They Are', 'they', 'THEY', 'A1B', 'Ǆa', 'ǅ b', '', '1', 'aB'] | map('title') | list ~ 'They Are'.istitle() ~ 'A1b'.istitle() ~ 'A1B'.istitle() ~ 'ǅa'.istitle() ~ 'ab'.istitle() ~ ''.istitle() ~ 'AB'.istitle()
u.isprintable() ~ q.isprintable() ~ ''.isprintable() ~ '\u2028'.isprintable() ~ '\u00a0'.isprintable()
'a\tbc\r\td\n\té\t'.expandtabs() ~ '|' ~ '\t\tx\t'.expandtabs(3) ~ '|' ~ 'a\tb'.expandtabs(0) ~ '|' ~ 'a\tb'.expandtabs(-2) ~ 'a\tb'.expandtabs(tabsize=2)
l | sort(attribute='nowhere') | list ~ p | sort(attribute='nowhere,n') | map(attribute='n') | join
[nil, nil] | sort ~ [ed, ed] | sort
[nil, 1] | sort
'none' % range(3) ~ 'none' % l ~ 'none' % d
'none' % 1
[] is test
d is filter
'upper' is filter ~ 'odd' is test ~ 'nosuch' is filter ~ none is filter
p | map('dictsort') | map('first') | urlencode ~ '|' ~ missing | urlencode ~ '|' ~ el | reject | urlencode ~ '|' ~ [(e, 'a b'), 'xy'] | urlencode
[1, 2, 3] | batch(0) | list ~ [1, 2, 3] | batch(-1) | list ~ [1, 2] | batch(2) | list ~ [1, 2, 3] | batch(0, 1) | list
'lazy' if 5 | batch(2) and [1] | slice(0)
5 | batch(2) | list
[1] | slice(0) | list
[1] | slice(-2) | list ~ [1, 2, 3, 4, 5] | slice(3, '-') | list ~ el | slice(2, 1) | list
""".strip("\n").split("\n")
