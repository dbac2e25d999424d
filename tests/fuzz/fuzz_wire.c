/*
 * fuzz_wire: any bytes as an envelope and as a body. What a decoder accepts is read to its last byte and held
 * to what wire.h promises.
 */
#include "../wire_make.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dvt_envelope env;
    struct dvt_err err;
    if (dvt_wire_open(data, size, &env, &err) == 0) {
        (void)dvt_wire_verify(&env, wire_key); /* either answer is fine: the body is read all the same */
        (void)read_body(env.body.p, env.body.n, &err);
    }
    (void)read_body(data, size, &err);
    return 0;
}
