/* The kernel: payloads compared with a template, and texts written into frames.
 *
 * Both have a twin in Python, `Templates.text_reader` and `delta_frames`, which says what they do
 * and stands in where this file is not compiled.  What is rare is left to msgspec, and to
 * `otherwise`, as the twin leaves it.  Nothing is stored here that the twin stores elsewhere.
 *
 * The limited API suffices, so that one build serves all versions from 3.11 on.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <string.h>

#ifndef KERNEL_SOURCE  /* digest of this file, by which a test knows what was compiled */
#define KERNEL_SOURCE ""
#endif

/* Values of Python that all readers and writers use, made once. */
static PyObject *decode_string;  /* msgspec's decoder of one string */
static PyObject *fast_errors;    /* what it raises for untrusted input */
static Py_ssize_t max_fresh, batch, long_chars, max_digits;
static PyObject *name_carries, *name_irregular, *name_held, *name_safe_bytes, *name_frames;
static PyObject *name_original, *name_delta, *name_counts, *name_counts_before, *name_next_number,
    *name_next, *name_last_event, *empty_bytes, *empty_text;

/* Put a new reference in the place of another one. */
static inline void
replace(PyObject **place, PyObject *value)
{
    PyObject *before = *place;
    *place = value;
    Py_XDECREF(before);
}

/* Owned bytes of an argument, and where they stand. */
typedef struct {
    PyObject *owner;
    const char *start;
    Py_ssize_t size;
} Bytes;

static int
set_bytes(Bytes *bytes, PyObject *value)
{
    char *start;
    if (PyBytes_AsStringAndSize(value, &start, &bytes->size) < 0)
        return -1;
    Py_INCREF(value);
    bytes->owner = value;
    bytes->start = start;
    return 0;
}

