/*
 * py: small helpers over the Python API that never leave an exception behind.
 */
#include "py.h"

bool dvt_py_enabled;
PyInterpreterState *dvt_py_main_interp;
bool dvt_py_vars_used;

PyObject *dvt_py_loaded_attr(const char *module, const char *attr)
{
    PyObject *m = PyDict_GetItemString(PyImport_GetModuleDict(), module); /* borrowed */
    PyObject *value = m ? PyObject_GetAttrString(m, attr) : NULL;
    if (!value)
        PyErr_Clear();
    return value;
}

bool dvt_py_int_bytes(PyObject *value, uint8_t *out, size_t n)
{
    if (!PyLong_Check(value))
        return false;
#if PY_VERSION_HEX >= 0x030D0000
    int rc = _PyLong_AsByteArray((PyLongObject *)value, out, n, 0, 0, 1);
#else
    int rc = _PyLong_AsByteArray((PyLongObject *)value, out, n, 0, 0);
#endif
    if (rc)
        PyErr_Clear();
    return rc == 0;
}

bool dvt_py_utf8(PyObject *str, struct dvt_str *ret)
{
    if (!str || !PyUnicode_Check(str))
        return false;
    Py_ssize_t n;
    const char *p = PyUnicode_AsUTF8AndSize(str, &n);
    if (!p) {
        PyErr_Clear();
        return false;
    }
    *ret = (struct dvt_str){p, (size_t)n};
    return true;
}
