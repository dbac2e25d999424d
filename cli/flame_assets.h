/* flame_assets: flame.js and flame.css as embedded at build time (embed.cmake). ASCII. */
#ifndef FLAME_ASSETS_H
#define FLAME_ASSETS_H

#include <stddef.h>

extern const char flame_js[], flame_css[]; /* NUL-terminated */
extern const size_t flame_js_bytes, flame_css_bytes;

#endif
