# For `npm install` from this folder without CMake: the addon with its own copy of shims/core and proto. Needs the headers of
# libzmq, msgpack-c and OpenSSL. Built into build/Release, where lib/start.js looks second.
{
  "targets": [{
    "target_name": "dovetail",
    "sources": ["<!@(ls *.c ../core/*.c ../../proto/*.c)"],
    "include_dirs": ["."],
    "defines": ["NAPI_VERSION=8", "_GNU_SOURCE", "DOVETAIL_VERSION=\"<!(node -p \"require('./package.json').version\")\""],
    "cflags": ["-std=gnu17", "-fvisibility=hidden", "-fno-omit-frame-pointer", "-Wno-unused-parameter"],
    # nodelete: a signal handler points into it, and environments come and go.
    "ldflags": ["-Wl,-z,nodelete"],
    # Debian 12 calls the C library msgpackc, Debian 13 msgpack-c.
    "libraries": ["-lzmq", "-lcrypto", "<!(ld -shared -lmsgpack-c -o /dev/null 2>/dev/null && echo -lmsgpack-c || echo -lmsgpackc)"]
  }]
}