static inline int
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline int
is_alnum(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline int
equals(const char *data, const Bytes *bytes)
{
    return memcmp(data, bytes->start, (size_t)bytes->size) == 0;
}

/* Copy bytes to a place, and return the place behind them. */
static inline char *
put(char *out, const char *start, Py_ssize_t size)
{
    memcpy(out, start, (size_t)size);
    return out + size;
}

/* ---- Strings of JSON ------------------------------------------------------------------------ */

#define EACH_BYTE(c) (0x0101010101010101ULL * (c))

/* Return the first byte from `at` that ends a string or does not stand for itself. */
static const char *
plain_end(const char *at, const char *end)
{
    /* Eight at a time: what is subtracted borrows from the highest bit of a byte that is smaller,
     * and a byte that is equal is 0 behind the exclusive or. */
    for (unsigned long long word; end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        unsigned long long below = (word - EACH_BYTE(0x20)) |
                                   ((word ^ EACH_BYTE('"')) - EACH_BYTE(1)) |
                                   ((word ^ EACH_BYTE('\\')) - EACH_BYTE(1));
        if (below & ~word & EACH_BYTE(0x80))
            break;
    }
    while (at < end) {
        unsigned char c = (unsigned char)*at;
        if (c < 0x20 || c == '"' || c == '\\')
            break;
        at++;
    }
    return at;
}

/* Return the character of a short escape; 0 if it is another one. */
static char
unescaped(char c)
{
    switch (c) {
    case '"': case '\\': case '/': return c;
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return 0;
    }
}

/* Let msgspec decode a string, quotes included.  NULL without an exception if it is none. */
static PyObject *
decode_unusual(const char *quoted, Py_ssize_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(quoted, size);
    if (bytes == NULL)
        return NULL;
    PyObject *text = PyObject_CallFunctionObjArgs(decode_string, bytes, NULL);
    Py_DECREF(bytes);
    if (text == NULL && PyErr_ExceptionMatches(fast_errors))
        PyErr_Clear();
    return text;
}

#define SHORT_BYTES 512

/* Return the text between two quotes.  NULL without an exception if it is no string. */
static PyObject *
decode_text(const char *start, Py_ssize_t size)
{
    const char *end = start + size, *at = plain_end(start, end), *plain = start;
    char room[SHORT_BYTES], *out = room;
    if (at < end) {
        if (size > SHORT_BYTES || *at != '\\')
            return decode_unusual(start - 1, size + 2);
        for (const char *from = start; ; at = plain_end(from, end)) {
            out = put(out, from, at - from);
            if (at == end)
                break;
            char c = *at == '\\' && at + 1 < end ? unescaped(at[1]) : 0;
            if (c == 0)  /* \u, a control, a quote: msgspec decides */
                return decode_unusual(start - 1, size + 2);
            *out++ = c;
            from = at + 2;
        }
        plain = room;
    }
    PyObject *text = PyUnicode_DecodeUTF8(plain, plain == room ? out - room : size, NULL);
    if (text != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return text;
    PyErr_Clear();
    return decode_unusual(start - 1, size + 2);
}

/* Escapes of control characters, in the spelling of msgspec; 'u' for \u00XX. */
static const char CONTROLS[] = "uuuuuuuubtnufruuuuuuuuuuuuuuuuuu";

/* Return head, digits, middle, the text as a string of JSON, and tail.  A lone surrogate raises, as
 * it does in msgspec. */
static PyObject *
write_frame(const Bytes *head, const char *digits, Py_ssize_t digits_size, const Bytes *middle,
            PyObject *text, const Bytes *tail)
{
    Py_ssize_t size;
    const char *start = PyUnicode_AsUTF8AndSize(text, &size);
    if (start == NULL)
        return NULL;
    const char *end = start + size, *at;
    Py_ssize_t more = 0;
    for (at = plain_end(start, end); at < end; at = plain_end(at + 1, end)) {
        unsigned char c = (unsigned char)*at;
        more += c < 0x20 && CONTROLS[c] == 'u' ? 5 : 1;
    }
    Py_ssize_t fixed = head->size + digits_size + middle->size + tail->size + 2;
    PyObject *frame = PyBytes_FromStringAndSize(NULL, fixed + size + more);
    if (frame == NULL)
        return NULL;
    char *out = put(PyBytes_AsString(frame), head->start, head->size);
    out = put(out, digits, digits_size);
    out = put(out, middle->start, middle->size);
    *out++ = '"';
    if (more == 0)
        out = put(out, start, size);
    else {
        for (const char *from = start; ; from = at + 1) {
            at = plain_end(from, end);
            out = put(out, from, at - from);
            if (at == end)
                break;
            unsigned char c = (unsigned char)*at;
            *out++ = '\\';
            if (c >= 0x20)
                *out++ = (char)c;
            else if (CONTROLS[c] != 'u')
                *out++ = CONTROLS[c];
            else {
                memcpy(out, "u00", 3);
                out[3] = "0123456789abcdef"[c >> 4];
                out[4] = "0123456789abcdef"[c & 15];
                out += 5;
            }
        }
    }
    *out++ = '"';
    memcpy(out, tail->start, (size_t)tail->size);
    return frame;
}

/* ---- TemplateReader ------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Bytes prefix, head, middle, tail, end, between;
    int repeats, spaced, has_ids;
    PyObject *run, *known, *otherwise;
    PyObject *framing;                 /* NULL if the data are whole payloads */
    PyObject *numbers;                 /* or ids, between tail and end; NULL without */
    PyObject *delta, *extend, *fresh;  /* of the block whose head came last */
    int takes_inner;                   /* whether `fresh` takes such fragments alone */
} TemplateReader;

static int
reader_traverse(TemplateReader *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    for (PyObject **each = &self->run; each <= &self->fresh; each++)
        Py_VISIT(*each);
    return 0;
}

static int
reader_clear(TemplateReader *self)
{
    for (PyObject **each = &self->run; each <= &self->fresh; each++)
        Py_CLEAR(*each);
    return 0;
}

static void
reader_dealloc(TemplateReader *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    reader_clear(self);
    for (Bytes *bytes = &self->prefix; bytes <= &self->between; bytes++)
        Py_CLEAR(bytes->owner);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* Make the block of a head the one whose head came last.  -1 with an exception. */
static int
select_block(TemplateReader *self, PyObject *entry)
{
    PyObject *values[4];
    for (Py_ssize_t i = 0; i < 4; i++)
        if ((values[i] = PyTuple_GetItem(entry, i)) == NULL)
            return -1;
    replace(&self->delta, Py_NewRef(values[0]));
    replace(&self->extend, Py_NewRef(values[1]));
    replace(&self->fresh, Py_NewRef(values[2]));
    self->takes_inner = values[3] == Py_True;
    return 0;
}

static PyObject *
reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *run, *known, *parts[6], *otherwise, *framing, *numbers;
    int repeats, spaced, has_ids;
    if (!PyArg_ParseTuple(args, "OO!SSSSSSppOOOp:TemplateReader", &run, &PyDict_Type, &known,
                          parts, parts + 1, parts + 2, parts + 3, parts + 4, parts + 5, &repeats,
                          &spaced, &otherwise, &framing, &numbers, &has_ids))
        return NULL;
    PyObject *entry = PyDict_GetItemWithError(known, parts[1]);
    if (entry == NULL)
        return PyErr_Format(PyExc_ValueError, "head of no block");
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    TemplateReader *self = (TemplateReader *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->repeats = repeats;
    self->spaced = spaced;
    self->has_ids = has_ids;
    self->run = Py_NewRef(run);
    self->known = Py_NewRef(known);
    self->otherwise = Py_NewRef(otherwise);
    self->framing = framing == Py_None ? NULL : Py_NewRef(framing);
    self->numbers = numbers == Py_None ? NULL : Py_NewRef(numbers);
    int failed = select_block(self, entry) < 0;
    for (int i = 0; i < 6; i++)
        failed |= set_bytes(&self->prefix + i, parts[i]) < 0;
    if (failed)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Return the value of an attribute that is a boolean; -1 with an exception. */
static int
is_set(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    if (value == NULL)
        return -1;
    int found = value == Py_True ? 1 : value == Py_False ? 0 : PyObject_IsTrue(value);
    Py_DECREF(value);
    return found;
}

/* Return the value of an attribute that is a size; -1 with an exception. */
static Py_ssize_t
size_of(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    if (value == NULL)
        return -1;
    Py_ssize_t size = PyLong_AsSsize_t(value);
    Py_DECREF(value);
    return size;
}

/* Add one to the value of an attribute, and return the value before; -1 with an exception. */
static Py_ssize_t
increment(PyObject *object, PyObject *name)
{
    Py_ssize_t before = size_of(object, name);
    PyObject *value = before < 0 ? NULL : PyLong_FromSsize_t(before + 1);
    if (value == NULL || PyObject_SetAttr(object, name, value) < 0)
        before = -1;
    Py_XDECREF(value);
    return before;
}

/* Set what the framing holds of an event.  -1 with an exception. */
static int
hold(PyObject *framing, PyObject *held, PyObject *carries)
{
    if (PyObject_SetAttr(framing, name_held, held) < 0 ||
        PyObject_SetAttr(framing, name_carries, carries) < 0)
        return -1;
    return PyObject_SetAttr(framing, name_original, Py_True);
}

/* Return whether a read is the beginning of an event on one line, which is held as it is. */
static int
begins_event(TemplateReader *self, PyObject *data, Py_ssize_t safe_bytes)
{
    const char *start = PyBytes_AsString(data);
    Py_ssize_t size = PyBytes_Size(data), rest = size - self->prefix.size;
    if (rest < 0 || size >= safe_bytes || size == 0 || !equals(start, &self->prefix))
        return 0;
    start += self->prefix.size;
    return memchr(start, '\n', (size_t)rest) == NULL && memchr(start, '\r', (size_t)rest) == NULL;
}

/* Find where the text ends, and check what stands behind it: the repeated text, the padding, or
 * two counts, which are returned.  NULL if the payload does not fit, or with an exception. */
static const char *
text_end(TemplateReader *self, const char *start, const char *stop, PyObject **counts)
{
    const Bytes *middle = &self->middle, *between = &self->between;
    if (self->repeats) {
        Py_ssize_t size = stop - start - middle->size;
        if (size < 0 || size % 2)
            return NULL;
        const char *end = start + size / 2;
        if (!equals(end, middle) ||
            memcmp(start, end + middle->size, (size_t)(size / 2)) != 0)
            return NULL;
        return end;
    }
    if (middle->size == 0)
        return stop;
    const char *at = stop;
    if (between->size) {
        while (at > start && is_digit(at[-1]))
            at--;
        const char *second = at;
        at -= between->size;
        if (at < start || !equals(at, between))
            return NULL;
        const char *first = at;
        while (first > start && is_digit(first[-1]))
            first--;
        /* No other number begins with 0 (RFC 8259, section 6). */
        if (first == at || *first == '0' || second == stop || *second == '0' ||
            stop - first > between->size + max_digits)
            return NULL;
        const char *end = first - middle->size;
        if (end < start || !equals(end, middle))
            return NULL;
        *counts = Py_BuildValue("(NON)", PyBytes_FromStringAndSize(first, at - first),
                                between->owner, PyBytes_FromStringAndSize(second, stop - second));
        return *counts == NULL ? NULL : end;
    }
    while (at > start && (self->spaced ? at[-1] == ' ' : is_alnum(at[-1])))
        at--;
    at -= middle->size;
    return at < start || !equals(at, middle) ? NULL : at;
}

/* Return whether a text is an inner fragment, as `is_inner` does. */
static int
is_inner(PyObject *text, Py_ssize_t count)
{
    Py_ssize_t size;
    const char *start = PyUnicode_AsUTF8AndSize(text, &size);
    if (start == NULL) {  /* a lone surrogate */
        PyErr_Clear();
        return 0;
    }
    unsigned char c = (unsigned char)*start;
    int begins_inside = c > ' ' ? (c < 0x7f && c != '{') || c >= 0xe4 : c == ' ' && count > 0;
    return begins_inside && memchr(start, '}', (size_t)size) == NULL;
}

/* Extend the block by a text.  0 if it may do more than that; -1 with an exception. */
static int
extend_block(TemplateReader *self, PyObject *text)
{
    if (self->extend == Py_None)
        return 1;
    if (self->fresh != Py_None) {
        Py_ssize_t count = PyList_Size(self->fresh);
        if (count < 0)
            return -1;
        if (count < max_fresh && PyUnicode_GetLength(text) <= long_chars &&
            (!self->takes_inner || is_inner(text, count)))
            return PyList_Append(self->fresh, text) < 0 ? -1 : 1;
    }
    PyObject *extend = Py_NewRef(self->extend);  /* which may put another one in its place */
    PyObject *extended = PyObject_CallFunctionObjArgs(extend, text, NULL);
    Py_DECREF(extend);
    if (extended == NULL)
        return -1;
    int is_extended = PyObject_IsTrue(extended);
    Py_DECREF(extended);
    return is_extended;
}

/* Name the block and the counts in the run. */
static int
report(TemplateReader *self, PyObject *counts)
{
    if (self->delta == Py_None)
        return 0;
    if (PyObject_SetAttr(self->run, name_delta, self->delta) < 0)
        return -1;
    if (counts == NULL)
        return 0;
    PyObject *before = PyObject_GetAttr(self->run, name_counts);
    if (before == NULL)
        return -1;
    int failed = PyObject_SetAttr(self->run, name_counts_before, before) < 0 ||
                 PyObject_SetAttr(self->run, name_counts, counts) < 0;
    Py_DECREF(before);
    return failed ? -1 : 0;
}

/* Return where the number of the next event begins, or its id; NULL if that is another. */
static const char *
number_start(TemplateReader *self, const char *data, const char *stop)
{
    const char *last = stop - self->end.size, *at = last;
    if (!equals(last, &self->end))
        return NULL;
    if (self->has_ids) {  /* of what stands for itself in a string */
        while (at > data && at[-1] > ' ' && at[-1] < 0x7f && at[-1] != '"' && at[-1] != '\\')
            at--;
        return at < last ? at : NULL;
    }
    long long number = 0, unit = 1;
    for (; at > data && is_digit(at[-1]) && last - at < max_digits; unit *= 10)
        number += (*--at - '0') * unit;
    Py_ssize_t next = size_of(self->numbers, name_next);
    if (next < 0)  /* none, or one beyond 64 bits */
        PyErr_Clear();
    return number == next && at < last && (*at != '0' || last - at == 1) ? at : NULL;
}

/* Return the text of an event; NULL without an exception if it does not fit. */
static PyObject *
match(TemplateReader *self, PyObject *event)
{
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(event, &data, &size) < 0)
        return NULL;
    Py_ssize_t head_size = self->head.size;
    if (size < head_size + self->tail.size + self->end.size)
        return NULL;
    const char *at = data, *stop = data + size;
    if (self->numbers != NULL && (stop = number_start(self, data, stop)) == NULL)
        return NULL;
    stop -= self->tail.size;
    if (stop - at < head_size || !equals(stop, &self->tail))
        return NULL;
    if (!equals(at, &self->head)) {
        PyObject *head, *entry;
        Py_ssize_t place = 0;
        while (1) {  /* a few, which differ in a digit or two */
            if (!PyDict_Next(self->known, &place, &head, &entry))
                return NULL;
            if (PyBytes_Size(head) == head_size &&
                memcmp(at, PyBytes_AsString(head), (size_t)head_size) == 0)
                break;
        }
        if (select_block(self, entry) < 0)
            return NULL;
        replace(&self->head.owner, Py_NewRef(head));
        self->head.start = PyBytes_AsString(head);
    }
    at += head_size;
    PyObject *counts = NULL, *text = NULL;
    const char *end = text_end(self, at, stop, &counts);
    if (end != NULL && (text = decode_text(at, end - at)) != NULL) {
        int extended = extend_block(self, text);
        if (extended < 1 || report(self, counts) < 0 ||
            (self->numbers != NULL &&
             (PyObject_SetAttr(self->numbers, name_last_event, event) < 0 ||
              (!self->has_ids && increment(self->numbers, name_next) < 0))))
            Py_CLEAR(text);
    }
    Py_XDECREF(counts);
    return text;
}

/* Return the text of an event whose beginning may be held; NULL if it does not fit, or with an
 * exception. */
static PyObject *
match_read(TemplateReader *self, PyObject *data)
{
    PyObject *framing = self->framing, *event, *text;
    int carries = is_set(framing, name_carries);
    Py_ssize_t safe_bytes = size_of(framing, name_safe_bytes);
    if (carries < 0 || safe_bytes < 0)
        return NULL;
    if (!carries) {
        if (PyBytes_Size(data) > safe_bytes)
            return NULL;
        if ((text = match(self, data)) != NULL) {
            if (increment(framing, name_frames) >= 0)
                return text;
            Py_DECREF(text);
            return NULL;
        }
        if (PyErr_Occurred() || !begins_event(self, data, safe_bytes))
            return NULL;
        return hold(framing, data, Py_True) < 0 ? NULL : Py_NewRef(empty_text);
    }
    if (is_set(framing, name_irregular) != 0)
        return NULL;
    PyObject *held = PyObject_GetAttr(framing, name_held);
    if (held == NULL)
        return NULL;
    event = PySequence_Concat(held, data);
    Py_DECREF(held);
    if (event == NULL)
        return NULL;
    text = PyBytes_Size(event) > safe_bytes ? NULL : match(self, event);
    Py_DECREF(event);
    if (text != NULL &&
        (increment(framing, name_frames) < 0 || hold(framing, empty_bytes, Py_False) < 0))
        Py_CLEAR(text);
    return text;
}

/* Return the text of a payload or an event that fits; what `otherwise` returns if it does not. */
static PyObject *
reader_read(TemplateReader *self, PyObject *data)
{
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "data are no bytes");
        return NULL;
    }
    PyObject *text = self->framing == NULL ? match(self, data) : match_read(self, data);
    if (text != NULL || PyErr_Occurred())
        return text;
    return PyObject_CallFunctionObjArgs(self->otherwise, data, NULL);
}

