/*
 * table: marks in the memory shared with lane.c (struct dvt_node_mark). A mark keeps its place until 4,096 later ones
 * were written; then it is written again when its scope is next opened. Nothing here holds on to a mark.
 */
'use strict';

const WORDS = 8, MARK_WORDS = 10, MARKS = 4096; // lane.h
const HEX = new Uint8Array(128);
for (let i = 0; i < 16; i++) {
  HEX['0123456789abcdef'.charCodeAt(i)] = i;
  HEX['0123456789ABCDEF'.charCodeAt(i)] = i;
}

/* Eight hex digits as a word whose bytes in memory (little-endian) are in the digits' order. */
function word(hex, at) {
  return HEX[hex.charCodeAt(at) & 127] << 4 | HEX[hex.charCodeAt(at + 1) & 127] |
         HEX[hex.charCodeAt(at + 2) & 127] << 12 | HEX[hex.charCodeAt(at + 3) & 127] << 8 |
         HEX[hex.charCodeAt(at + 4) & 127] << 20 | HEX[hex.charCodeAt(at + 5) & 127] << 16 |
         HEX[hex.charCodeAt(at + 6) & 127] << 28 | HEX[hex.charCodeAt(at + 7) & 127] << 24;
}

class Table {
  constructor(buffer) {
    this.words = new Int32Array(buffer);
    this.owners = new Float64Array(MARKS); // serial of the mark that has the place
    this.serial = 0;
  }

  /* Makes sure that the mark is in the table; its place. */
  place(mark) {
    if (mark.serial !== 0 && this.owners[mark.place] === mark.serial) return mark.place;
    mark.serial = ++this.serial;
    mark.place = this.serial % MARKS;
    this.owners[mark.place] = mark.serial;
    this.write(mark, WORDS + mark.place * MARK_WORDS);
    return mark.place;
  }

  write(mark, at) {
    const w = this.words;
    w[at] = word(mark.traceId, 0);
    w[at + 1] = word(mark.traceId, 8);
    w[at + 2] = word(mark.traceId, 16);
    w[at + 3] = word(mark.traceId, 24);
    w[at + 4] = mark.spanId === '' ? 0 : word(mark.spanId, 0);
    w[at + 5] = mark.spanId === '' ? 0 : word(mark.spanId, 8);
    w[at + 6] = mark.parentId === '' ? 0 : word(mark.parentId, 0);
    w[at + 7] = mark.parentId === '' ? 0 : word(mark.parentId, 8);
    w[at + 8] = mark.flags;
    w[at + 9] = mark.nameId;
  }
}

module.exports = {Table};
