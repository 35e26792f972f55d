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
static PyObject *limit_error;    /* what a sink raises whose limit a text exceeds */
static Py_ssize_t max_fresh, batch, long_chars, max_digits;
static PyObject *name_held, *name_plain, *name_frames, *name_original,
    *name_delta, *name_counts, *name_counts_before, *name_next_number, *name_next, *name_last_event,
    *name_sinks, *name_known, *name_index, *name_select, *name_skip, *name_fail, *empty_bytes;

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

static void
set_bytes(Bytes *bytes, PyObject *value)
{
    bytes->owner = Py_NewRef(value);
    bytes->start = PyBytes_AsString(value);
    bytes->size = PyBytes_Size(value);
}

/* Define a type whose objects and bytes stand between the first and the last of each. */
#define TYPE(Type, prefix, first_object, last_object, first_bytes, last_bytes, text)           \
    static int prefix##_traverse(Type *self, visitproc visit, void *arg)                       \
    {                                                                                          \
        Py_VISIT(Py_TYPE((PyObject *)self));                                                   \
        for (PyObject **each = &self->first_object; each <= &self->last_object; each++)        \
            Py_VISIT(*each);                                                                   \
        return 0;                                                                              \
    }                                                                                          \
    static int prefix##_clear(Type *self)                                                      \
    {                                                                                          \
        for (PyObject **each = &self->first_object; each <= &self->last_object; each++)        \
            Py_CLEAR(*each);                                                                   \
        return 0;                                                                              \
    }                                                                                          \
    static void prefix##_dealloc(Type *self)                                                   \
    {                                                                                          \
        PyTypeObject *type = Py_TYPE((PyObject *)self);                                        \
        PyObject_GC_UnTrack(self);                                                             \
        prefix##_clear(self);                                                                  \
        for (Bytes *bytes = &self->first_bytes; bytes <= &self->last_bytes; bytes++)           \
            Py_CLEAR(bytes->owner);                                                            \
        ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);                                    \
        Py_DECREF(type);                                                                       \
    }                                                                                          \
    static PyType_Slot prefix##_slots[] = {                                                    \
        {Py_tp_doc, text}, {Py_tp_new, prefix##_new}, {Py_tp_methods, prefix##_methods},       \
        {Py_tp_dealloc, prefix##_dealloc}, {Py_tp_traverse, prefix##_traverse},                \
        {Py_tp_clear, prefix##_clear}, {0, NULL},                                              \
    };                                                                                         \
    static PyType_Spec prefix##_spec = {                                                       \
        .name = "streamnorm._core.codec._kernel." #Type, .basicsize = sizeof(Type),            \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, .slots = prefix##_slots,             \
    };

/* Return a new object; NULL with an exception. */
static void *
allocate(PyTypeObject *type)
{
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

/* Append a text to a list that has room for it; call `append` for any other.  -1 with an
 * exception. */
static int
store(PyObject *list, Py_ssize_t room, PyObject *append, PyObject *text, Py_ssize_t characters)
{
    if (PyList_Size(list) < room && characters <= long_chars)
        return PyList_Append(list, text);
    PyObject *appended = PyObject_CallFunctionObjArgs(append, text, NULL);
    Py_XDECREF(appended);
    return appended == NULL ? -1 : 0;
}

#define IS_DIGIT(c) ((c) >= '0' && (c) <= '9')
#define IS_ALNUM(c) (IS_DIGIT(c) || ((c) >= 'a' && (c) <= 'z') || ((c) >= 'A' && (c) <= 'Z'))

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
static inline char
unescaped(char c)
{
    static const char letters[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    const char *found = c ? strchr(letters, c) : NULL;
    return found == NULL ? 0 : characters[found - letters];
}

/* Let msgspec decode a string, quotes included.  NULL without an exception if it is none. */
static PyObject *
decode_unusual(const char *quoted, Py_ssize_t size)
{
    PyObject *text = PyObject_CallFunction(decode_string, "y#", quoted, size);
    if (text == NULL && PyErr_ExceptionMatches(fast_errors))
        PyErr_Clear();
    return text;
}

/* Return the text between two quotes.  NULL without an exception if it is no string. */
static PyObject *
decode_text(const char *start, Py_ssize_t size)
{
    const char *end = start + size, *at = plain_end(start, end), *plain = start;
    char room[512], *out = room;
    if (at < end) {
        if (size > (Py_ssize_t)sizeof(room) || *at != '\\')
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
    for (const char *from = start; ; from = at + 1) {
        at = plain_end(from, end);
        out = put(out, from, at - from);
        if (at == end)
            break;
        unsigned char c = (unsigned char)*at;
        char letter = c < 0x20 ? CONTROLS[c] : (char)c;
        *out++ = '\\';
        if (c < 0x20 && letter == 'u')
            out += PyOS_snprintf(out, 6, "u%04x", c);  /* the NUL behind it is overwritten */
        else
            *out++ = letter;
    }
    *out++ = '"';
    memcpy(out, tail->start, (size_t)tail->size);
    return frame;
}

/* ---- Attributes ---------------------------------------------------------------------------- */

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

/* Add to the value of an attribute, and return the value before; -1 with an exception. */
static Py_ssize_t
add(PyObject *object, PyObject *name, Py_ssize_t more)
{
    Py_ssize_t before = size_of(object, name);
    PyObject *value = before < 0 ? NULL : PyLong_FromSsize_t(before + more);
    if (value == NULL || PyObject_SetAttr(object, name, value) < 0)
        before = -1;
    Py_XDECREF(value);
    return before;
}

/* Set an attribute to bytes.  -1 with an exception. */
static int
set_slice(PyObject *object, PyObject *name, const char *start, Py_ssize_t size)
{
    PyObject *value = PyBytes_FromStringAndSize(start, size);
    int failed = value == NULL || PyObject_SetAttr(object, name, value) < 0;
    Py_XDECREF(value);
    return failed ? -1 : 0;
}

/* ---- DeltaFrames ---------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Bytes head, middle, tail;
    PyObject *fresh, *append;  /* of what stores the texts; NULL if nothing does */
    PyObject *numbers;  /* has the number of the next event, between head and middle; or NULL */
    Py_ssize_t characters;
} DeltaFrames;

static PyObject *
frames_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *head, *tail, *stored, *numbers = Py_None, *middle = empty_bytes;
    if (!PyArg_ParseTuple(args, "SSO|OS:DeltaFrames", &head, &tail, &stored, &numbers, &middle))
        return NULL;
    DeltaFrames *self = allocate(type);
    if (self == NULL)
        return NULL;
    self->numbers = numbers == Py_None ? NULL : Py_NewRef(numbers);
    set_bytes(&self->head, head);
    set_bytes(&self->middle, middle);
    set_bytes(&self->tail, tail);
    if (stored != Py_None && ((self->fresh = PyObject_GetAttrString(stored, "fresh")) == NULL ||
                              (self->append = PyObject_GetAttrString(stored, "append")) == NULL))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *
frames_write(DeltaFrames *self, PyObject *text)
{
    Py_ssize_t characters = PyUnicode_GetLength(text);
    /* As `TextBuffer.append` does, which ends a batch. */
    if (characters < 0 || (self->append != NULL &&
                           store(self->fresh, batch - 1, self->append, text, characters) < 0))
        return NULL;
    if (self->head.size == 0)  /* the texts are stored, and written later */
        Py_RETURN_NONE;
    self->characters += characters;
    char number[24];
    int digits = 0;
    if (self->numbers != NULL) {
        Py_ssize_t value = add(self->numbers, name_next_number, 1);
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

TYPE(DeltaFrames, frames, fresh, numbers, head, tail,
     "Writes texts between fixed bytes; see `delta_frames`.")

/* ---- TemplateReader ------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Bytes prefix, head, middle, tail, end, between, behind;
    int repeats, spaced, has_ids;
    PyObject *run, *known, *otherwise;
    PyObject *framing, *leave;         /* of reads, and what reads the rest; or NULL, None */
    PyObject *numbers;                 /* or ids, between tail and end; NULL without */
    PyObject *delta, *extend, *fresh;  /* of the block whose head came last */
    int takes_inner;                   /* whether `fresh` takes such fragments alone */
} TemplateReader;

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
    PyObject *run, *known, *parts[7], *otherwise, *framing, *leave, *numbers;
    int repeats, spaced, has_ids;
    if (!PyArg_ParseTuple(args, "OO!SSSSSSSppOOOOp:TemplateReader", &run, &PyDict_Type, &known,
                          parts, parts + 1, parts + 2, parts + 3, parts + 4, parts + 5, parts + 6,
                          &repeats, &spaced, &otherwise, &framing, &leave, &numbers, &has_ids))
        return NULL;
    PyObject *entry = PyDict_GetItemWithError(known, parts[1]);
    if (entry == NULL)
        return PyErr_Format(PyExc_ValueError, "head of no block");
    TemplateReader *self = allocate(type);
    if (self == NULL)
        return NULL;
    self->repeats = repeats;
    self->spaced = spaced;
    self->has_ids = has_ids;
    self->run = Py_NewRef(run);
    self->known = Py_NewRef(known);
    self->otherwise = Py_NewRef(otherwise);
    self->framing = framing == Py_None ? NULL : Py_NewRef(framing);
    self->leave = Py_NewRef(leave);
    self->numbers = numbers == Py_None ? NULL : Py_NewRef(numbers);
    for (int i = 0; i < 7; i++)
        set_bytes(&self->prefix + i, parts[i]);
    if (select_block(self, entry) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Return the place behind some bytes; NULL if they do not stand at `at`, or that is NULL. */
static inline const char *
behind(const char *at, const char *stop, const Bytes *bytes)
{
    if (at == NULL || stop - at < bytes->size || memcmp(at, bytes->start, (size_t)bytes->size) != 0)
        return NULL;
    return at + bytes->size;
}

/* Return the place behind the head of a block; NULL if there is none. */
static const char *
behind_head(TemplateReader *self, const char *at, const char *stop)
{
    const char *found = behind(at, stop, &self->head);
    PyObject *head, *entry;
    Py_ssize_t place = 0, size = self->head.size;
    if (found != NULL || stop - at < size)
        return found;
    while (PyDict_Next(self->known, &place, &head, &entry)) {  /* a few, differing in a digit */
        if (PyBytes_Size(head) != size || memcmp(at, PyBytes_AsString(head), (size_t)size) != 0)
            continue;
        if (select_block(self, entry) < 0)
            return NULL;
        replace(&self->head.owner, Py_NewRef(head));
        self->head.start = PyBytes_AsString(head);
        return at + size;
    }
    return NULL;
}

/* Return the place behind a number, and the number; NULL if there is none.  No other number begins
 * with 0 (RFC 8259, section 6). */
static const char *
behind_number(const char *at, const char *stop, long long *number)
{
    const char *start = at;
    for (*number = 0; at != NULL && at < stop && IS_DIGIT(*at) && at - start < max_digits; at++)
        *number = *number * 10 + (*at - '0');
    return at == start || (*start == '0' && at - start > 1) ? NULL : at;
}

/* Return the place behind the next event's number, or behind an id; NULL if it is another. */
static const char *
behind_event_number(TemplateReader *self, const char *at, const char *stop)
{
    const char *start = at;
    long long number;
    if (self->numbers == NULL || at == NULL)
        return at;
    if (self->has_ids) {  /* of what stands for itself in a string */
        while (at < stop && *at > ' ' && *at < 0x7f && *at != '"' && *at != '\\')
            at++;
        return at > start ? at : NULL;
    }
    at = behind_number(start, stop, &number);
    Py_ssize_t next = size_of(self->numbers, name_next);
    if (next < 0)  /* none, or one beyond 64 bits */
        PyErr_Clear();
    return number == next ? at : NULL;
}

/* Where the variable parts of an event begin and end. */
typedef struct {
    const char *text, *text_end, *first, *first_end, *second, *second_end;
} Places;

/* Return the place behind the payload of an event; NULL if it does not fit. */
static const char *
behind_payload(TemplateReader *self, const char *at, const char *stop, Places *places)
{
    long long first, second;
    if ((at = places->text = behind_head(self, at, stop)) == NULL)
        return NULL;
    for (at = plain_end(at, stop); at < stop && *at == '\\'; at = plain_end(at + 2, stop))
        if (stop - at < 2)
            return NULL;
    places->text_end = at;
    places->first = NULL;
    if (self->middle.size) {
        if ((at = behind(at, stop, &self->middle)) == NULL)
            return NULL;
        if (self->repeats) {
            Bytes text = {NULL, places->text, places->text_end - places->text};
            at = behind(at, stop, &text);
        }
        else if (self->between.size) {
            places->first = at;
            places->first_end = at = behind_number(at, stop, &first);
            places->second = at = behind(at, stop, &self->between);
            places->second_end = at = behind_number(at, stop, &second);
            if (at == NULL || !first || !second ||
                at - places->first > self->between.size + max_digits)
                return NULL;
        }
        else
            while (at < stop && (self->spaced ? *at == ' ' : IS_ALNUM(*at)))
                at++;
    }
    at = behind_event_number(self, behind(at, stop, &self->tail), stop);
    return behind(at, stop, &self->end);
}

/* Return whether a text is an inner fragment, as `is_inner` does. */
static int
is_inner(PyObject *text, Py_ssize_t count)
{
    Py_ssize_t size;
    const char *start = PyUnicode_AsUTF8AndSize(text, &size), *at = start;
    if (start == NULL)  /* a lone surrogate */
        return PyErr_Clear(), 0;
    at += strspn(at, " ");
    if (at == start + size)
        return size > 0 && count > 0;
    unsigned char c = (unsigned char)*at;
    int begins_inside = c < 0x7f ? c > ' ' && c != '{' : (c >= 0xc3 && c <= 0xe0) || c >= 0xe4;
    return begins_inside && memchr(at, '}', (size_t)(start + size - at)) == NULL;
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

/* Name the block and the counts in the run.  -1 with an exception. */
static int
report(TemplateReader *self, const Places *places)
{
    if (self->delta == Py_None)
        return 0;
    if (PyObject_SetAttr(self->run, name_delta, self->delta) < 0)
        return -1;
    if (places->first == NULL)
        return 0;
    PyObject *before = PyObject_GetAttr(self->run, name_counts);
    PyObject *counts = Py_BuildValue(
        "(y#Oy#)", places->first, places->first_end - places->first, self->between.owner,
        places->second, places->second_end - places->second);
    int failed = before == NULL || counts == NULL ||
                 PyObject_SetAttr(self->run, name_counts_before, before) < 0 ||
                 PyObject_SetAttr(self->run, name_counts, counts) < 0;
    Py_XDECREF(before);
    Py_XDECREF(counts);
    return failed ? -1 : 0;
}

/* Return the text of an event that fits.  NULL without an exception if it is none, or may do more
 * than extend its block. */
static PyObject *
take_text(TemplateReader *self, const Places *places)
{
    PyObject *text = decode_text(places->text, places->text_end - places->text);
    if (text != NULL &&
        (extend_block(self, text) < 1 || report(self, places) < 0 ||
         (self->numbers != NULL && !self->has_ids && add(self->numbers, name_next, 1) < 0)))
        Py_CLEAR(text);
    return text;
}

/* Return the text of a payload that fits; what `otherwise` returns if it does not. */
static PyObject *
reader_read(TemplateReader *self, PyObject *data)
{
    char *start;
    Py_ssize_t size;
    Places places;
    if (PyBytes_AsStringAndSize(data, &start, &size) < 0)
        return NULL;
    int fits = behind_payload(self, start, start + size, &places) == start + size;
    PyObject *text = fits ? take_text(self, &places) : NULL;
    if (text != NULL && self->numbers != NULL &&
        PyObject_SetAttr(self->numbers, name_last_event, data) < 0)
        Py_CLEAR(text);
    if (text != NULL || PyErr_Occurred())
        return text;
    return PyObject_CallFunctionObjArgs(self->otherwise, data, NULL);
}

/* Return the sinks of a block: those that the consumer knows, else those that it makes. */
static PyObject *
select_sinks(PyObject *consumer, PyObject *delta)
{
    PyObject *known = PyObject_GetAttr(consumer, name_known);
    PyObject *index = known == NULL ? NULL : PyObject_GetAttr(delta, name_index);
    PyObject *sinks = index == NULL ? NULL : PyDict_GetItemWithError(known, index);
    if (sinks != NULL && PyTuple_GetItem(sinks, 0) == delta)
        Py_INCREF(sinks);
    else if (!PyErr_Occurred())
        sinks = PyObject_CallMethodObjArgs(consumer, name_select, delta, NULL);
    Py_XDECREF(known);
    Py_XDECREF(index);
    return sinks;
}

/* Pass a text to the sinks of a consumer, which are selected if they are another block's.  -1 with
 * an exception. */
static int
pass_text(TemplateReader *self, PyObject *text, PyObject *out, PyObject *consumer, PyObject **sinks)
{
    Py_ssize_t characters = PyUnicode_GetLength(text);
    PyObject *delta, *parts[4], *done;
    if (characters == 0) {
        Py_XDECREF(done = PyObject_CallMethodObjArgs(consumer, name_skip, NULL));
        return done == NULL ? -1 : 0;
    }
    delta = self->delta != Py_None ? Py_NewRef(self->delta)
                                   : PyObject_GetAttr(self->run, name_delta);
    if (delta != NULL && PyTuple_GetItem(*sinks, 0) != delta)
        replace(sinks, select_sinks(consumer, delta));
    Py_XDECREF(delta);
    if (delta == NULL || *sinks == NULL)
        return -1;
    for (Py_ssize_t i = 1; i < 4; i++)
        if ((parts[i] = PyTuple_GetItem(*sinks, i)) == NULL)
            return -1;
    if (parts[1] != Py_None && store(parts[2], batch, parts[1], text, characters) < 0)
        return -1;
    if (parts[3] == Py_None)
        return 0;
    int is_ours = PyCFunction_Check(parts[3]) &&
                  PyCFunction_GetFunction(parts[3]) == (PyCFunction)frames_write;
    done = is_ours ? frames_write((DeltaFrames *)PyCFunction_GetSelf(parts[3]), text)
                   : PyObject_CallFunctionObjArgs(parts[3], text, NULL);
    int failed = done == NULL ||
                 (done != Py_None && !(PyBytes_Check(done) && PyBytes_Size(done) == 0) &&
                  PyList_Append(out, done) < 0);
    Py_XDECREF(done);
    return failed ? -1 : 0;
}

/* Return whether bytes may begin an event of one line behind the prefix, and are no whole one. */
static int
begins_event(TemplateReader *self, const char *at, Py_ssize_t size)
{
    Py_ssize_t known = size < self->prefix.size ? size : self->prefix.size, rest = size - known;
    if (memcmp(at, self->prefix.start, (size_t)known) != 0)
        return 0;
    at += known;
    rest -= rest > 0 && at[rest - 1] == '\n';  /* the end of the line, without the blank one */
    return memchr(at, '\n', (size_t)rest) == NULL && memchr(at, '\r', (size_t)rest) == NULL;
}

/* Let the consumer take the error of a text that exceeds a limit; any other stays.  -1 then. */
static int
report_limit(PyObject *consumer)
{
    PyObject *raised[3], *done;
    if (!PyErr_ExceptionMatches(limit_error))
        return -1;
    PyErr_Fetch(raised, raised + 1, raised + 2);
    PyErr_NormalizeException(raised, raised + 1, raised + 2);
    done = PyObject_CallMethodObjArgs(consumer, name_fail, raised[1], NULL);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(raised[i]);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Pass on the texts of the events of `whole`, which begins with what the framing holds.  Return the
 * bytes behind them that must be split; `data` if they are all.  NULL with an exception. */
static PyObject *
forward_events(TemplateReader *self, PyObject *whole, PyObject *data, PyObject *out,
               PyObject *consumer, PyObject **sinks)
{
    char *start;
    Py_ssize_t size, events = 0, plain_bytes = size_of(self->framing, name_plain);
    if (PyBytes_AsStringAndSize(whole, &start, &size) < 0 || size > plain_bytes)
        return PyErr_Occurred() ? NULL : Py_NewRef(data);
    const char *at = start, *last = start, *next, *stop = start + size;
    int is_held = whole != data, has_failed = 0;
    Places places;
    PyObject *text = NULL;
    while (!has_failed && at < stop &&
           (next = behind(behind_payload(self, at, stop, &places), stop, &self->behind)) != NULL &&
           (text = take_text(self, &places)) != NULL) {
        events++;
        last = at;
        at = next;
        has_failed = pass_text(self, text, out, consumer, sinks) < 0;
        Py_DECREF(text);
    }
    if (has_failed ? report_limit(consumer) < 0 : PyErr_Occurred() != NULL)
        return NULL;
    Py_ssize_t rest = stop - at;
    int begins = !has_failed && rest < plain_bytes && (events > 0 || !is_held) &&
                 begins_event(self, at, rest);
    if (events > 0 && (add(self->framing, name_frames, events) < 0 ||
                       (self->numbers != NULL &&
                        set_slice(self->numbers, name_last_event, last, at - last) < 0)))
        return NULL;
    if (((events > 0 && is_held) || (begins && rest > 0)) &&
        (set_slice(self->framing, name_held, at, begins ? rest : 0) < 0 ||
         PyObject_SetAttr(self->framing, name_original, Py_True) < 0))
        return NULL;
    if (begins)
        return Py_NewRef(empty_bytes);
    PyObject *left = events > 0 ? PyBytes_FromStringAndSize(at, rest) : Py_NewRef(data);
    if (left != NULL && !has_failed)
        replace(&left, PyObject_CallFunctionObjArgs(self->leave, left, out, consumer, NULL));
    return left;
}

/* Forward the events of a read to a consumer: data, out, consumer. */
static PyObject *
reader_forward(TemplateReader *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || self->framing == NULL || !PyBytes_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "expected a read, a list and a consumer");
    PyObject *rest = NULL, *whole = PyObject_GetAttr(self->framing, name_held);
    PyObject *sinks = PyObject_GetAttr(args[2], name_sinks);
    if (whole != NULL)
        replace(&whole, PySequence_Concat(whole, args[0]));
    if (whole != NULL && sinks != NULL)
        rest = forward_events(self, whole, args[0], args[1], args[2], &sinks);
    Py_XDECREF(whole);
    Py_XDECREF(sinks);
    return rest;
}

static PyMethodDef reader_methods[] = {
    {"read", (PyCFunction)reader_read, METH_O, "Return the text of a payload."},
    {"forward", (PyCFunction)(void (*)(void))reader_forward, METH_FASTCALL, "Forward a read."},
    {NULL, NULL, 0, NULL},
};

TYPE(TemplateReader, reader, run, fresh, prefix, behind,
     "Reads the deltas that fit one of the templates; see `Templates.text_reader`.")

/* ---- The module ----------------------------------------------------------------------------- */

static PyObject *
setup(PyObject *module, PyObject *args)
{
    PyObject *decode, *errors, *limit;
    if (!PyArg_ParseTuple(args, "OOOnnnn", &decode, &errors, &limit, &max_fresh, &batch,
                          &long_chars, &max_digits))
        return NULL;
    replace(&decode_string, Py_NewRef(decode));
    replace(&fast_errors, Py_NewRef(errors));
    replace(&limit_error, Py_NewRef(limit));
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
        {&name_held, "held"}, {&name_plain, "plain_bytes"}, {&name_frames, "frames"},
        {&name_original, "holds_original"}, {&name_delta, "delta"}, {&name_counts, "counts"},
        {&name_counts_before, "counts_before"}, {&name_next_number, "next_number"},
        {&name_next, "next"}, {&name_last_event, "last_event"}, {&name_sinks, "sinks"},
        {&name_known, "known"}, {&name_index, "index"}, {&name_select, "select"},
        {&name_skip, "skip"}, {&name_fail, "fail"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if ((*names[i].name = PyUnicode_InternFromString(names[i].text)) == NULL)
            return NULL;
    if ((empty_bytes = PyBytes_FromStringAndSize("", 0)) == NULL)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    PyType_Spec *specs[] = {&reader_spec, &frames_spec};
    for (size_t i = 0; module != NULL && i < sizeof(specs) / sizeof(*specs); i++) {
        PyObject *type = PyType_FromSpec(specs[i]);
        if (type == NULL || PyModule_AddType(module, (PyTypeObject *)type) < 0)
            Py_CLEAR(module);
        Py_XDECREF(type);
    }
    if (module != NULL && PyModule_AddStringConstant(module, "SOURCE", KERNEL_SOURCE) < 0)
        Py_CLEAR(module);
    return module;
}