static PyMethodDef reader_methods[] = {
    {"read", (PyCFunction)reader_read, METH_O, "Return the text of a payload, or of an event."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "Reads the deltas that fit one of the templates; see `Templates.text_reader`."},
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_traverse, reader_traverse},
    {Py_tp_clear, reader_clear},
    {Py_tp_methods, reader_methods},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "streamnorm._core.codec._kernel.TemplateReader",
    .basicsize = sizeof(TemplateReader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = reader_slots,
};

/* ---- DeltaFrames ---------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Bytes head, middle, tail;
    PyObject *fresh, *append;  /* of what stores the texts; NULL if nothing does */
    PyObject *numbers;  /* has the number of the next event, between head and middle; or NULL */
    Py_ssize_t characters;
} DeltaFrames;

static int
frames_traverse(DeltaFrames *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    for (PyObject **each = &self->fresh; each <= &self->numbers; each++)
        Py_VISIT(*each);
    return 0;
}

static int
frames_clear(DeltaFrames *self)
{
    for (PyObject **each = &self->fresh; each <= &self->numbers; each++)
        Py_CLEAR(*each);
    return 0;
}

static void
frames_dealloc(DeltaFrames *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    frames_clear(self);
    Py_CLEAR(self->head.owner);
    Py_CLEAR(self->middle.owner);
    Py_CLEAR(self->tail.owner);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *
frames_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *head, *tail, *stored, *numbers = Py_None, *middle = empty_bytes;
    if (!PyArg_ParseTuple(args, "SSO|OS:DeltaFrames", &head, &tail, &stored, &numbers, &middle))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    DeltaFrames *self = (DeltaFrames *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->numbers = numbers == Py_None ? NULL : Py_NewRef(numbers);
    if ((stored != Py_None &&
         ((self->fresh = PyObject_GetAttrString(stored, "fresh")) == NULL ||
          (self->append = PyObject_GetAttrString(stored, "append")) == NULL)) ||
        set_bytes(&self->head, head) < 0 || set_bytes(&self->middle, middle) < 0 ||
        set_bytes(&self->tail, tail) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* Store a text as `TextBuffer.append` does, which ends a batch.  -1 with an exception. */
static int
store(DeltaFrames *self, PyObject *text, Py_ssize_t characters)
{
    Py_ssize_t count = PyList_Size(self->fresh);
    if (count < 0)
        return -1;
    if (count + 1 < batch && characters <= long_chars)
        return PyList_Append(self->fresh, text);
    PyObject *appended = PyObject_CallFunctionObjArgs(self->append, text, NULL);
    Py_XDECREF(appended);
    return appended == NULL ? -1 : 0;
}

static PyObject *
frames_write(DeltaFrames *self, PyObject *text)
{
    Py_ssize_t characters = PyUnicode_GetLength(text);
    if (characters < 0 || (self->append != NULL && store(self, text, characters) < 0))
        return NULL;
    self->characters += characters;
    char number[24];
    int digits = 0;
    if (self->numbers != NULL) {
        Py_ssize_t value = increment(self->numbers, name_next_number);
        if (value < 0)
            return NULL;
        digits = PyOS_snprintf(number, sizeof(number), "%zd", value);
    }
    return write_frame(&self->head, number, digits, &self->middle, text, &self->tail);
}

static PyObject *
frames_characters(DeltaFrames *self, PyObject *unused)
{
    return PyLong_FromSsize_t(self->characters);
}

static PyMethodDef frames_methods[] = {
    {"write", (PyCFunction)frames_write, METH_O, "Return the frame of a text."},
    {"characters", (PyCFunction)frames_characters, METH_NOARGS, "Return those written so far."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot frames_slots[] = {
    {Py_tp_doc, "Writes texts between fixed bytes; see `delta_frames`."},
    {Py_tp_new, frames_new},
    {Py_tp_dealloc, frames_dealloc},
    {Py_tp_traverse, frames_traverse},
    {Py_tp_clear, frames_clear},
    {Py_tp_methods, frames_methods},
    {0, NULL},
};

static PyType_Spec frames_spec = {
    .name = "streamnorm._core.codec._kernel.DeltaFrames",
    .basicsize = sizeof(DeltaFrames),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = frames_slots,
};

/* ---- The module ----------------------------------------------------------------------------- */

static PyObject *
setup(PyObject *module, PyObject *args)
{
    PyObject *decode, *errors;
    if (!PyArg_ParseTuple(args, "OOnnnn", &decode, &errors, &max_fresh, &batch, &long_chars,
                          &max_digits))
        return NULL;
    replace(&decode_string, Py_NewRef(decode));
    replace(&fast_errors, Py_NewRef(errors));
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"setup", setup, METH_VARARGS, "Set what the twins in Python have as constants."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "streamnorm._core.codec._kernel",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC
PyInit__kernel(void)
{
    struct { PyObject **name; const char *text; } names[] = {
        {&name_carries, "carries"}, {&name_irregular, "is_irregular"}, {&name_held, "held"},
        {&name_safe_bytes, "safe_bytes"}, {&name_frames, "frames"},
        {&name_original, "holds_original"}, {&name_delta, "delta"}, {&name_counts, "counts"},
        {&name_counts_before, "counts_before"}, {&name_next_number, "next_number"},
        {&name_next, "next"}, {&name_last_event, "last_event"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if ((*names[i].name = PyUnicode_InternFromString(names[i].text)) == NULL)
            return NULL;
    empty_bytes = PyBytes_FromStringAndSize("", 0);
    empty_text = PyUnicode_FromStringAndSize("", 0);
    if (empty_bytes == NULL || empty_text == NULL)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    PyType_Spec *specs[] = {&reader_spec, &frames_spec};
    for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
        PyObject *type = PyType_FromSpec(specs[i]);
        if (type == NULL || PyModule_AddType(module, (PyTypeObject *)type) < 0) {
            Py_XDECREF(type);
            Py_DECREF(module);
            return NULL;
        }
        Py_DECREF(type);
    }
    if (PyModule_AddStringConstant(module, "SOURCE", KERNEL_SOURCE) < 0)
        Py_CLEAR(module);
    return module;
}
